package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rscert/rscert/internal/auditlog"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/runfolder"
)

// served is a running 'rscert serve'.
type served struct {
	cmd    *exec.Cmd
	model  string // URL of the model
	grpc   string // address for gRPC; empty if the server does not offer gRPC
	stderr *bytes.Buffer
}

// servedRun certifies a few digits, for tests of serve.
func servedRun(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "run")
	out, err := program(t, "certify", "--model", "../../testdata/mnist-cnn.onnx", "--data", "../../testdata/mnist", "--sigma", "0.5",
		"--seed", "1", "--n", "500", "--max", "20", "--quiet", "--out", folder).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return folder
}

// startServer starts serve on a free port, and waits until it is ready.
func startServer(t *testing.T, args ...string) *served {
	t.Helper()
	s := startListening(t, args...)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(s.root() + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == 200 {
				return s
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("not ready: %v\n%s", err, s.stderr)
		}
	}
}

// startListening starts serve on a free port, and waits until it listens.
func startListening(t *testing.T, args ...string) *served {
	t.Helper()
	s := &served{cmd: program(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--quiet"}, args...)...), stderr: &bytes.Buffer{}}
	s.cmd.Stderr = s.stderr
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	})
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	s.model = strings.TrimSpace(line)
	if err == nil && slices.Contains(args, "--grpc-listen") {
		line, err = lines.ReadString('\n')
		s.grpc = strings.TrimPrefix(strings.TrimSpace(line), "grpc://")
	}
	if err != nil {
		_ = s.cmd.Wait()
		t.Fatalf("%v\n%s", err, s.stderr)
	}
	return s
}

// root returns the URL of the server.
func (s *served) root() string {
	root, _, _ := strings.Cut(s.model, "/v2/")
	return root
}

// terminate sends SIGTERM, waits for the end of the process, and returns its error.
func (s *served) terminate(t *testing.T) error {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return s.cmd.Wait()
}

// digits returns the first n bundled digits, as bytes and as numbers from 0 to 1.
func digits(t *testing.T, n int) (images [][]byte, values [][]float32) {
	t.Helper()
	d, err := dataset.Open(t.Context(), "../../testdata/mnist", dataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for i := range n {
		e, err := d.Example(i)
		if err != nil {
			t.Fatal(err)
		}
		var image []byte
		for _, v := range e.Values {
			image = append(image, byte(v*255+.5))
		}
		images, values = append(images, image), append(values, e.Values)
	}
	return images, values
}

// inferAnswer is the part of a response that the tests read.
type inferAnswer struct {
	Outputs []struct {
		Name string    `json:"name"`
		Data []float64 `json:"data"`
	} `json:"outputs"`
}

// infer sends images in one request, with binary tensors, and returns the status and the classes.
func (s *served) infer(client *http.Client, images ...[]byte) (int, []int, error) {
	n := len(images)
	head := fmt.Sprintf(`{"inputs":[{"name":"input","shape":[%d,1,28,28],"datatype":"UINT8","parameters":{"binary_data_size":%d}}],"outputs":[{"name":"class"}]}`, n, 784*n)
	r, err := http.NewRequest(http.MethodPost, s.model+"/infer", io.MultiReader(strings.NewReader(head), bytes.NewReader(slices.Concat(images...))))
	if err != nil {
		return 0, nil, err
	}
	r.ContentLength = int64(len(head) + 784*n)
	r.Header.Set("Inference-Header-Content-Length", fmt.Sprint(len(head)))
	resp, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	var a inferAnswer
	if err == nil && resp.StatusCode == 200 {
		err = json.Unmarshal(text, &a)
	}
	var classes []int
	for _, o := range a.Outputs {
		for _, v := range o.Data {
			classes = append(classes, int(v))
		}
	}
	return resp.StatusCode, classes, err
}

// metric returns the value of the named metric on the page /metrics.
func (s *served) metric(t *testing.T, name string) (v float64) {
	t.Helper()
	resp, err := http.Get(s.root() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if n, _ := fmt.Sscanf(lines.Text(), name+" %g", &v); n == 1 {
			return v
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// TestServe compares the answers of 'rscert serve' and 'rscert predict' with the run's certificates. It also repeats
// the log with 'rscert predict --replay', and stops the server by SIGTERM. If two answers differ at an alpha of 1e-9,
// there is a fault, because chance alone almost never causes a difference.
func TestServe(t *testing.T) {
	folder := servedRun(t)
	log := filepath.Join(t.TempDir(), "log")
	s := startServer(t, "--run", folder, "--alpha", "1e-9", "--log", log)
	images, _ := digits(t, 20)
	status, classes, err := s.infer(http.DefaultClient, images...)
	if status != 200 || len(classes) != 20 || err != nil {
		t.Fatalf("%d %v %v\n%s", status, classes, err, s.stderr)
	}
	predicted := filepath.Join(t.TempDir(), "answers.jsonl")
	if out, err := program(t, "predict", "--run", folder, "--data", "../../testdata/mnist", "--max", "20", "--alpha", "1e-9",
		"--budget", "10000", "--quiet", "--out", predicted).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	answers, err := os.ReadFile(predicted)
	if err != nil {
		t.Fatal(err)
	}
	certificates := results(t, folder)[runfolder.CertificatesFile]
	certified := 0
	for i, lines := 0, strings.Split(string(certificates), "\n"); i < 20; i++ {
		var c struct{ Prediction, Index int }
		var a struct{ Class, Index int }
		if err := json.Unmarshal([]byte(lines[i]), &c); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(bytes.Split(answers, []byte("\n"))[i], &a); err != nil || a.Index != i || c.Index != i {
			t.Fatal(err, a, c)
		}
		if c.Prediction >= 0 && (classes[i] >= 0 && classes[i] != c.Prediction || a.Class >= 0 && a.Class != c.Prediction) {
			t.Errorf("digit %d: serve %d, predict %d, the run certified %d", i, classes[i], a.Class, c.Prediction)
		}
		if c.Prediction >= 0 && classes[i] >= 0 && a.Class >= 0 {
			certified++
		}
	}
	if certified < 15 {
		t.Errorf("only %d of 20 digits have three answers to compare", certified)
	}
	// A request can ask for certificates.
	resp, err := http.Post(s.model+"/infer", "", strings.NewReader(fmt.Sprintf(
		`{"parameters":{"certify":0.1},"inputs":[{"name":"input","shape":[1,1,28,28],"datatype":"UINT8","data":%s}],"outputs":[{"name":"radius"}]}`, jsonBytes(images[0]))))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	var a inferAnswer
	if err := json.Unmarshal(text, &a); err != nil || len(a.Outputs) != 1 || a.Outputs[0].Data[0] < .1 {
		t.Errorf("certificate: %s", text)
	}
	if err := s.terminate(t); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, s.stderr)
	}
	out, err := program(t, "predict", "--run", folder, "--data", "../../testdata/mnist", "--replay", log, "--json", "--quiet").CombinedOutput()
	var r run.Replayed
	if err != nil || json.Unmarshal(out, &r) != nil || r.Logged != 21 || r.Repeated != 21 {
		t.Errorf("replay: %v\n%s", err, out)
	}
}

// jsonBytes returns bytes as an array of numbers.
func jsonBytes(b []byte) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(fmt.Sprint(b), " ", ", ")), "")
}

