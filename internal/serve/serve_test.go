package serve

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/predict"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/spec"
)

// fake is a classifier of inputs of shape [1,1,2]. It has 3 classes. Its predicted class is 255 times the first value
// of the input, rounded. This number need not be one of the 3 classes.
type fake struct {
	bytes bool
	hold  chan struct{} // if not nil, answers wait until this channel is closed
	asked atomic.Pointer[run.Question]
}

func (f *fake) About() run.Description {
	return run.Description{RunID: "abc", Shape: []int{1, 1, 2}, Classes: 3, Bytes: f.bytes, Law: "gaussian", Sigma: .5, Alpha: .001, Budget: 100}
}
func (f *fake) ImageOptions() dataset.Options { return dataset.Options{} }
func (f *fake) Samples(q run.Question) (int64, error) {
	return 100 * int64(len(q.Inputs)), nil
}

func (f *fake) Ask(ctx context.Context, q run.Question) (run.Answered, error) {
	f.asked.Store(&q)
	defer q.Left()
	r := run.Answered{Key: 0xabc}
	for i, values := range q.Inputs {
		k := int(math.Round(255 * float64(values[0])))
		switch {
		case values[0]-values[0] != 0:
			return r, spec.BadInputf("input %d: not finite", i)
		case k == 250:
			panic("a request that panics")
		case k == 251:
			return r, errors.New("secret detail")
		case k == 252:
			return r, run.ErrClosed
		}
		a := predict.Answer{Index: i, Class: k, Samples: 13, Votes: []int64{1, 2, 10}, None: 4}
		if q.Certify {
			a.Certificate = &certify.Certificate{Prediction: k, Radius: .25}
		}
		r.Answers = append(r.Answers, a)
	}
	if f.hold != nil {
		select {
		case <-f.hold:
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
	return r, nil
}

func newTest(t *testing.T, f *fake, change func(*Config)) (*Server, *httptest.Server) {
	t.Helper()
	c := Config{Name: "m", MaxBody: 1000, Queue: 4, Samples: 1000, Connections: 8, Timeout: time.Minute, ReadTimeout: time.Minute, Slog: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&c)
	}
	s := newServer(c)
	if f != nil {
		s.ready.Store(&opened{f})
	}
	server := httptest.NewServer(s.handler())
	t.Cleanup(server.Close)
	return s, server
}

// post sends a request, and returns the status, the header and the body of the response.
func post(t *testing.T, url, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// body returns a request in JSON with one input. The argument 'more' adds members to the request.
func body(shape, datatype, data, more string) string {
	return fmt.Sprintf(`{"id":"q","inputs":[{"name":"input","shape":%s,"datatype":%q,"data":%s}]%s}`, shape, datatype, data, more)
}

// TestInferJSON checks answers in JSON: nested and flat data, inputs of both datatypes, chosen outputs, certificates.
func TestInferJSON(t *testing.T) {
	f := &fake{bytes: true}
	_, server := newTest(t, f, nil)
	for _, c := range []struct{ name, body, want string }{
		{"flat bytes", body("[2,1,1,2]", "UINT8", "[1,0,2,0]", ""), `"data":[1,2]`},
		{"nested", body("[2,1,1,2]", "UINT8", "[[[[2,0]]],[[[0,0]]]]", ""), `"data":[2,0]`},
		{"floats", body("[1,1,1,2]", "FP32", "[0.003921569,0]", ""), `"data":[1]`},
		{"votes", body("[1,1,1,2]", "UINT8", "[1,0]", `,"outputs":[{"name":"votes"}]`), `"outputs":[{"name":"votes","datatype":"INT64","shape":[1,3],"data":[1,2,10]}]`},
		{"certificate", body("[1,1,1,2]", "UINT8", "[1,0]", `,"parameters":{"certify":true},"outputs":[{"name":"radius"}]`), `"data":[0.25]`},
		{"conditions", body("[1,1,1,2]", "UINT8", "[1,0]", ""), `"parameters":{"alpha":0.001,"budget":100,"key":"0000000000000abc","law":"gaussian","norm":"l2","run_id":"abc","sigma":0.5}`},
		{"id", body("[1,1,1,2]", "UINT8", "[1,0]", ""), `"id":"q"`},
	} {
		status, _, text := post(t, server.URL+"/v2/models/m/infer", c.body)
		if status != 200 || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s, want %s", c.name, status, text, c.want)
		}
	}
	post(t, server.URL+"/v2/models/m/versions/1/infer", body("[1,1,1,2]", "UINT8", "[1,0]", `,"parameters":{"certify":0.5}`))
	if q := f.asked.Load(); !q.Certify || q.Radius != .5 || len(q.Inputs) != 1 {
		t.Errorf("asked %+v, want a certificate of radius 0.5", q)
	}
}

// TestInferBinary checks the binary extension in both directions.
func TestInferBinary(t *testing.T) {
	_, server := newTest(t, &fake{bytes: true}, nil)
	data := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(2)/255))
	data = binary.LittleEndian.AppendUint32(data, 0)
	head := `{"inputs":[{"name":"input","shape":[1,1,1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}],
		"outputs":[{"name":"class","parameters":{"binary_data":true}},{"name":"samples"},{"name":"certificate","parameters":{"binary_data":true}}],"parameters":{"certify":true}}`
	status, header, text := post(t, server.URL+"/v2/models/m/infer", head+string(data), headerLength, fmt.Sprint(len(head)))
	if status != 200 {
		t.Fatal(status, text)
	}
	var n int
	if _, err := fmt.Sscan(header.Get(headerLength), &n); err != nil {
		t.Fatal(err)
	}
	var doc inferResponse
	if err := json.Unmarshal([]byte(text[:n]), &doc); err != nil {
		t.Fatal(err)
	}
	rest := text[n:]
	if class := binary.LittleEndian.Uint64([]byte(rest)); class != 2 {
		t.Errorf("class %d, want 2", class)
	}
	length := binary.LittleEndian.Uint32([]byte(rest[8:]))
	if int(length) != len(rest)-12 || !json.Valid([]byte(rest[12:])) {
		t.Errorf("certificate %d %s", length, rest[12:])
	}
	if got := fmt.Sprint(doc.Outputs[1].Data); got != "[13]" || len(doc.Outputs) != 3 {
		t.Errorf("outputs %+v", doc.Outputs)
	}
}

