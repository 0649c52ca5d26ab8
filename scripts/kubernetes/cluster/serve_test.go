package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const token = "a token of the tests"

// The type service finds the pods of the Service in serve.yaml. It does the work of kube-proxy.
type service struct {
	client *kubernetes.Clientset
	model  string // path of the model
}

// urls returns the URLs of the model in all pods that are ready.
func (s service) urls(ctx context.Context) (urls []string, err error) {
	list, err := s.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, meta.ListOptions{LabelSelector: discovery.LabelServiceName + "=rscert-serve"})
	if err != nil {
		return nil, err
	}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if *e.Conditions.Ready && len(slice.Ports) == 1 {
				urls = append(urls, fmt.Sprintf("http://%s:%d%s", e.Addresses[0], *slice.Ports[0].Port, s.model))
			}
		}
	}
	return urls, nil
}

// ask sends digits to a pod, asks for certificates if 'certify' is set, and returns the classes.
func ask(ctx context.Context, url string, digits [][]byte, certify bool) ([]int, error) {
	head := fmt.Sprintf(`{"inputs":[{"name":"input","shape":[%d,1,28,28],"datatype":"UINT8","parameters":{"binary_data_size":%d}}],`+
		`"outputs":[{"name":"class"}],"parameters":{"certify":%t}}`, len(digits), 784*len(digits), certify)
	body := append([]byte(head), bytes.Join(digits, nil)...)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/infer", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Inference-Header-Content-Length", fmt.Sprint(len(head)))
	request.Header.Set("Authorization", "Bearer "+token)
	request.Close = true // each request uses a new connection
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %w: %s", response.Status, err, text)
	}
	var answer struct {
		Outputs []struct{ Data []int }
	}
	if err := json.Unmarshal(text, &answer); err != nil || len(answer.Outputs) != 1 {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	return answer.Outputs[0].Data, nil
}

// images returns the first n of the bundled digits.
func images(t *testing.T, n int) (digits [][]byte) {
	t.Helper()
	text := output(t, ".", "gzip", "--decompress", "--stdout", "../../../testdata/mnist/t10k-images-idx3-ubyte.gz")
	for i := range n {
		digits = append(digits, []byte(text[16+784*i:16+784*(i+1)]))
	}
	return digits
}

// imageCache makes a folder that holds ONNX Runtime. The folder replaces the cache folder of the image.
func imageCache(t *testing.T, rscert string) string {
	t.Helper()
	library := strings.TrimSpace(output(t, ".", rscert, "setup", "--quiet"))
	_, path, ok := strings.Cut(library, "/rscert/onnxruntime/")
	if !ok {
		t.Fatalf("the library is %s", library)
	}
	cache := t.TempDir()
	output(t, ".", "install", "-D", "--mode", "644", library, filepath.Join(cache, "rscert/onnxruntime", path))
	return cache
}

