package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A lastingPod is a pod of a Deployment. The script container.sh starts the pod's container in a network namespace.
// This namespace has an address of its own.
type lastingPod struct {
	k       *kubelet
	pod     *core.Pod
	address string
	process *exec.Cmd
	log     *os.File
	ended   chan error
	shown   *bool // whether the last report said that the pod is ready; nil before the first report
}

// keep runs a pod of a Deployment: it starts the container, probes it, and stops it when the pod is deleted.
func (k *kubelet) keep(ctx context.Context, pod *core.Pod) error {
	p := &lastingPod{k: k, pod: pod, ended: make(chan error, 1)}
	if err := p.bind(ctx); err != nil {
		return err
	}
	if err := p.network(ctx); err != nil {
		return err
	}
	defer p.removeNetwork()
	if err := p.start(ctx); err != nil {
		return err
	}
	defer p.log.Close()
	defer func() { _ = p.process.Process.Kill() }()
	if err := p.show(ctx, false); err != nil {
		return err
	}
	probed := make(chan error, 1)
	probing, stop := context.WithCancel(ctx)
	defer stop()
	go func() { probed <- p.probe(probing) }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-p.ended:
			return fmt.Errorf("the container ended by itself: %v\n%s", err, p.output())
		case err := <-probed:
			return fmt.Errorf("%w\n%s", err, p.output())
		case <-time.After(50 * time.Millisecond):
		}
		now, err := k.client.CoreV1().Pods(namespace).Get(ctx, pod.Name, meta.GetOptions{})
		if err != nil {
			return err
		}
		if now.DeletionTimestamp != nil {
			return p.stop(ctx, time.Duration(*now.DeletionGracePeriodSeconds)*time.Second)
		}
	}
}

func (p *lastingPod) bind(ctx context.Context) error {
	binding := &core.Binding{ObjectMeta: meta.ObjectMeta{Name: p.pod.Name}, Target: core.ObjectReference{Kind: "Node", Name: nodeName}}
	return p.k.client.CoreV1().Pods(namespace).Bind(ctx, binding, meta.CreateOptions{})
}

// namespace returns the name of the pod's network namespace.
func (p *lastingPod) namespace() string { return "rscert-" + string(p.pod.UID)[:8] }

// network makes a network namespace with an address that this machine reaches.
func (p *lastingPod) network(ctx context.Context) error {
	p.k.mu.Lock()
	p.k.networks++
	n := p.k.networks
	p.k.mu.Unlock()
	p.address = fmt.Sprintf("198.18.%d.2", n)
	name, link := p.namespace(), fmt.Sprintf("rscert%d", n)
	for _, line := range []string{
		"netns add " + name,
		"link add " + link + " type veth peer name eth0 netns " + name,
		fmt.Sprintf("address add 198.18.%d.1/30 dev %s", n, link),
		"link set " + link + " up",
		"-netns " + name + " address add " + p.address + "/30 dev eth0",
		"-netns " + name + " link set eth0 up",
		"-netns " + name + " link set lo up",
	} {
		if out, err := exec.CommandContext(ctx, "ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			p.removeNetwork()
			return fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
	}
	return nil
}

func (p *lastingPod) removeNetwork() { _ = exec.Command("ip", "netns", "delete", p.namespace()).Run() }

func (p *lastingPod) start(ctx context.Context) (err error) {
	c, s := p.pod.Spec.Containers[0], p.pod.Spec.SecurityContext
	args := []string{"netns", "exec", p.namespace(), "./container.sh", p.k.t.TempDir(),
		strconv.FormatInt(*s.RunAsUser, 10), strconv.FormatInt(*s.RunAsGroup, 10), c.WorkingDir,
		filepath.Dir(p.k.rscert) + ":/opt/bin:ro", p.k.cache + ":/opt/cache:ro"}
	for _, m := range c.VolumeMounts {
		folder, err := p.volume(ctx, m.Name)
		if err != nil {
			return err
		}
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		args = append(args, folder+":"+m.MountPath+":"+mode)
	}
	args = append(args, "--")
	if len(c.Command) == 0 {
		args = append(args, "rscert") // the entry point of the image
	}
	p.process = exec.Command("ip", append(append(args, c.Command...), c.Args...)...)
	p.process.Env = []string{"PATH=/opt/bin:/usr/sbin:/usr/bin:/sbin:/bin", "XDG_CACHE_HOME=/opt/cache"}
	if p.log, err = os.CreateTemp(p.k.t.TempDir(), "log"); err != nil {
		return err
	}
	p.process.Stdout, p.process.Stderr = p.log, p.log
	if err = p.process.Start(); err != nil {
		return err
	}
	go func() { p.ended <- p.process.Wait() }()
	return nil
}

// volume returns the folder of a volume.
func (p *lastingPod) volume(ctx context.Context, name string) (string, error) {
	i := slices.IndexFunc(p.pod.Spec.Volumes, func(v core.Volume) bool { return v.Name == name })
	if i < 0 {
		return "", fmt.Errorf("no volume %s", name)
	}
	switch v := p.pod.Spec.Volumes[i]; {
	case v.PersistentVolumeClaim != nil:
		return p.k.claims[v.PersistentVolumeClaim.ClaimName], nil
	case v.Secret != nil:
		secret, err := p.k.client.CoreV1().Secrets(namespace).Get(ctx, v.Secret.SecretName, meta.GetOptions{})
		if err != nil {
			return "", err
		}
		folder := p.k.t.TempDir()
		for key, value := range secret.Data {
			if err := os.WriteFile(filepath.Join(folder, key), value, os.FileMode(*v.Secret.DefaultMode)); err != nil {
				return "", err
			}
		}
		return folder, os.Chmod(folder, 0o755)
	case v.EmptyDir != nil:
		folder := p.k.t.TempDir()
		return folder, os.Chmod(folder, 0o777)
	}
	return "", fmt.Errorf("volume %s is of a kind that the tests do not know", name)
}

// probe sends the requests that the container's probes describe, and reports to the API server whether the container is
// ready. It returns when the container fails its startup probe or its liveness probe, or when the context ends.
func (p *lastingPod) probe(ctx context.Context) error {
	c := p.pod.Spec.Containers[0]
	succeeds := func(once bool) func(bool) (bool, error) {
		return func(ok bool) (done bool, err error) {
			if !ok {
				return false, errProbe
			}
			return once, nil
		}
	}
	if err := p.repeat(ctx, c.StartupProbe, succeeds(true)); err != nil || ctx.Err() != nil {
		return err
	}
	results := make(chan error, 2)
	go func() {
		results <- p.repeat(ctx, c.ReadinessProbe, func(ok bool) (done bool, err error) { return false, p.show(ctx, ok) })
	}()
	go func() {
		results <- p.repeat(ctx, c.LivenessProbe, succeeds(false))
	}()
	return <-results
}

// errProbe means that a container must be stopped.
var errProbe = errors.New("the startup probe or the liveness probe failed too often")

// repeat sends the probe's request again and again. It calls the function 'changed' with true after each success, and
// with false if at least failureThreshold requests in a row have failed. It returns when 'changed' returns done = true
// or an error.
func (p *lastingPod) repeat(ctx context.Context, probe *core.Probe, changed func(ok bool) (done bool, err error)) error {
	failures := int32(0)
	for {
		ok := p.ask(ctx, probe)
		if ctx.Err() != nil {
			return nil
		}
		if failures++; ok {
			failures = 0
		}
		if ok || failures >= probe.FailureThreshold {
			if done, err := changed(ok); done || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Duration(probe.PeriodSeconds) * time.Second):
		}
	}
}