// binaryHead is the JSON part of a request for one input in binary form.
const binaryHead = `{"inputs":[{"name":"input","shape":[1,1,1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}]}`

// TestHostile sends wrong requests. The server must answer each request with the error for its fault, and must still
// answer a good request afterwards.
func TestHostile(t *testing.T) {
	_, server := newTest(t, &fake{}, nil)
	infer := server.URL + "/v2/models/m/infer"
	for _, c := range []struct {
		name, url, body string
		status          int
		want            string
		header          []string
	}{
		{"no JSON", infer, "hello", 400, "no JSON of the protocol", nil},
		{"empty", infer, "", 400, "no JSON", nil},
		{"no inputs", infer, `{}`, 400, "want one", nil},
		{"another input", infer, strings.Replace(body("[1,1,1,2]", "FP32", "[1,0]", ""), `"input"`, `"x"`, 1), 400, "want one", nil},
		{"wrong rank", infer, body("[1,2]", "FP32", "[1,0]", ""), 400, "want [n,1,1,2]", nil},
		{"wrong size", infer, body("[1,1,2,1]", "FP32", "[1,0]", ""), 400, "want [n,1,1,2]", nil},
		{"no example", infer, body("[0,1,1,2]", "FP32", "[]", ""), 400, "want [n,1,1,2]", nil},
		{"negative", infer, body("[-1,1,1,2]", "FP32", "[]", ""), 400, "want [n,1,1,2]", nil},
		{"overflow", infer, body("[4611686018427387904,1,1,2]", "FP32", "[]", ""), 400, "want [n,1,1,2]", nil},
		{"wrong type", infer, body("[1,1,1,2]", "INT64", "[1,0]", ""), 400, "want FP32", nil},
		{"bytes off the byte lattice", infer, body("[1,1,1,2]", "UINT8", "[1,0]", ""), 400, "want FP32", nil},
		{"too few", infer, body("[1,1,1,2]", "FP32", "[1]", ""), 400, "1 values: want 2", nil},
		{"too many", infer, body("[1,1,1,2]", "FP32", "[1,2,3]", ""), 400, "more than the 2", nil},
		{"NaN", infer, body("[1,1,1,2]", "FP32", "[NaN,0]", ""), 400, "no JSON", nil},
		{"beyond float32", infer, body("[1,1,1,2]", "FP32", "[1e99,0]", ""), 400, "no FP32", nil},
		{"a string", infer, body("[1,1,1,2]", "FP32", `["a",0]`, ""), 400, "no number", nil},
		{"an object", infer, body("[1,1,1,2]", "FP32", `[{"a":1}]`, ""), 400, "array of numbers", nil},
		{"certify", infer, body("[1,1,1,2]", "FP32", "[1,0]", `,"parameters":{"certify":"yes"}`), 400, "want true", nil},
		{"certify −1", infer, body("[1,1,1,2]", "FP32", "[1,0]", `,"parameters":{"certify":-1}`), 400, "above 0", nil},
		{"unknown output", infer, body("[1,1,1,2]", "FP32", "[1,0]", `,"outputs":[{"name":"x"}]`), 400, "want one of", nil},
		{"long id", infer, strings.Replace(body("[1,1,1,2]", "FP32", "[1,0]", ""), `"q"`, `"`+strings.Repeat("a", 300)+`"`, 1), 400, "id", nil},
		{"huge", infer, strings.Repeat(" ", 2000), 413, "", nil},
		{"header length", infer, "{}", 400, "length of the JSON part", []string{headerLength, "99"}},
		{"header length −1", infer, "{}", 400, "length of the JSON part", []string{headerLength, "-1"}},
		{"compressed", infer, "{}", 415, "", []string{"Content-Encoding", "gzip"}},
		{"truncated binary", infer, binaryHead + "abc", 400, "want 8", []string{headerLength, fmt.Sprint(len(binaryHead))}},
		{"binary NaN", infer, binaryHead + "\xff\xff\xff\xff\x00\x00\x00\x00", 400, "not finite", []string{headerLength, fmt.Sprint(len(binaryHead))}},
		{"too many samples", infer, body("[11,1,1,2]", "FP32", "["+strings.Repeat("0,", 21)+"0]", ""), 400, "at most 1000", nil},
		{"another model", server.URL + "/v2/models/x/infer", "{}", 404, "unknown model", nil},
		{"another version", server.URL + "/v2/models/m/versions/2/infer", "{}", 404, "unknown model", nil},
		{"no image", server.URL + "/v2/models/m/image", "hello", 400, "unknown format", nil},
		{"panic", infer, body("[1,1,1,2]", "FP32", "[0.98039216,0]", ""), 500, `{"error":"internal error"}`, nil},
		{"failure", infer, body("[1,1,1,2]", "FP32", "[0.98431373,0]", ""), 500, `{"error":"internal error"}`, nil},
		{"stopped", infer, body("[1,1,1,2]", "FP32", "[0.98823529,0]", ""), 503, "ended", nil},
	} {
		status, _, text := post(t, c.url, c.body, c.header...)
		if status != c.status || !strings.Contains(text, c.want) || strings.Contains(text, "secret") || !json.Valid([]byte(text)) {
			t.Errorf("%s: %d %s, want %d with %s", c.name, status, text, c.status, c.want)
		}
		if status, _, text := post(t, infer, body("[1,1,1,2]", "FP32", "[0,0]", "")); status != 200 {
			t.Errorf("a good request after %s: %d %s", c.name, status, text)
		}
	}
}