// TestReplayNotices changes an answer in a log. 'rscert predict --replay' must find this change.
func TestReplayNotices(t *testing.T) {
	folder := servedRun(t)
	recorded, err := runfolder.Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "log")
	s := startServer(t, "--run", folder, "--log", path)
	images, _ := digits(t, 2)
	if status, _, err := s.infer(http.DefaultClient, images...); status != 200 || err != nil {
		t.Fatal(status, err)
	}
	if err := s.terminate(t); err != nil {
		t.Fatal(err)
	}
	var changed []byte
	err = auditlog.Read(path, recorded.Seed(), func(l auditlog.Line) error {
		if a := l.Answer; a != nil && a.Index == 1 {
			a.Votes[0]++ // one vote more for class 0 than the server counted
		}
		text, err := json.Marshal(l)
		changed = append(append(changed, recorded.Seed().AppendJSON(text)...), '\n')
		return err
	})
	if err == nil {
		err = os.WriteFile(path, changed, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := program(t, "predict", "--run", folder, "--data", "../../testdata/mnist", "--replay", path, "--quiet").CombinedOutput()
	if code := exitOf(err); code != exitRequirement || !strings.Contains(string(out), "1 repeated bit by bit, 1 different") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func exitOf(err error) int {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	return -1
}

// TestTritonClient uses NVIDIA's tritonclient, from PyPI, to ask a server. 'make serve-client' installs it.
func TestTritonClient(t *testing.T) {
	python := os.Getenv("RSCERT_TRITON_PYTHON")
	if python == "" {
		t.Skip("RSCERT_TRITON_PYTHON names no Python with tritonclient; 'make serve-client' does")
	}
	s := startServer(t, "--run", servedRun(t), "--alpha", "1e-9", "--grpc-listen", "127.0.0.1:0")
	out, err := exec.CommandContext(t.Context(), python, "../../scripts/serve_client.py", strings.TrimPrefix(s.root(), "http://"), s.grpc,
		"mnist-cnn", "../../testdata/mnist/t10k-images-idx3-ubyte.gz").Output()
	var r struct {
		Classes, Votes [][]int
		Radii          []float64
	}
	if err != nil || json.Unmarshal(out, &r) != nil || len(r.Classes) != 6 || len(r.Radii) != 4 {
		t.Fatalf("%v\n%s%s", err, out, stderrOf(err))
	}
	images, _ := digits(t, 8)
	_, want, err := s.infer(http.DefaultClient, images...)
	if err != nil {
		t.Fatal(err)
	}
	for _, classes := range r.Classes {
		for i, k := range classes {
			if k != want[i] && k >= 0 && want[i] >= 0 {
				t.Errorf("digit %d: %d, want %d", i, k, want[i])
			}
		}
	}
	if slices.Min(r.Radii) < .1 || r.Votes[0][0] < 13 || r.Votes[5][0] < 13 {
		t.Errorf("radii %v, votes %v", r.Radii, r.Votes)
	}
}

// stderrOf returns the standard error of a failed program. The argument is the error of running the program.
func stderrOf(err error) []byte {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.Stderr
	}
	return nil
}

// TestSlowClients opens three connections. One of them sends nothing, and the others send a header byte by byte. The
// server must close these connections.
func TestSlowClients(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the timeout of a header")
	}
	s := startServer(t, "--run", servedRun(t), "--connections", "3", "--read-timeout", "1s")
	http.DefaultClient.CloseIdleConnections()
	address := strings.TrimPrefix(s.root(), "http://")
	var wait sync.WaitGroup
	for k := range 3 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			defer conn.Close()
			_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
			for k > 0 { // the first connection sends nothing
				if _, err := conn.Write([]byte("X")); err != nil {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			if _, err := io.Copy(io.Discard, conn); err != nil && k == 0 {
				t.Errorf("connection %d was not closed: %v", k, err)
			}
		})
	}
	images, _ := digits(t, 1)
	if status, _, err := s.infer(http.DefaultClient, images[0]); status != 200 || err != nil {
		t.Errorf("behind slow clients: %d %v", status, err)
	}
	wait.Wait()
}

