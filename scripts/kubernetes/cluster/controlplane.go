// Package cluster runs the Jobs of 'rscert kubernetes' and the Deployment of 'rscert serve' on a Kubernetes control
// plane on the local machine. The control plane consists of etcd, kube-apiserver and four controllers of
// kube-controller-manager, all built from their published sources. The code in kubelet.go and pod.go replaces the
// nodes: it runs the containers' commands locally. The package is a separate module; see 'make kubernetes-cluster'.
package cluster

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A controlPlane holds the folders and the connection settings of a running control plane. The programs of the control
// plane listen on ports of the loopback interface.
type controlPlane struct {
	dir        string // folder of the control plane's files
	bin        string // folder of the programs
	kubeconfig string
	rest       *rest.Config
}

// startControlPlane starts the programs in the folder 'bin'. These programs end when the test ends.
func startControlPlane(t *testing.T, bin string) *controlPlane {
	t.Helper()
	p := &controlPlane{dir: t.TempDir(), bin: bin}
	client, peer, secure := freePort(t), freePort(t), freePort(t)
	etcd, api := fmt.Sprintf("http://127.0.0.1:%d", client), fmt.Sprintf("https://127.0.0.1:%d", secure)
	p.start(t, "etcd", "--data-dir", p.path("etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", fmt.Sprintf("http://127.0.0.1:%d", peer), "--unsafe-no-fsync")
	p.write(t, "token.csv", "secret,admin,admin,system:masters\n")
	p.write(t, "service-account.pem", serviceAccountKey(t))
	p.start(t, "kube-apiserver", "--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1",
		"--secure-port", fmt.Sprint(secure), "--cert-dir", p.path("certificates"), "--token-auth-file", p.path("token.csv"),
		"--authorization-mode", "AlwaysAllow", "--service-cluster-ip-range", "10.0.0.0/24",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", p.path("service-account.pem"),
		"--service-account-signing-key-file", p.path("service-account.pem"),
		"--disable-admission-plugins", "ServiceAccount") // no controller makes service accounts in this cluster
	p.kubeconfig = p.path("kubeconfig")
	p.write(t, "kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: local, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: secret}}]
contexts: [{name: local, context: {cluster: local, user: admin}}]
current-context: local
`, api))
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 50, 100
	p.rest = config
	p.await(t)
	p.start(t, "kube-controller-manager", "--kubeconfig", p.kubeconfig, "--leader-elect=false",
		"--controllers", "job-controller,deployment-controller,replicaset-controller,endpointslice-controller",
		"--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(freePort(t)), "--cert-dir", p.path("manager"))
	return p
}

func (p *controlPlane) path(name string) string { return filepath.Join(p.dir, name) }

func (p *controlPlane) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(p.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start starts a program of the control plane. It shows the program's log if the test fails.
func (p *controlPlane) start(t *testing.T, name string, args ...string) {
	t.Helper()
	log, err := os.Create(p.path(name + ".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
}

// await waits until the API server answers.
func (p *controlPlane) await(t *testing.T) {
	t.Helper()
	client := p.client(t)
	for {
		text, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
		if err == nil && string(text) == "ok" {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("kube-apiserver does not get ready: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (p *controlPlane) client(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(p.rest)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// kubectl runs kubectl with a manifest as its input, and returns the output of kubectl.
func (p *controlPlane) kubectl(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(p.bin, "kubectl"), append([]string{"--kubeconfig", p.kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+p.dir)
	cmd.Stdin = strings.NewReader(input)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func serviceAccountKey(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}