// TestQueue fills the queue. The server must refuse the next request at once, and answer requests again when there is
// room.
func TestQueue(t *testing.T) {
	f := &fake{hold: make(chan struct{})}
	s, server := newTest(t, f, nil)
	ended := make(chan int, 2)
	for range 2 {
		go func() {
			status, _, _ := post(t, server.URL+"/v2/models/m/infer", body("[2,1,1,2]", "FP32", "[0,0,0,0]", ""))
			ended <- status
		}()
	}
	for s.waiting.Load() != 4 {
		time.Sleep(time.Millisecond)
	}
	status, header, _ := post(t, server.URL+"/v2/models/m/infer", body("[1,1,1,2]", "FP32", "[0,0]", ""))
	if status != 429 || header.Get("Retry-After") == "" {
		t.Errorf("status %d, Retry-After %q, want 429", status, header.Get("Retry-After"))
	}
	close(f.hold)
	for range 2 {
		if status := <-ended; status != 200 {
			t.Errorf("a waiting request got %d", status)
		}
	}
	if status, _, _ := post(t, server.URL+"/v2/models/m/infer", body("[1,1,1,2]", "FP32", "[0,0]", "")); status != 200 || s.waiting.Load() != 0 {
		t.Errorf("after the queue: status %d, %d waiting", status, s.waiting.Load())
	}
}

// TestBodies checks that the server refuses a request while the bodies of the running requests take all the memory that
// is meant for bodies. A JSON body with too many objects must be refused, too.
func TestBodies(t *testing.T) {
	s, server := newTest(t, &fake{}, nil)
	ask := func(parameters string) int {
		status, _, _ := post(t, server.URL+"/v2/models/m/infer", body("[1,1,1,2]", "FP32", "[0,0]", parameters))
		return status
	}
	if !s.bodies.TryAcquire(allBodies) {
		t.Fatal("bodies are counted before a request")
	}
	if status := ask(""); status != 429 {
		t.Errorf("no memory for bodies: status %d, want 429", status)
	}
	s.bodies.Release(allBodies)
	if status := ask(""); status != 200 {
		t.Errorf("status %d, want 200", status)
	}
	for !s.bodies.TryAcquire(allBodies) { // the server frees the body's memory a little after the answer
		time.Sleep(time.Millisecond)
	}
	s.bodies.Release(allBodies)
	many := `{"inputs":[` + strings.Repeat("{},", 100) + `{}]}`
	if status, _, text := post(t, server.URL+"/v2/models/m/infer", many); status != 400 || !strings.Contains(text, "JSON objects") {
		t.Errorf("101 inputs: %d %s, want 400", status, text)
	}
}

