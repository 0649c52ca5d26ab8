package cluster

import (
	"fmt"
	"path"
	"strings"
)

// IndexedJob is a run of certify as an Indexed Job of Kubernetes: a pod a shard, on one volume.
type IndexedJob struct {
	Name    string
	Image   string // with rscert as its entry point's program, on the PATH
	Claim   string // PersistentVolumeClaim with model and data, for the results too
	Mount   string // of the volume; pods run in it
	Shards  int
	AtOnce  int // pods at a time; 0: all
	Retries int // of a shard
	CPUs    int // of a pod
	GPUs    int // of a pod
	FSGroup int // group that the volume is given to; 0: it is left as it is
	Memory  string
	Seed    uint64
	Out     string   // the merged run folder, as the pods see it
	Certify []string // flags, but those that the shards set

	OwnThreads bool // Certify says how many threads
}

// Manifest is a Job of batch/v1, of which it has what IndexedJob sets.
type Manifest struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       jobSpec  `json:"spec"`
}

type metadata struct {
	Name string `json:"name"`
}

type jobSpec struct {
	CompletionMode       string            `json:"completionMode,omitempty"`
	Completions          int               `json:"completions,omitempty"`
	Parallelism          int               `json:"parallelism,omitempty"`
	BackoffLimit         *int              `json:"backoffLimit,omitempty"`
	BackoffLimitPerIndex *int              `json:"backoffLimitPerIndex,omitempty"`
	PodFailurePolicy     *podFailurePolicy `json:"podFailurePolicy,omitempty"`
	Template             podTemplate       `json:"template"`
}

type podFailurePolicy struct {
	Rules []failureRule `json:"rules"`
}

type failureRule struct {
	Action          string         `json:"action"`
	OnExitCodes     *exitCodes     `json:"onExitCodes,omitempty"`
	OnPodConditions []podCondition `json:"onPodConditions,omitempty"`
}

type exitCodes struct {
	ContainerName string `json:"containerName"`
	Operator      string `json:"operator"`
	Values        []int  `json:"values"`
}

type podCondition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

type podTemplate struct {
	Spec podSpec `json:"spec"`
}

type podSpec struct {
	RestartPolicy string       `json:"restartPolicy"`
	Security      *podSecurity `json:"securityContext,omitempty"`
	Containers    []container  `json:"containers"`
	Volumes       []volume     `json:"volumes"`
}

type podSecurity struct {
	FSGroup int    `json:"fsGroup"`
	Change  string `json:"fsGroupChangePolicy"`
}

type container struct {
	Name         string        `json:"name"`
	Image        string        `json:"image"`
	Command      []string      `json:"command"`
	WorkingDir   string        `json:"workingDir"`
	Env          []variable    `json:"env,omitempty"`
	Resources    resources     `json:"resources"`
	VolumeMounts []volumeMount `json:"volumeMounts"`
}

type variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type resources struct {
	Requests amounts `json:"requests"`
	Limits   amounts `json:"limits"`
}

type amounts struct {
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
	GPU    string `json:"nvidia.com/gpu,omitempty"`
}

type volumeMount struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
}

type volume struct {
	Name  string `json:"name"`
	Claim claim  `json:"persistentVolumeClaim"`
}

type claim struct {
	Name string `json:"claimName"`
}

// containerName is that of the pods' only container.
const containerName = "rscert"

// Manifest is the Job that samples the shards. A shard that fails begins again, Retries times, and goes on where it
// stopped; wrong input (exit code 2) is not tried again, and a pod that its node lost counts as no failure.
func (j IndexedJob) Manifest() Manifest {
	words := []string{"rscert", "certify"}
	for _, flag := range j.Certify {
		words = append(words, literal(flag))
	}
	words = append(words, "--quiet", "--resume", fmt.Sprintf("--seed=%d", j.Seed), "--shard=auto",
		"--out="+literal(j.part())+"$(JOB_COMPLETION_INDEX)")
	if !j.OwnThreads {
		words = append(words, fmt.Sprintf("--threads=%d", j.CPUs))
	}
	m := j.job(j.Name, words, j.GPUs)
	m.Spec.CompletionMode, m.Spec.Completions, m.Spec.Parallelism = "Indexed", j.Shards, j.Shards
	if j.AtOnce > 0 {
		m.Spec.Parallelism = min(j.AtOnce, j.Shards)
	}
	m.Spec.BackoffLimitPerIndex = &j.Retries
	m.Spec.PodFailurePolicy = &podFailurePolicy{[]failureRule{
		{Action: "FailIndex", OnExitCodes: &exitCodes{containerName, "In", []int{wrongInput}}},
		{Action: "Ignore", OnPodConditions: []podCondition{{"DisruptionTarget", "True"}}},
	}}
	m.Spec.Template.Spec.Containers[0].Env = []variable{{ShardsVariable, fmt.Sprint(j.Shards)}}
	return m
}

// Merge is the Job that merges the shards.
func (j IndexedJob) Merge() Manifest {
	words := []string{"rscert", "merge"}
	for i := range j.Shards {
		words = append(words, literal(fmt.Sprint(j.part(), i)))
	}
	m := j.job(j.Name+"-merge", append(words, "--quiet", "--out="+literal(path.Clean(j.Out))), 0)
	m.Spec.BackoffLimit = new(int)
	return m
}

// part is the run folder of a shard, without its number.
func (j IndexedJob) part() string { return path.Clean(j.Out) + ".shards/part" }

func (j IndexedJob) job(name string, words []string, gpus int) Manifest {
	a := amounts{CPU: fmt.Sprint(j.CPUs), Memory: j.Memory}
	limits := a
	if gpus > 0 {
		limits.GPU = fmt.Sprint(gpus)
	}
	var security *podSecurity
	if j.FSGroup > 0 {
		security = &podSecurity{j.FSGroup, "OnRootMismatch"} // and not file by file at every start
	}
	return Manifest{
		APIVersion: "batch/v1", Kind: "Job", Metadata: metadata{name},
		Spec: jobSpec{Template: podTemplate{podSpec{
			RestartPolicy: "Never", // which podFailurePolicy asks for
			Security:      security,
			Containers: []container{{
				Name: containerName, Image: j.Image, Command: words, WorkingDir: j.Mount, Resources: resources{a, limits},
				VolumeMounts: []volumeMount{{"work", j.Mount}},
			}},
			Volumes: []volume{{"work", claim{j.Claim}}},
		}}},
	}
}

// literal is a word in which Kubernetes finds no $(VARIABLE).
func literal(word string) string { return strings.ReplaceAll(word, "$", "$$") }
