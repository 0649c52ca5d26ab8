package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/serve/oip"
)

// loadTime returns how long each kind of load lasts. 'make serve-load' sets this time to a minute.
func loadTime(t *testing.T) (length time.Duration, set bool) {
	t.Helper()
	text := os.Getenv("RSCERT_SERVE_LOAD")
	if text == "" {
		return time.Second, false
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d, true
}

// asker sends one image and returns an error unless the answer is a class or an abstention.
type asker func(image []byte) error

// leanHTTP opens a connection, and returns an asker: a function that sends an image over this connection. The asker
// takes less processor time than the client of net/http, so more is left for the server.
func (s *served) leanHTTP(t *testing.T) (ask asker, hangUp func() error) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.root(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	const head = `{"inputs":[{"name":"input","shape":[1,1,28,28],"datatype":"UINT8",` +
		`"parameters":{"binary_data_size":784}}],"outputs":[{"name":"class"}]}`
	start := fmt.Sprintf("POST %s/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", strings.TrimPrefix(s.model, s.root()), len(head)+784)
	start += fmt.Sprintf("Inference-Header-Content-Length: %d\r\n\r\n%s", len(head), head)
	const class = `"name":"class","datatype":"INT64","shape":[1],"data":[`
	var body []byte
	ask = func(image []byte) error {
		if _, err := conn.Write(append([]byte(start), image...)); err != nil {
			return err
		}
		state, err := in.ReadString('\n')
		length := 0
		for err == nil {
			var line []byte
			if line, err = in.ReadSlice('\n'); len(line) <= 2 {
				break
			}
			if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
				length, err = strconv.Atoi(string(bytes.TrimSpace(value)))
			}
		}
		body = slices.Grow(body[:0], length)[:length]
		if err == nil {
			_, err = io.ReadFull(in, body)
		}
		if err != nil {
			return err
		}
		if !strings.HasPrefix(state, "HTTP/1.1 200 ") || !bytes.Contains(body, []byte(class)) {
			return fmt.Errorf("%s%s", state, body)
		}
		return nil
	}
	return ask, conn.Close
}

// callsPerConnection is the number of clients that share a connection of gRPC.
const callsPerConnection = 16

// byGRPC returns a function that sends an image to the server over gRPC (see asker).
func byGRPC(client oip.GRPCInferenceServiceClient) asker {
	return func(image []byte) error {
		a, err := client.ModelInfer(context.Background(), digitsCall([][]byte{image}, 0))
		if err == nil && len(classesOf(a)) != 1 {
			err = fmt.Errorf("answer %v", a)
		}
		return err
	}
}

// figures are the measurements of one kind of load.
type figures struct {
	name      string
	latencies []time.Duration // response times of the requests that are not hostile
	length    time.Duration
	samples   float64
	server    float64   // processor time of the server, in seconds
	clients   float64   // processor time of the clients, in seconds
	rates     []float64 // samples per second in each round, relative to the samples per second of 'rscert certify'
	memory    float64   // resident memory of the server after the load, in bytes
}

// quantile returns a quantile of durations.
func quantile(l []time.Duration, q float64) time.Duration {
	slices.Sort(l)
	return l[min(len(l)-1, int(q*float64(len(l))))].Round(10 * time.Microsecond)
}

func median(v []float64) float64 {
	slices.Sort(v)
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}

func (f *figures) String() string {
	n, seconds := len(f.latencies), f.length.Seconds()
	text := fmt.Sprintf("%s: %d requests, %.0f requests/s, %.0f samples/s", f.name, n, float64(n)/seconds, f.samples/seconds)
	text += fmt.Sprintf(", processor a sample %.1f µs in the server and %.1f µs in the clients", f.server/f.samples*1e6, f.clients/f.samples*1e6)
	text += fmt.Sprintf(", p50 %v, p90 %v, p99 %v", quantile(f.latencies, .5), quantile(f.latencies, .9), quantile(f.latencies, .99))
	text += fmt.Sprintf(", RSS %.0f MB", f.memory/1e6)
	if len(f.rates) > 0 {
		text += fmt.Sprintf(", %.2f of certify's samples/s (median of rounds)", median(f.rates))
	}
	return text
}

// ownSeconds returns the processor time of this process.
func ownSeconds(t *testing.T) float64 {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}