// TestServeKilled kills a server under load, by SIGKILL. Every answer that a client received must be in the log, as a
// whole line. The next server must continue this log.
func TestServeKilled(t *testing.T) {
	folder := servedRun(t)
	recorded, err := runfolder.Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "log")
	images, values := digits(t, 100)
	received := map[string]int{}
	for round := range 3 {
		s := startServer(t, "--run", folder, "--log", path)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var wait sync.WaitGroup
		client := &http.Client{Timeout: 10 * time.Second}
		for k := range 8 {
			wait.Go(func() {
				for i := k; ctx.Err() == nil; i++ {
					status, _, err := s.infer(client, images[i%100])
					if status == 200 && err == nil {
						mu.Lock()
						received[run.InputHash(values[i%100])]++
						mu.Unlock()
					}
				}
			})
		}
		time.Sleep(time.Duration(100+150*round) * time.Millisecond)
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		cancel()
		wait.Wait()
	}
	logged, sessions := map[string]int{}, 0
	if err := auditlog.Read(path, recorded.Seed(), func(l auditlog.Line) error {
		if l.Session != nil {
			sessions++
		} else {
			logged[l.Answer.Input]++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if sessions != 3 || len(received) == 0 {
		t.Errorf("%d sessions, %d inputs with answers; want 3 sessions", sessions, len(received))
	}
	for input, n := range received {
		if logged[input] < n {
			t.Errorf("input %.12s…: %d answers were received, %d are in the log", input, n, logged[input])
		}
	}
}

// TestServeStopsEarly sends SIGTERM as soon as the server listens, which is before its model is loaded.
func TestServeStopsEarly(t *testing.T) {
	s := startListening(t, "--run", servedRun(t))
	if err := s.terminate(t); err != nil {
		t.Errorf("%v\n%s", err, s.stderr)
	}
}

// TestServeDrains sends SIGTERM while a request is running. The server must answer this request.
func TestServeDrains(t *testing.T) {
	s := startServer(t, "--run", servedRun(t))
	images, _ := digits(t, 60)
	answered := make(chan int, 1)
	go func() {
		status, _, _ := s.infer(http.DefaultClient, images...)
		answered <- status
	}()
	for s.metric(t, "rscert_queue") == 0 {
		if len(answered) > 0 {
			t.Skip("the answer was faster than the signal")
		}
	}
	if err := s.terminate(t); err != nil {
		t.Errorf("%v\n%s", err, s.stderr)
	}
	if status := <-answered; status != 200 {
		t.Errorf("the running request got %d", status)
	}
}