// ask sends the request of a probe.
func (p *lastingPod) ask(ctx context.Context, probe *core.Probe) bool {
	get, port := probe.HTTPGet, 0
	for _, named := range p.pod.Spec.Containers[0].Ports {
		if named.Name == get.Port.StrVal || named.ContainerPort == get.Port.IntVal {
			port = int(named.ContainerPort)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(probe.TimeoutSeconds)*time.Second)
	defer cancel()
	url := strings.ToLower(string(get.Scheme)) + "://" + net.JoinHostPort(p.address, strconv.Itoa(port)) + get.Path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode >= 200 && response.StatusCode < 400
}

// show reports the status of a running pod to the API server: at the first call, and later if 'ready' has changed since
// the last report.
func (p *lastingPod) show(ctx context.Context, ready bool) error {
	if p.shown != nil && *p.shown == ready {
		return nil
	}
	p.shown = &ready
	status := core.ConditionFalse
	if ready {
		status = core.ConditionTrue
	}
	c := p.pod.Spec.Containers[0]
	return p.k.report(ctx, p.pod, func(s *core.PodStatus) {
		s.Phase, s.PodIP, s.PodIPs = core.PodRunning, p.address, []core.PodIP{{IP: p.address}}
		s.HostIP, s.HostIPs = "198.18.0.1", []core.HostIP{{IP: "198.18.0.1"}}
		s.Conditions = nil
		for _, kind := range []core.PodConditionType{core.PodReady, core.ContainersReady} {
			s.Conditions = append(s.Conditions, core.PodCondition{Type: kind, Status: status, LastTransitionTime: meta.Now()})
		}
		s.ContainerStatuses = []core.ContainerStatus{{Name: c.Name, Image: c.Image, Ready: ready, Started: &ready,
			State: core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: meta.Now()}}}}
	})
}

// stop ends the container of a pod that was deleted: it waits as long as the preStop hook says, and sends SIGTERM. If
// the container still runs at the end of the grace period, stop sends SIGKILL. When the container has ended, stop
// removes the pod from the API.
func (p *lastingPod) stop(ctx context.Context, grace time.Duration) error {
	kill := time.After(grace)
	if hook := p.pod.Spec.Containers[0].Lifecycle; hook != nil && hook.PreStop != nil && hook.PreStop.Sleep != nil {
		time.Sleep(time.Duration(hook.PreStop.Sleep.Seconds) * time.Second)
	}
	signalled := time.Now()
	_ = p.process.Process.Signal(syscall.SIGTERM)
	var err error
	select {
	case err = <-p.ended:
	case <-kill:
		_ = p.process.Process.Kill()
		err = fmt.Errorf("was killed after its grace period: %w", <-p.ended)
	}
	p.k.mu.Lock()
	p.k.stopped = append(p.k.stopped, stopped{p.pod.Name, signalled, err, p.output()})
	p.k.mu.Unlock()
	now := int64(0)
	return p.k.client.CoreV1().Pods(namespace).Delete(ctx, p.pod.Name, meta.DeleteOptions{GracePeriodSeconds: &now})
}

func (p *lastingPod) output() string {
	text, _ := os.ReadFile(p.log.Name())
	return string(text[max(0, len(text)-4000):])
}

// The type 'stopped' describes the container of a pod that was deleted.
type stopped struct {
	name      string
	signalled time.Time // when it got SIGTERM
	err       error     // nil: exit code 0
	log       string
}