// load runs a client for each asker, all at the same time, and adds the measurements to f. If the first asker is nil,
// all clients ask over HTTP. The argument 'hostile' is the share of hostile requests. The server must answer all
// requests that are not hostile. The result is the number of samples per second.
func (f *figures) load(
	t *testing.T, s *served, askers []asker, length time.Duration, hostile float64, attack func(*rand.Rand),
) float64 {
	t.Helper()
	images, _ := digits(t, 100)
	if askers[0] == nil {
		askers = slices.Clone(askers)
		for k := range askers {
			ask, hangUp := s.leanHTTP(t)
			defer func() { _ = hangUp() }()
			askers[k] = ask
		}
	}
	samples, server, own := s.metric(t, "rscert_samples_total"), s.metric(t, "process_cpu_seconds_total"), ownSeconds(t)
	var mu sync.Mutex
	var attacks atomic.Int64
	var wait sync.WaitGroup
	end := time.Now().Add(length)
	for k, ask := range askers {
		wait.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(k), 1))
			var latencies []time.Duration
			for time.Now().Before(end) {
				if rng.Float64() < hostile {
					attack(rng)
					attacks.Add(1)
					continue
				}
				began := time.Now()
				if err := ask(images[rng.IntN(len(images))]); err != nil {
					t.Errorf("%s: a good request got %v", f.name, err)
					return
				}
				latencies = append(latencies, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			f.latencies = append(f.latencies, latencies...)
		})
	}
	wait.Wait()
	if hostile > 0 && attacks.Load() == 0 {
		t.Errorf("%s: no hostile request was sent", f.name)
	}
	samples = s.metric(t, "rscert_samples_total") - samples
	f.length += length
	f.samples += samples
	f.server += s.metric(t, "process_cpu_seconds_total") - server
	f.clients += ownSeconds(t) - own
	f.memory = s.metric(t, "process_resident_memory_bytes")
	return samples / length.Seconds()
}

// attackHTTP sends one hostile request over HTTP, on a new connection.
func (s *served) attackHTTP(rng *rand.Rand) {
	address := strings.TrimPrefix(s.root(), "http://")
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return
	}
	defer conn.Close()
	path := strings.TrimPrefix(s.model, s.root())
	send := func(length int, body string) {
		fmt.Fprintf(conn, "POST %s/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, length, body)
		_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, 1000))
	}
	switch rng.IntN(7) {
	case 0: // a wrong shape
		b := `{"inputs":[{"name":"input","shape":[1,3,28,28],"datatype":"UINT8","data":[1]}]}`
		send(len(b), b)
	case 1: // NaN
		b := `{"inputs":[{"name":"input","shape":[1,1,28,28],"datatype":"FP32","data":[NaN]}]}`
		send(len(b), b)
	case 2: // a huge body
		send(1<<40, strings.Repeat("x", 4096))
	case 3: // a header that never ends
		fmt.Fprintf(conn, "POST %s/infer HTTP/1.1\r\nX-Slow: ", path)
		time.Sleep(50 * time.Millisecond)
	case 4: // a wrong type
		b := `{"inputs":[{"name":"input","shape":[1,1,28,28],"datatype":"INT32","data":[1]}]}`
		send(len(b), b)
	case 5: // a body that ends early
		send(5000, `{"inputs":[`)
	case 6: // bytes that are not HTTP
		_, _ = conn.Write([]byte{0x16, 3, 1, 0, 0xff, 0xfe})
	}
}

// attackGRPC returns a function that sends one hostile request over gRPC. If the request is a call of ModelInfer, the
// server must refuse it with INVALID_ARGUMENT or RESOURCE_EXHAUSTED.
func (s *served) attackGRPC(t *testing.T, client oip.GRPCInferenceServiceClient) func(*rand.Rand) {
	image := make([]byte, 784)
	send := func(change func(*oip.ModelInferRequest)) {
		r := digitsCall([][]byte{image}, 0)
		change(r)
		_, err := client.ModelInfer(context.Background(), r)
		if code := status.Code(err); code != codes.InvalidArgument && code != codes.ResourceExhausted {
			t.Errorf("a hostile call got %v", err)
		}
	}
	raw := func(text string) {
		conn, err := net.DialTimeout("tcp", s.grpc, time.Second)
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, text)
		time.Sleep(50 * time.Millisecond)
	}
	nan := make([]byte, 4*784)
	for i := range 784 {
		bits := math.Float32bits(float32(math.NaN()))
		nan[4*i], nan[4*i+1], nan[4*i+2], nan[4*i+3] = byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24)
	}
	return func(rng *rand.Rand) {
		switch rng.IntN(7) {
		case 0: // a wrong shape
			send(func(r *oip.ModelInferRequest) { r.Inputs[0].Shape = []int64{1, 3, 28, 28} })
		case 1: // NaN
			send(func(r *oip.ModelInferRequest) {
				r.Inputs[0].Datatype, r.RawInputContents = "FP32", [][]byte{nan}
			})
		case 2: // a huge message
			send(func(r *oip.ModelInferRequest) { r.RawInputContents = [][]byte{make([]byte, 9<<20)} })
		case 3: // a wrong type
			send(func(r *oip.ModelInferRequest) { r.Inputs[0].Datatype = "INT32" })
		case 4: // a truncated tensor
			send(func(r *oip.ModelInferRequest) { r.RawInputContents[0] = r.RawInputContents[0][:700] })
		case 5: // a connection that ends after the preface of HTTP/2
			raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		case 6: // a request that is not HTTP/2
			raw("GET / HTTP/1.1\r\n\r\n")
		}
	}
}

