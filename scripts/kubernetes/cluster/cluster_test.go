package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const shards = 3

var certifyFlags = []string{"certify", "--model", "cnn.onnx", "--data", "mnist", "--sigma", "0.5", "--n", "5000", "--max", "60", "--seed", "18", "--out", "run"}

// The function 'needs' returns the path of rscert and the folder of the control plane's programs. The command 'make
// kubernetes-cluster' passes them in environment variables.
func needs(t *testing.T) (rscert, bin string) {
	t.Helper()
	rscert, bin = os.Getenv("RSCERT"), os.Getenv("KUBERNETES_BIN")
	if rscert == "" || bin == "" {
		t.Skip("RSCERT and KUBERNETES_BIN do not name the programs; 'make kubernetes-cluster' does")
	}
	return rscert, bin
}

func output(t *testing.T, dir string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v", name, args, err)
	}
	return string(out)
}

// volume makes a folder with a model and data. The folder stands for the volume of the PersistentVolumeClaim.
func volume(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for from, to := range map[string]string{"mnist-cnn.onnx": "cnn.onnx", "mnist": "mnist"} {
		path, err := filepath.Abs("../../../testdata/" + from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The test splits a run into three pods, of which one is killed and one is evicted. A fourth pod merges their results.
// The merged run must equal a run that was never split.
func TestIndexedJobRuns(t *testing.T) {
	rscert, bin := needs(t)
	p, work := startControlPlane(t, bin), volume(t)
	client := p.client(t)
	k := &kubelet{t: t, client: client, rscert: rscert, fault: func(pod *core.Pod, attempt int) fault {
		what := map[string]fault{"1": killed, "2": evicted}[pod.Annotations[indexKey]]
		if attempt > 1 || what == none || pod.Labels["batch.kubernetes.io/job-name"] != "rscert" {
			return none
		}
		lines, _ := os.ReadFile(filepath.Join(work, "run.shards", "part"+pod.Annotations[indexKey], "certificates.jsonl"))
		if bytes.Count(lines, []byte("\n")) < 3 {
			return none
		}
		return what
	}}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() { k.run(ctx); close(served) }()
	defer func() { stop(); <-served }()

	manifest := func(more ...string) string {
		flags := []string{"kubernetes", "--shards", fmt.Sprint(shards), "--image", "me/rscert:1", "--claim", "work", "--mount", work, "--cpus", "1"}
		return output(t, work, rscert, append(append(append(flags, more...), "--"), certifyFlags...)...)
	}
	do := func(input string, args ...string) {
		t.Helper()
		out, err := p.kubectl(t, input, args...)
		if err != nil {
			t.Fatalf("kubectl %q: %v\n%s", args, err, out)
		}
		if strings.Contains(strings.ToLower(out), "warning") {
			t.Errorf("kubectl %q: %s", args, out)
		}
	}
	// With --dry-run=server, the API server checks every field and refuses unknown fields.
	do(manifest("--gpus", "2", "--at-once", "2", "--retries", "5", "--memory", "16Gi"), "create", "--dry-run=server", "--validate=strict", "-f", "-")
	wrong := strings.Replace(manifest(), "backoffLimitPerIndex", "backoffLimitPerIndexes", 1)
	if out, err := p.kubectl(t, wrong, "create", "--dry-run=server", "--validate=strict", "-f", "-"); err == nil {
		t.Errorf("the server takes a field that it does not know: %s", out)
	}

	do(manifest(), "apply", "--validate=strict", "-f", "-")
	do("", "wait", "--for=condition=complete", "--timeout=300s", "job/rscert")
	job, err := client.BatchV1().Jobs(namespace).Get(t.Context(), "rscert", meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := job.Status; s.Succeeded != shards || s.CompletedIndexes != "0-2" || s.Failed != 1 { // the eviction does not count as a failure
		t.Errorf("%+v", s)
	}
	do(manifest("--merge"), "apply", "--validate=strict", "-f", "-")
	do("", "wait", "--for=condition=complete", "--timeout=100s", "job/rscert-merge")

	var exits [shards][]int
	for _, r := range k.ran {
		if r.job != "rscert" {
			continue
		}
		exits[r.index] = append(exits[r.index], r.exit)
		if out := fmt.Sprintf("--out=run.shards/part%d", r.index); !slices.Contains(r.command, out) || !slices.Contains(r.command, "--threads=1") {
			t.Errorf("shard %d ran %q", r.index, r.command)
		}
	}
	if !slices.Equal(exits[0], []int{0}) || !slices.Equal(exits[1], []int{137, 0}) || !slices.Equal(exits[2], []int{137, 0}) {
		t.Errorf("exit codes by shard: %v\n%+v", exits, k.ran)
	}
	single := slices.Clone(certifyFlags)
	single[len(single)-1] = "single"
	output(t, work, rscert, append(single, "--quiet")...)
	for _, name := range []string{"votes.jsonl", "certificates.jsonl"} {
		got, err1 := os.ReadFile(filepath.Join(work, "run", name))
		want, err2 := os.ReadFile(filepath.Join(work, "single", name))
		if err1 != nil || err2 != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not that of the run that was never split: %v %v", name, err1, err2)
		}
	}
}

// If the input is wrong, every shard must fail immediately, and no pod may restart.
func TestWrongInputIsNotTriedAgain(t *testing.T) {
	rscert, bin := needs(t)
	p, work := startControlPlane(t, bin), volume(t)
	client := p.client(t)
	k := &kubelet{t: t, client: client, rscert: rscert}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() { k.run(ctx); close(served) }()
	defer func() { stop(); <-served }()
	manifest := output(t, work, rscert, "kubernetes", "--shards", fmt.Sprint(shards), "--image", "me/rscert:1", "--claim", "work", "--mount", work,
		"--name", "wrong", "--", "certify", "--model", "missing.onnx", "--data", "mnist", "--sigma", "0.5", "--seed", "18", "--out", "run")
	if out, err := p.kubectl(t, manifest, "apply", "--validate=strict", "-f", "-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := p.kubectl(t, "", "wait", "--for=condition=failed", "--timeout=100s", "job/wrong"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	job, err := client.BatchV1().Jobs(namespace).Get(t.Context(), "wrong", meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	failed := func(c batch.JobCondition) bool {
		return c.Type == batch.JobFailed && c.Reason == batch.JobReasonFailedIndexes
	}
	if s := job.Status; s.FailedIndexes == nil || *s.FailedIndexes != "0-2" || s.Failed != shards || !slices.ContainsFunc(s.Conditions, failed) {
		t.Errorf("%+v", s)
	}
	if len(k.ran) != shards {
		t.Errorf("%d containers ran: %+v", len(k.ran), k.ran)
	}
	for _, r := range k.ran {
		if r.exit != 2 {
			t.Errorf("shard %d ended with %d: %s", r.index, r.exit, r.log)
		}
	}
}
