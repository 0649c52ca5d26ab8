// Package kubernetes decodes the manifests of 'rscert kubernetes' into the types of Kubernetes' own API. Decoding is
// strict, so an unknown field is an error. The package is a separate module, so that rscert does not depend on
// Kubernetes.
package kubernetes

import (
	"os"
	"os/exec"
	"reflect"
	"slices"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// manifest runs 'rscert kubernetes' and returns the manifest.
func manifest(t *testing.T, flags ...string) []byte {
	t.Helper()
	rscert := os.Getenv("RSCERT")
	if rscert == "" {
		t.Skip("RSCERT does not name the program; 'make kubernetes' does")
	}
	args := append([]string{"kubernetes", "--shards", "8", "--image", "me/rscert:1", "--claim", "work"}, flags...)
	args = append(args, "--", "certify", "--model", "c$n.onnx", "--data", "on", "--sigma", "0.5", "--seed", "18", "--out", "a: #b")
	out, err := exec.CommandContext(t.Context(), rscert, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func decode(t *testing.T, text []byte) batch.Job {
	t.Helper()
	var job batch.Job
	if err := yaml.UnmarshalStrict(text, &job); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return job
}

func TestIndexedJob(t *testing.T) {
	flags := []string{"--gpus", "2", "--cpus", "4", "--memory", "16Gi", "--at-once", "3", "--retries", "5", "--name", "true", "--mount", "/data/x", "--fs-group", "65532"}
	job := decode(t, manifest(t, flags...))
	if again := decode(t, manifest(t, append(flags, "--format", "json")...)); !reflect.DeepEqual(job, again) {
		t.Errorf("YAML has\n%v\nJSON\n%v", job, again)
	}
	spec, pod := job.Spec, job.Spec.Template.Spec
	c := pod.Containers[0]
	if job.Kind != "Job" || job.APIVersion != batch.SchemeGroupVersion.String() || job.Name != "true" {
		t.Errorf("%s %s %s", job.APIVersion, job.Kind, job.Name)
	}
	if *spec.CompletionMode != batch.IndexedCompletion || *spec.Completions != 8 || *spec.Parallelism != 3 || *spec.BackoffLimitPerIndex != 5 {
		t.Errorf("%+v", spec)
	}
	want := []batch.PodFailurePolicyRule{
		{Action: batch.PodFailurePolicyActionFailIndex, OnExitCodes: &batch.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: &c.Name, Operator: batch.PodFailurePolicyOnExitCodesOpIn, Values: []int32{2}}},
		{Action: batch.PodFailurePolicyActionIgnore, OnPodConditions: []batch.PodFailurePolicyOnPodConditionsPattern{
			{Type: core.DisruptionTarget, Status: core.ConditionTrue}}},
	}
	if !reflect.DeepEqual(spec.PodFailurePolicy.Rules, want) || pod.RestartPolicy != core.RestartPolicyNever {
		t.Errorf("%+v, %s", spec.PodFailurePolicy, pod.RestartPolicy)
	}
	policy := core.FSGroupChangeOnRootMismatch
	group := int64(65532)
	if !reflect.DeepEqual(pod.SecurityContext, &core.PodSecurityContext{FSGroup: &group, FSGroupChangePolicy: &policy}) {
		t.Errorf("%+v", pod.SecurityContext)
	}
	gpus := c.Resources.Limits["nvidia.com/gpu"]
	memory := c.Resources.Requests[core.ResourceMemory]
	if gpus.Value() != 2 || memory.Value() != 16<<30 || c.Resources.Limits.Cpu().Value() != 4 {
		t.Errorf("%+v", c.Resources)
	}
	if c.VolumeMounts[0].Name != pod.Volumes[0].Name || pod.Volumes[0].PersistentVolumeClaim.ClaimName != "work" ||
		c.VolumeMounts[0].MountPath != "/data/x" || c.WorkingDir != "/data/x" {
		t.Errorf("%+v, %+v", c.VolumeMounts, pod.Volumes)
	}
	for _, word := range []string{"--model=c$$n.onnx", "--data=on", "--out=a: #b.shards/part$(JOB_COMPLETION_INDEX)", "--shard=auto", "--threads=4"} {
		if !slices.Contains(c.Command, word) {
			t.Errorf("no %q in %q", word, c.Command)
		}
	}
	if !reflect.DeepEqual(c.Env, []core.EnvVar{{Name: "RSCERT_SHARDS", Value: "8"}}) {
		t.Errorf("%+v", c.Env)
	}
}

func TestMergeJob(t *testing.T) {
	job := decode(t, manifest(t, "--merge", "--gpus", "1"))
	c := job.Spec.Template.Spec.Containers[0]
	want := []string{"rscert", "merge"}
	for _, i := range "01234567" {
		want = append(want, "a: #b.shards/part"+string(i))
	}
	if want = append(want, "--quiet", "--out=a: #b"); !slices.Equal(c.Command, want) {
		t.Errorf("%q, want %q", c.Command, want)
	}
	if _, gpu := c.Resources.Limits["nvidia.com/gpu"]; gpu || job.Name != "rscert-merge" || job.Spec.CompletionMode != nil || *job.Spec.BackoffLimit != 0 {
		t.Errorf("%+v", job)
	}
}