// certifySpeed returns the samples per second of 'rscert certify', and its processor time per sample.
func certifySpeed(t *testing.T) (samplesPerSecond, each float64) {
	t.Helper()
	args := func(n string) []string {
		return []string{"certify", "--model", "../../testdata/mnist-cnn.onnx", "--data", "../../testdata/mnist", "--sigma", "0.5",
			"--seed", "1", "--n", n, "--n0", "100", "--max", "20", "--quiet", "--out", filepath.Join(t.TempDir(), "run")}
	}
	var wall, processor [2]time.Duration // times of a short run and of a long run
	for i, n := range []string{"100", "5000"} {
		cmd, began := program(t, args(n)...), time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		wall[i], processor[i] = time.Since(began), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	}
	const samples = 20 * (5000 - 100)
	return samples / (wall[1] - wall[0]).Seconds(), (processor[1] - processor[0]).Seconds() / samples
}

// timeBatches runs batches of 16 inputs until the time 'length' is over. It returns the running time of each batch.
func timeBatches(t *testing.T, model *onnx.Model, length time.Duration) (took []time.Duration) {
	t.Helper()
	in, out := make([]float32, 16*784), make([]float32, 16*model.Classes())
	for end := time.Now().Add(length); time.Now().Before(end); {
		began := time.Now()
		if err := model.Run(t.Context(), in, out); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	return took
}

// bundledCNN loads the bundled model for batches of 16.
func bundledCNN(t *testing.T) *onnx.Model {
	t.Helper()
	path, err := ortlib.FindFor(ortlib.Build{}, "")
	if err != nil {
		t.Fatal(err)
	}
	library, err1 := onnx.Open(path)
	content, err2 := os.ReadFile("../../testdata/mnist-cnn.onnx")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	model, err := library.Load(content, onnx.LoadOptions{Device: onnx.CPU, Batch: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() })
	return model
}

// TestServeLoad puts a server under load from one client, from 64 clients, and from 64 clients with 5 % hostile
// requests. It does this over HTTP and over gRPC. The server must answer every good request. If the variable
// RSCERT_SERVE_LOAD is set, the test also prints the figures of docs/benchmarks.md. For these figures, each round runs
// every kind of load and 'rscert certify' once. So other work on the machine slows each of them equally.
func TestServeLoad(t *testing.T) {
	length, measure := loadTime(t)
	rounds := 1
	var model *onnx.Model
	if measure {
		rounds, model = 6, bundledCNN(t)
	}
	s := startServer(t, "--run", servedRun(t), "--grpc-listen", "127.0.0.1:0", "--connections", "300")
	http.DefaultClient.CloseIdleConnections()
	forHTTP := make([]asker, 64) // opened when they are used, because the server closes connections without requests
	var forGRPC []asker
	var client oip.GRPCInferenceServiceClient
	for k := range 64 {
		if k%callsPerConnection == 0 {
			client = s.client(t)
		}
		forGRPC = append(forGRPC, byGRPC(client))
	}
	kinds := []struct {
		*figures
		askers  []asker
		hostile float64
		attack  func(*rand.Rand)
	}{
		{&figures{name: "1 client"}, forHTTP[:1], 0, nil},
		{&figures{name: "1 client, gRPC"}, forGRPC[:1], 0, nil},
		{&figures{name: "64 clients"}, forHTTP, 0, nil},
		{&figures{name: "64 clients, gRPC"}, forGRPC, 0, nil},
		{&figures{name: "64 clients, 5 % hostile"}, forHTTP, .05, s.attackHTTP},
		{&figures{name: "64 clients, 5 % hostile, gRPC"}, forGRPC, .05, s.attackGRPC(t, s.client(t))},
	}
	var speeds, each []float64
	var batches []time.Duration
	for range rounds {
		speed := 0.
		if measure {
			var cost float64
			speed, cost = certifySpeed(t)
			speeds, each = append(speeds, speed), append(each, cost)
			batches = append(batches, timeBatches(t, model, length/time.Duration(3*rounds))...)
		}
		for _, k := range kinds {
			rate := k.load(t, s, k.askers, length/time.Duration(rounds), k.hostile, k.attack)
			if measure {
				k.rates = append(k.rates, rate/speed)
			}
		}
	}
	for _, k := range kinds {
		if len(k.latencies) < len(k.askers) {
			t.Errorf("%s: only %d answers", k.name, len(k.latencies))
			continue
		}
		t.Log(k.figures)
	}
	if err := s.terminate(t); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, s.stderr)
	}
	if measure {
		t.Logf("certify: %.0f samples/s, %.1f µs of the processor a sample (medians of rounds)", median(speeds), median(each)*1e6)
		t.Logf("a batch of 16 alone: p50 %v, p90 %v, p99 %v", quantile(batches, .5), quantile(batches, .9), quantile(batches, .99))
	}
}
