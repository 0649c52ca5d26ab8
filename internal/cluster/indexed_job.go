package cluster

import (
	"fmt"
	"path"
	"strings"
)

// IndexedJob is a run of 'certify' as an Indexed Job of Kubernetes. There is one pod per shard, and all pods share one
// volume.
type IndexedJob struct {
	Name    string
	Image   string // container image with rscert on its PATH
	Claim   string // PersistentVolumeClaim for model, data and results
	Mount   string // mount path of the volume, and the pods' working directory
	Shards  int    // number of shards of the run or, in a sweep, of each point
	Points  int    // number of points of a sweep; 0 for a single run
	AtOnce  int    // number of pods that run simultaneously; 0 means all
	Retries int    // number of attempts after the first, for each shard
	CPUs    int    // CPUs per pod
	GPUs    int    // GPUs per pod
	FSGroup int    // group that owns the volume; 0 leaves the group unchanged
	Memory  string
	Seed    uint64
	Out     string   // path of the merged run folder in the pods
	Certify []string // flags for 'certify', without the flags that Manifest adds

	OwnThreads bool // the flags in Certify set the number of threads
}

// Manifest is a Kubernetes Job of the API batch/v1. It has the fields that IndexedJob sets.
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

// containerName is the name of the only container in a pod.
const containerName = "rscert"

// Manifest returns the Job that runs 'certify' on the shards. Kubernetes restarts a failed shard up to Retries times,
// and the shard resumes where it stopped. Kubernetes does not retry a shard with wrong input (exit code 2). If a pod is
// lost because its node fails, Kubernetes starts a new pod, and this restart does not count towards Retries.
func (j IndexedJob) Manifest() Manifest {
	words := []string{"rscert", "certify"}
	for _, flag := range j.Certify {
		words = append(words, literal(flag))
	}
	words = append(words, "--quiet", "--resume", fmt.Sprintf("--seed=%d", j.Seed))
	env := []variable{{ShardsVariable, fmt.Sprint(j.Shards)}}
	if j.Points > 0 {
		words = append(words, "--point=auto")
		env = append(env, variable{PointsVariable, fmt.Sprint(j.Points)})
	}
	words = append(words, "--shard=auto", "--out="+literal(j.part())+"$(JOB_COMPLETION_INDEX)")
	if !j.OwnThreads {
		words = append(words, fmt.Sprintf("--threads=%d", j.CPUs))
	}
	m := j.job(j.Name, words, j.GPUs)
	m.Spec.CompletionMode, m.Spec.Completions, m.Spec.Parallelism = "Indexed", j.tasks(), j.tasks()
	if j.AtOnce > 0 {
		m.Spec.Parallelism = min(j.AtOnce, j.tasks())
	}
	m.Spec.BackoffLimitPerIndex = &j.Retries
	m.Spec.PodFailurePolicy = &podFailurePolicy{[]failureRule{
		{Action: "FailIndex", OnExitCodes: &exitCodes{containerName, "In", []int{wrongInput}}},
		{Action: "Ignore", OnPodConditions: []podCondition{{"DisruptionTarget", "True"}}},
	}}
	m.Spec.Template.Spec.Containers[0].Env = env
	return m
}

// Merge returns the Job that merges the shards.
func (j IndexedJob) Merge() Manifest {
	words := []string{"rscert", "merge"}
	for i := range j.tasks() {
		words = append(words, literal(fmt.Sprint(j.part(), i)))
	}
	m := j.job(j.Name+"-merge", append(words, "--quiet", "--out="+literal(path.Clean(j.Out))), 0)
	m.Spec.BackoffLimit = new(int)
	return m
}

// The method 'tasks' returns the number of pods. In a sweep, pod number t runs shard t mod Shards of point ⌊t/Shards⌋.
func (j IndexedJob) tasks() int { return j.Shards * max(1, j.Points) }

// part returns the path of a pod's folder without the pod's number at its end.
func (j IndexedJob) part() string { return path.Clean(j.Out) + ".shards/part" }

func (j IndexedJob) job(name string, words []string, gpus int) Manifest {
	a := amounts{CPU: fmt.Sprint(j.CPUs), Memory: j.Memory}
	limits := a
	if gpus > 0 {
		limits.GPU = fmt.Sprint(gpus)
	}
	var security *podSecurity
	if j.FSGroup > 0 {
		// With OnRootMismatch, Kubernetes changes the group of the files only if the root of the volume has another
		// group.
		security = &podSecurity{j.FSGroup, "OnRootMismatch"}
	}
	return Manifest{
		APIVersion: "batch/v1", Kind: "Job", Metadata: metadata{name},
		Spec: jobSpec{Template: podTemplate{podSpec{
			RestartPolicy: "Never", // podFailurePolicy permits no other RestartPolicy
			Security:      security,
			Containers: []container{{
				Name: containerName, Image: j.Image, Command: words, WorkingDir: j.Mount, Resources: resources{a, limits},
				VolumeMounts: []volumeMount{{"work", j.Mount}},
			}},
			Volumes: []volume{{"work", claim{j.Claim}}},
		}}},
	}
}

// The function 'literal' escapes a word so that Kubernetes expands no $(VARIABLE) in it.
func literal(word string) string { return strings.ReplaceAll(word, "$", "$$") }