// The test applies serve.yaml, waits for the Deployment, finds its pod by the Service, and sends requests to this pod.
// Then it restarts the Deployment while clients send further requests. The old pod must answer the request that is
// running at SIGTERM. No request to the Service may fail.
func TestDeploymentServes(t *testing.T) {
	rscert, bin := needs(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can make the network of a pod")
	}
	p, work := startControlPlane(t, bin), volume(t)
	output(t, work, rscert, "certify", "--model", "cnn.onnx", "--data", "mnist", "--sigma", "0.5", "--n", "20000", "--max", "2", "--seed", "18", "--quiet", "--out", "run")
	// The file cnn.onnx is a link to a file that the container does not have. The test replaces the link by a copy.
	output(t, work, "sh", "-c", "cp -L cnn.onnx copy && mv copy cnn.onnx")
	client := p.client(t)
	k := &kubelet{t: t, client: client, rscert: rscert, claims: map[string]string{"work": work}, cache: imageCache(t, rscert)}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), &core.Node{ObjectMeta: meta.ObjectMeta{Name: nodeName}}, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() { k.run(ctx); close(served) }()
	defer func() { stop(); <-served }()
	do := func(input string, args ...string) {
		t.Helper()
		if out, err := p.kubectl(t, input, args...); err != nil || strings.Contains(strings.ToLower(out), "warning") {
			t.Fatalf("kubectl %q: %v\n%s", args, err, out)
		}
	}
	p.write(t, "token", token)
	do("", "create", "secret", "generic", "rscert-token", "--from-file=token="+p.path("token"))
	manifest, err := os.ReadFile("../../../packaging/kubernetes/serve.yaml")
	if err != nil {
		t.Fatal(err)
	}
	do(string(manifest), "apply", "--validate=strict", "-f", "-")
	do("", "rollout", "status", "deployment/rscert-serve", "--timeout=120s")

	s := service{client, "/v2/models/cnn"}
	first := s.await(t, 1)[0]
	digits := images(t, 2)
	classes, err := ask(t.Context(), first, digits[:1], false)
	if err != nil || classes[0] != 7 {
		t.Fatalf("classes %v: %v", classes, err)
	}

	// While the Deployment restarts, one client asks the pods of the Service, and one client asks the old pod until it
	// refuses connections.
	var asked atomic.Int64
	asking, end := context.WithCancel(t.Context())
	ofService, ofOld := make(chan error, 1), make(chan error, 1)
	var last time.Time // when the old pod sent its last answer
	go func() { ofService <- s.load(asking, digits[0], &asked) }()
	go func() {
		var err error
		for ; err == nil; _, err = ask(t.Context(), first, digits, true) {
			last = time.Now()
		}
		ofOld <- err
	}()
	do("", "rollout", "restart", "deployment/rscert-serve")
	do("", "rollout", "status", "deployment/rscert-serve", "--timeout=120s")
	if err := <-ofOld; !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the old pod: %v", err)
	}
	old := k.awaitStopped(t)
	end()
	if err := <-ofService; err != nil {
		t.Errorf("after %d answers: %v", asked.Load(), err)
	}
	if old.err != nil || !last.After(old.signalled) {
		t.Errorf("the old pod got SIGTERM at %v, and sent its last answer at %v: %+v", old.signalled, last, old)
	}
	if second := s.await(t, 1)[0]; second == first {
		t.Errorf("the Service still names the old pod, %s", first)
	}
	deployment, err := client.AppsV1().Deployments(namespace).Get(t.Context(), "rscert-serve", meta.GetOptions{})
	if err != nil || !available(deployment) {
		t.Errorf("%v: %+v", err, deployment.Status)
	}
	t.Logf("%d requests during the restart; the old pod sent its last answer %v after SIGTERM", asked.Load(), last.Sub(old.signalled))
}

// awaitStopped waits until a pod was deleted and its container has ended.
func (k *kubelet) awaitStopped(t *testing.T) stopped {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		k.mu.Lock()
		all := slices.Clone(k.stopped)
		k.mu.Unlock()
		if len(all) > 0 {
			return all[0]
		}
	}
	t.Fatal("the old pod does not end")
	return stopped{}
}

// await waits until the Service has n pods, and returns their URLs.
func (s service) await(t *testing.T, n int) []string {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		urls, err := s.urls(t.Context())
		if err == nil && len(urls) == n {
			return urls
		}
		if time.Now().After(deadline) {
			t.Fatalf("the Service has %v: %v", urls, err)
		}
	}
}

// load asks one pod after another until the context ends. It counts answers, and returns the first error.
func (s service) load(ctx context.Context, digit []byte, asked *atomic.Int64) error {
	for i := 0; ; i++ {
		urls, err := s.urls(ctx)
		if err == nil && len(urls) == 0 {
			err = fmt.Errorf("no pod is ready")
		}
		if err == nil {
			_, err = ask(ctx, urls[i%len(urls)], [][]byte{digit}, false)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		asked.Add(1)
		time.Sleep(20 * time.Millisecond)
	}
}

func available(d *apps.Deployment) bool {
	for _, c := range d.Status.Conditions {
		if c.Type == apps.DeploymentAvailable {
			return c.Status == core.ConditionTrue && d.Status.ReadyReplicas == 1
		}
	}
	return false
}

// TestContainer runs commands with container.sh. The commands must have no capabilities, and must fail to write outside
// their mounts.
func TestContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	work := t.TempDir()
	if err := os.Chmod(work, 0o777); err != nil {
		t.Fatal(err)
	}
	run := func(command string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "./container.sh", t.TempDir(), "65532", "65532", "/w", work+":/w:rw", work+":/r:ro",
			"--", "sh", "-c", command).CombinedOutput()
		return string(out), err
	}
	out, err := run("id -u; id -G; pwd; grep -E 'CapEff|NoNewPrivs' /proc/self/status; echo x >f; cat /r/f")
	if want := "65532\n65532\n/w\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nx\n"; err != nil || out != want {
		t.Errorf("%q, %v", out, err)
	}
	for _, command := range []string{"echo x >/r/g", "echo x >/g", "echo x >/usr/g"} {
		if out, err := run(command); err == nil || !strings.Contains(out, "Read-only file system") {
			t.Errorf("%s: %q, %v", command, out, err)
		}
	}
}