// TestTimeout checks that the server answers 504 to a request that takes too long.
func TestTimeout(t *testing.T) {
	f := &fake{hold: make(chan struct{})}
	_, server := newTest(t, f, func(c *Config) { c.Timeout = 10 * time.Millisecond })
	if status, _, text := post(t, server.URL+"/v2/models/m/infer", body("[1,1,1,2]", "FP32", "[0,0]", "")); status != 504 {
		t.Errorf("%d %s, want 504", status, text)
	}
}

func get(t *testing.T, url string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestReady checks the state of a server while its model is loading and afterwards.
func TestReady(t *testing.T) {
	s, server := newTest(t, nil, nil)
	for _, path := range []string{"/readyz", "/v2/health/ready", "/v2/models/m", "/v2/models/m/ready"} {
		if status, text := get(t, server.URL+path); status != 503 {
			t.Errorf("%s while loading: %d %s, want 503", path, status, text)
		}
	}
	if status, _ := get(t, server.URL+"/livez"); status != 200 {
		t.Errorf("live while loading: %d", status)
	}
	s.ready.Store(&opened{&fake{}})
	for _, path := range []string{"/readyz", "/v2/health/ready", "/v2/health/live", "/v2/models/m", "/v2/models/m/ready", "/v2"} {
		if status, text := get(t, server.URL+path); status != 200 {
			t.Errorf("%s: %d %s, want 200", path, status, text)
		}
	}
	if _, text := get(t, server.URL+"/v2/models/m"); !strings.Contains(text, `"inputs":[{"name":"input","datatype":"FP32","shape":[-1,1,1,2]}]`) {
		t.Error(text)
	}
}

// TestToken checks that the server refuses requests without the token, except on the health paths.
func TestToken(t *testing.T) {
	_, server := newTest(t, &fake{}, func(c *Config) { c.Token = []byte("sixteen-letters!") })
	for _, c := range []struct {
		path, token string
		want        int
	}{
		{"/readyz", "", 200}, {"/v2/health/live", "", 200},
		{"/v2", "", 401}, {"/metrics", "", 401}, {"/v2/models/m", "", 401},
		{"/v2", "Bearer sixteen-letters", 401}, {"/v2", "Bearer sixteen-letters!x", 401}, {"/v2", "sixteen-letters!", 401}, {"/v2", "Bearer ", 401},
		{"/v2", "Bearer sixteen-letters!", 200}, {"/metrics", "Bearer sixteen-letters!", 200},
	} {
		if status, _ := get(t, server.URL+c.path, "Authorization", c.token); status != c.want {
			t.Errorf("%s with %q: %d, want %d", c.path, c.token, status, c.want)
		}
	}
}

// TestMetrics checks the figures of /metrics after some requests.
func TestMetrics(t *testing.T) {
	_, server := newTest(t, &fake{}, nil)
	post(t, server.URL+"/v2/models/m/infer", body("[2,1,1,2]", "FP32", "[0,0,0,0]", ""))
	post(t, server.URL+"/v2/models/m/infer", "x")
	get(t, server.URL+"/made/up")
	_, text := get(t, server.URL+"/metrics")
	for _, want := range []string{
		`rscert_requests_total{path="POST /v2/models/{name}/infer",status="200"} 1`,
		`rscert_requests_total{path="POST /v2/models/{name}/infer",status="400"} 1`,
		`rscert_answers_total{answer="class"} 2`, `rscert_answer_votes_sum 26`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "made/up") {
		t.Error("a path of a client is a label")
	}
}

// TestStopBeforeReady tells a server to stop while it opens its classifier. If the opening fails only because of the
// stop, Serve must return nil. If it fails for another reason, Serve must return this error.
func TestStopBeforeReady(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct{ fault, want error }{{nil, nil}, {broken, broken}} {
		ctx, stop := context.WithCancel(t.Context())
		config := Config{
			Listen: "127.0.0.1:0", MaxBody: 1000, Queue: 4, Samples: 1000, Connections: 8, Timeout: time.Minute, ReadTimeout: time.Minute,
			Drain: time.Minute, Slog: slog.New(slog.DiscardHandler),
		}
		err := Serve(ctx, config, func(ctx context.Context) (*run.Answerer, error) {
			stop()
			<-ctx.Done()
			if c.fault != nil {
				return nil, c.fault
			}
			return nil, fmt.Errorf("opening: %w", ctx.Err())
		}, nil)
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("error %v, want %v", err, c.want)
		}
		stop()
	}
}
