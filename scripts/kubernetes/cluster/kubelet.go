package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

const (
	namespace = "default"
	nodeName  = "here"
	indexKey  = "batch.kubernetes.io/job-completion-index"
)

// A kubelet replaces the scheduler and the nodes. It binds all pods to the same node. The method 'serve' runs the
// container of a Job's pod as a local process and reports the exit code. For this, the mount paths of the pod's volumes
// must exist on the local machine. The method 'keep' runs the pods of Deployments.
type kubelet struct {
	t      *testing.T
	client *kubernetes.Clientset
	rscert string // path of the local program that replaces the image's rscert
	// The function 'fault' decides what happens to a pod while its container runs. As long as the container runs and
	// the function returns 'none', the kubelet calls the function again and again. If 'fault' is nil, nothing happens.
	fault func(pod *core.Pod, attempt int) fault

	// The next two fields are for pods of Deployments.
	claims map[string]string // the folder of each PersistentVolumeClaim
	cache  string            // the image's cache folder, which holds ONNX Runtime

	mu       sync.Mutex
	attempts map[string]int // number of attempts for each job and index
	ran      []ran
	networks int       // number of networks made for pods so far
	stopped  []stopped // deleted pods
}

// A fault is an event that can happen to a pod.
type fault int

const (
	none    fault = iota
	killed        // the container's process gets SIGKILL
	evicted       // the process gets SIGKILL because the node is drained
)

// The type 'ran' describes a container that ended.
type ran struct {
	job     string
	index   int
	command []string
	exit    int
	log     string
}

// run serves pods until the context ends.
func (k *kubelet) run(ctx context.Context) {
	k.attempts = map[string]int{}
	seen := map[string]bool{}
	var pods sync.WaitGroup
	defer pods.Wait()
	for ctx.Err() == nil {
		list, err := k.client.CoreV1().Pods(namespace).List(ctx, meta.ListOptions{})
		if err != nil {
			if ctx.Err() == nil {
				k.t.Errorf("listing pods: %v", err)
			}
			return
		}
		for _, pod := range list.Items {
			if !seen[string(pod.UID)] {
				seen[string(pod.UID)] = true
				serve := k.serve
				if pod.Spec.RestartPolicy == core.RestartPolicyAlways { // a pod of a Deployment
					serve = k.keep
				}
				pods.Go(func() {
					if err := serve(ctx, &pod); err != nil && ctx.Err() == nil {
						k.t.Errorf("pod %s: %v", pod.Name, err)
					}
				})
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// serve takes a pod of a Job from Pending to Succeeded or Failed.
func (k *kubelet) serve(ctx context.Context, pod *core.Pod) error {
	pods := k.client.CoreV1().Pods(namespace)
	binding := &core.Binding{ObjectMeta: meta.ObjectMeta{Name: pod.Name}, Target: core.ObjectReference{Kind: "Node", Name: nodeName}}
	if err := pods.Bind(ctx, binding, meta.CreateOptions{}); err != nil {
		return err
	}
	if err := k.report(ctx, pod, func(s *core.PodStatus) { s.Phase = core.PodRunning }); err != nil {
		return err
	}
	job := pod.Labels["batch.kubernetes.io/job-name"]
	index, err := strconv.Atoi(pod.Annotations[indexKey])
	if err != nil {
		index = -1
	}
	k.mu.Lock()
	key := fmt.Sprint(job, index)
	k.attempts[key]++
	attempt := k.attempts[key]
	k.mu.Unlock()

	exit, happened, command, log, err := k.container(ctx, pod, attempt)
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.ran = append(k.ran, ran{job, index, command, exit, log})
	k.mu.Unlock()
	return k.report(ctx, pod, func(s *core.PodStatus) {
		s.Phase = core.PodSucceeded
		if exit != 0 {
			s.Phase = core.PodFailed
		}
		if happened == evicted {
			s.Conditions = append(s.Conditions, core.PodCondition{Type: core.DisruptionTarget, Status: core.ConditionTrue,
				Reason: "EvictionByEvictionAPI", LastTransitionTime: meta.Now()})
		}
		s.ContainerStatuses = []core.ContainerStatus{{Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image,
			State: core.ContainerState{Terminated: &core.ContainerStateTerminated{ExitCode: int32(exit), FinishedAt: meta.Now()}}}}
	})
}

// report changes the status of a pod, even if others change the pod at the same time.
func (k *kubelet) report(ctx context.Context, pod *core.Pod, change func(*core.PodStatus)) error {
	pods := k.client.CoreV1().Pods(namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := pods.Get(ctx, pod.Name, meta.GetOptions{})
		if err != nil {
			return err
		}
		change(&now.Status)
		_, err = pods.UpdateStatus(ctx, now, meta.UpdateOptions{})
		return err
	})
}

// container runs the command of the pod's container. As for a real container, an exit code above 128 means that a
// signal ended the process.
func (k *kubelet) container(ctx context.Context, pod *core.Pod, attempt int) (exit int, happened fault, command []string, log string, err error) {
	c := pod.Spec.Containers[0]
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
		if e.ValueFrom != nil {
			if env[e.Name], err = fieldpath.ExtractFieldPathAsString(pod, e.ValueFrom.FieldRef.FieldPath); err != nil {
				return
			}
		}
	}
	for _, word := range append(append([]string{}, c.Command...), c.Args...) {
		command = append(command, expansion.Expand(word, expansion.MappingFuncFor(env)))
	}
	program := command[0]
	if program == filepath.Base(k.rscert) {
		program = k.rscert
	}
	cmd := exec.CommandContext(ctx, program, command[1:]...)
	cmd.Dir = c.WorkingDir
	for _, name := range []string{"PATH", "HOME", "XDG_CACHE_HOME"} {
		cmd.Env = append(cmd.Env, name+"="+os.Getenv(name))
	}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := os.CreateTemp(k.t.TempDir(), "log")
	if err != nil {
		return
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err = cmd.Start(); err != nil {
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for running := true; running; {
		select {
		case err = <-ended:
			running = false
		case <-time.After(5 * time.Millisecond):
			if k.fault != nil && happened == none {
				if happened = k.fault(pod, attempt); happened != none {
					_ = cmd.Process.Kill()
				}
			}
		}
	}
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		exit, err = failed.ExitCode(), nil
		if status, ok := failed.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			exit = 128 + int(status.Signal())
		}
	}
	text, _ := os.ReadFile(out.Name())
	return exit, happened, command, string(text), err
}
