package serve

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rscert/rscert/internal/auditlog"
	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/serve/oip"
)

// newGRPCTest starts a gRPC server, and returns a client.
func newGRPCTest(t *testing.T, f *fake, change func(*Config)) (*Server, oip.GRPCInferenceServiceClient) {
	t.Helper()
	s, _ := newTest(t, f, change)
	address := listenGRPC(t, s)
	return s, dial(t, address, insecure.NewCredentials())
}

func listenGRPC(t *testing.T, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := s.newGRPC()
	go func() { _ = g.Serve(limitedListener{l, s.connections}) }()
	t.Cleanup(g.Stop)
	return l.Addr().String()
}

func dial(t *testing.T, address string, how credentials.TransportCredentials) oip.GRPCInferenceServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(how))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return oip.NewGRPCInferenceServiceClient(conn)
}

// floats returns a call with n inputs as raw contents. Each input has two values. Input i has the values first[i]/255
// and 0.
func floats(n int64, first ...float32) *oip.ModelInferRequest {
	var raw []byte
	for _, v := range first {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v/255))
		raw = binary.LittleEndian.AppendUint32(raw, 0)
	}
	return &oip.ModelInferRequest{
		ModelName: "m", Id: "q", RawInputContents: [][]byte{raw},
		Inputs: []*oip.ModelInferRequest_InferInputTensor{{Name: inputName, Datatype: "FP32", Shape: []int64{n, 1, 1, 2}}},
	}
}

// The function 'typed' returns a call with one input in typed contents.
func typed(datatype string, c *oip.InferTensorContents) *oip.ModelInferRequest {
	r := floats(1)
	r.RawInputContents, r.Inputs[0].Contents, r.Inputs[0].Datatype = nil, c, datatype
	return r
}

// The function 'certifying' changes the call r so that it asks for certificates, and returns r.
func certifying(r *oip.ModelInferRequest, value *oip.InferParameter) *oip.ModelInferRequest {
	r.Parameters = map[string]*oip.InferParameter{"certify": value}
	return r
}

func wanted(r *oip.ModelInferRequest, names ...string) *oip.ModelInferRequest {
	for _, name := range names {
		r.Outputs = append(r.Outputs, &oip.ModelInferRequest_InferRequestedOutputTensor{Name: name})
	}
	return r
}

// TestGRPCInfer checks the answers to calls whose inputs have raw contents or typed contents, in each of the two
// datatypes. Some of these calls choose outputs, and some ask for certificates. It also checks the conditions in the
// answers, such as alpha, sigma and the run ID.
func TestGRPCInfer(t *testing.T) {
	f := &fake{bytes: true}
	_, client := newGRPCTest(t, f, nil)
	ask := func(r *oip.ModelInferRequest) *oip.ModelInferResponse {
		t.Helper()
		a, err := client.ModelInfer(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := ask(floats(2, 1, 2))
	if a.ModelName != "m" || a.ModelVersion != "1" || a.Id != "q" || len(a.Outputs) != 5 || len(a.RawOutputContents) != 5 {
		t.Fatalf("%v", a)
	}
	if raw := a.RawOutputContents[0]; binary.LittleEndian.Uint64(raw) != 1 || binary.LittleEndian.Uint64(raw[8:]) != 2 || len(raw) != 16 {
		t.Errorf("class %v, want 1 and 2", raw)
	}
	for i, want := range []string{"class INT64 [2]", "votes INT64 [2 3]", "none INT64 [2]", "samples INT64 [2]", "moved FP64 [2]"} {
		if o := a.Outputs[i]; fmt.Sprint(o.Name, " ", o.Datatype, " ", o.Shape) != want || o.Contents != nil {
			t.Errorf("output %v, want %s", o, want)
		}
	}
	p := a.Parameters
	if p["alpha"].GetDoubleParam() != .001 || p["budget"].GetInt64Param() != 100 || p["key"].GetStringParam() != "0000000000000abc" ||
		p["law"].GetStringParam() != "gaussian" || p["run_id"].GetStringParam() != "abc" || p["sigma"].GetDoubleParam() != .5 {
		t.Errorf("conditions %v", p)
	}
	bytesRaw := floats(1)
	bytesRaw.Inputs[0].Datatype, bytesRaw.RawInputContents = "UINT8", [][]byte{{7, 0}}
	if a = ask(bytesRaw); a.RawOutputContents[0][0] != 7 {
		t.Errorf("raw bytes: %v", a)
	}
	for _, r := range []*oip.ModelInferRequest{
		typed("UINT8", &oip.InferTensorContents{UintContents: []uint32{9, 0}}),
		typed("FP32", &oip.InferTensorContents{Fp32Contents: []float32{9. / 255, 0}}),
	} {
		a = ask(certifying(wanted(r, "class", "votes", "radius", "certificate"), &oip.InferParameter{ParameterChoice: &oip.InferParameter_DoubleParam{DoubleParam: .5}}))
		if len(a.RawOutputContents) != 0 || len(a.Outputs) != 4 {
			t.Fatalf("typed contents: %v", a)
		}
		if !slices.Equal(a.Outputs[0].Contents.Int64Contents, []int64{9}) || !slices.Equal(a.Outputs[1].Contents.Int64Contents, []int64{1, 2, 10}) ||
			!slices.Equal(a.Outputs[2].Contents.Fp64Contents, []float64{.25}) || !bytes.Contains(a.Outputs[3].Contents.BytesContents[0], []byte(`"radius":0.25`)) {
			t.Errorf("typed contents: %v", a)
		}
		if q := f.asked.Load(); !q.Certify || q.Radius != .5 {
			t.Errorf("asked %+v, want a certificate of radius 0.5", q)
		}
	}
	ask(certifying(floats(1, 1), &oip.InferParameter{ParameterChoice: &oip.InferParameter_BoolParam{BoolParam: true}}))
	if q := f.asked.Load(); !q.Certify || q.Radius != 0 {
		t.Errorf("asked %+v, want a certificate", q)
	}
	for _, two := range []*oip.InferParameter{
		{ParameterChoice: &oip.InferParameter_Int64Param{Int64Param: 2}}, {ParameterChoice: &oip.InferParameter_Uint64Param{Uint64Param: 2}},
	} {
		ask(certifying(floats(1, 1), two))
		if q := f.asked.Load(); !q.Certify || q.Radius != 2 {
			t.Errorf("asked %+v, want a certificate of radius 2", q)
		}
	}
}

// TestGRPCHostile sends wrong calls. The server must refuse each call with the code and the text for its fault, and
// must still answer a good call afterwards.
func TestGRPCHostile(t *testing.T) {
	s, client := newGRPCTest(t, &fake{}, func(c *Config) { c.MaxBody = 5000 })
	change := func(f func(r *oip.ModelInferRequest)) *oip.ModelInferRequest {
		r := floats(1, 1)
		f(r)
		return r
	}
	shape := func(shape ...int64) *oip.ModelInferRequest {
		return change(func(r *oip.ModelInferRequest) { r.Inputs[0].Shape = shape })
	}
	text := func(v string) *oip.InferParameter {
		return &oip.InferParameter{ParameterChoice: &oip.InferParameter_StringParam{StringParam: v}}
	}
	for _, c := range []struct {
		name string
		r    *oip.ModelInferRequest
		code codes.Code
		want string
	}{
		{"empty", &oip.ModelInferRequest{}, codes.NotFound, "unknown model"},
		{"another model", change(func(r *oip.ModelInferRequest) { r.ModelName = "x" }), codes.NotFound, "unknown model"},
		{"another version", change(func(r *oip.ModelInferRequest) { r.ModelVersion = "2" }), codes.NotFound, "unknown model"},
		{"no inputs", &oip.ModelInferRequest{ModelName: "m"}, codes.InvalidArgument, "want one"},
		{"another input", change(func(r *oip.ModelInferRequest) { r.Inputs[0].Name = "x" }), codes.InvalidArgument, "want one"},
		{"wrong rank", shape(1, 2), codes.InvalidArgument, "want [n,1,1,2]"},
		{"wrong size", shape(1, 1, 2, 1), codes.InvalidArgument, "want [n,1,1,2]"},
		{"negative", shape(-1, 1, 1, 2), codes.InvalidArgument, "want [n,1,1,2]"},
		{"overflow", shape(1<<62, 1, 1, 2), codes.InvalidArgument, "want [n,1,1,2]"},
		{"wrong type", change(func(r *oip.ModelInferRequest) { r.Inputs[0].Datatype = "INT32" }), codes.InvalidArgument, "want FP32"},
		{"truncated", change(func(r *oip.ModelInferRequest) { r.RawInputContents[0] = r.RawInputContents[0][:7] }), codes.InvalidArgument, "7 bytes of raw contents: want 8"},
		{"too long", change(func(r *oip.ModelInferRequest) { r.RawInputContents[0] = make([]byte, 12) }), codes.InvalidArgument, "want 8"},
		{"two raw inputs", change(func(r *oip.ModelInferRequest) { r.RawInputContents = [][]byte{{}, {}} }), codes.InvalidArgument, "want one for each of 1"},
		{"both contents", change(func(r *oip.ModelInferRequest) {
			r.Inputs[0].Contents = &oip.InferTensorContents{Fp32Contents: []float32{0, 0}}
		}), codes.InvalidArgument, "both"},
		{"no contents", typed("FP32", nil), codes.InvalidArgument, "0 values"},
		{"contents of another type", typed("FP32", &oip.InferTensorContents{Fp64Contents: []float64{0, 0}}), codes.InvalidArgument, "0 values"},
		{"too few", typed("FP32", &oip.InferTensorContents{Fp32Contents: []float32{0}}), codes.InvalidArgument, "1 values"},
		{"NaN", floats(1, float32(math.NaN())), codes.InvalidArgument, "not finite"},
		{"infinite", floats(1, float32(math.Inf(1))), codes.InvalidArgument, "not finite"},
		{"typed NaN", typed("FP32", &oip.InferTensorContents{Fp32Contents: []float32{float32(math.NaN()), 0}}), codes.InvalidArgument, "not finite"},
		{"certify", certifying(floats(1, 1), text("yes")), codes.InvalidArgument, "want true"},
		{"certify −1", certifying(floats(1, 1), &oip.InferParameter{ParameterChoice: &oip.InferParameter_DoubleParam{DoubleParam: -1}}), codes.InvalidArgument, "above 0"},
		{"certify NaN", certifying(floats(1, 1), &oip.InferParameter{ParameterChoice: &oip.InferParameter_DoubleParam{DoubleParam: math.NaN()}}), codes.InvalidArgument, "above 0"},
		{"unknown output", wanted(floats(1, 1), "x"), codes.InvalidArgument, "want one of"},
		{"long id", change(func(r *oip.ModelInferRequest) { r.Id = strings.Repeat("a", 300) }), codes.InvalidArgument, "id"},
		{"many parts", wanted(floats(1, 1), make([]string, 300)...), codes.InvalidArgument, "more than 256 parts"},
		{"too many samples", floats(11, make([]float32, 11)...), codes.InvalidArgument, "at most 1000"},
		{"huge", change(func(r *oip.ModelInferRequest) { r.RawInputContents[0] = make([]byte, 6000) }), codes.ResourceExhausted, "larger than max"},
		{"panic", floats(1, 250), codes.Internal, "internal error"},
		{"failure", floats(1, 251), codes.Internal, "internal error"},
		{"stopped", floats(1, 252), codes.Unavailable, "ended"},
	} {
		_, err := client.ModelInfer(t.Context(), c.r)
		if st := status.Convert(err); st.Code() != c.code || !strings.Contains(st.Message(), c.want) || strings.Contains(st.Message(), "secret") {
			t.Errorf("%s: %v, want %v with %s", c.name, err, c.code, c.want)
		}
		if _, err := client.ModelInfer(t.Context(), floats(1, 0)); err != nil {
			t.Errorf("a good call after %s: %v", c.name, err)
		}
	}
	if n := s.running.Load(); n != 0 || !s.bodies.TryAcquire(allBodies) {
		t.Errorf("%d calls still hold their claims", n)
	}
}

// TestGRPCBytes checks that the server refuses the number 256 in an input of the type UINT8.
func TestGRPCBytes(t *testing.T) {
	_, client := newGRPCTest(t, &fake{bytes: true}, nil)
	_, err := client.ModelInfer(t.Context(), typed("UINT8", &oip.InferTensorContents{UintContents: []uint32{256, 0}}))
	if st := status.Convert(err); st.Code() != codes.InvalidArgument || !strings.Contains(st.Message(), "256 is no UINT8") {
		t.Error(err)
	}
}

// TestGRPCMalformed sends bytes that are not a valid message: messages that are cut short, an unfinished group, and
// lengths beyond the end of the message.
func TestGRPCMalformed(t *testing.T) {
	s, _ := newTest(t, &fake{}, nil)
	conn, err := grpc.NewClient(listenGRPC(t, s), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(bare{})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, message := range []string{"\x0a\x05m", "\xff", "\x2a\xff\xff\xff\xff\x0f", "\x0b", "\x2a\x02\x0a\x7f"} {
		var answer []byte
		err := conn.Invoke(t.Context(), oip.GRPCInferenceService_ModelInfer_FullMethodName, []byte(message), &answer)
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: %v, want INVALID_ARGUMENT", message, err)
		}
	}
}

// bare is a codec that sends bytes as they are.
type bare struct{}

func (bare) Marshal(v any) ([]byte, error)      { return v.([]byte), nil }
func (bare) Unmarshal(data []byte, v any) error { *v.(*[]byte) = data; return nil }
func (bare) Name() string                       { return "proto" }

// TestGRPCReady checks the calls for health and metadata, both while the model is loading and afterwards.
func TestGRPCReady(t *testing.T) {
	s, client := newGRPCTest(t, nil, nil)
	ctx := t.Context()
	live, err := client.ServerLive(ctx, &oip.ServerLiveRequest{})
	if err != nil || !live.Live {
		t.Error(live, err)
	}
	ready := func(want bool) {
		t.Helper()
		server, err := client.ServerReady(ctx, &oip.ServerReadyRequest{})
		if err != nil || server.Ready != want {
			t.Error(server, err)
		}
		model, err := client.ModelReady(ctx, &oip.ModelReadyRequest{Name: "m", Version: "1"})
		if err != nil || model.Ready != want {
			t.Error(model, err)
		}
	}
	ready(false)
	if _, err := client.ModelInfer(ctx, floats(1, 0)); status.Code(err) != codes.Unavailable || retryDelay(err) != time.Second {
		t.Errorf("while loading: %v", err)
	}
	if _, err := client.ModelMetadata(ctx, &oip.ModelMetadataRequest{Name: "m"}); status.Code(err) != codes.Unavailable {
		t.Errorf("while loading: %v", err)
	}
	s.ready.Store(&opened{&fake{}})
	ready(true)
	if _, err := client.ModelReady(ctx, &oip.ModelReadyRequest{Name: "x"}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	server, err := client.ServerMetadata(ctx, &oip.ServerMetadataRequest{})
	if err != nil || server.Name != "rscert" {
		t.Error(server, err)
	}
	model, err := client.ModelMetadata(ctx, &oip.ModelMetadataRequest{Name: "m"})
	if err != nil || model.Name != "m" || !slices.Equal(model.Inputs[0].Shape, []int64{-1, 1, 1, 2}) || model.Inputs[0].Datatype != "FP32" ||
		len(model.Outputs) != 5 || !slices.Equal(model.Outputs[1].Shape, []int64{-1, 3}) || !slices.Equal(model.Versions, []string{"1"}) {
		t.Error(model, err)
	}
}

// retryDelay returns the delay that an error recommends.
func retryDelay(err error) time.Duration {
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(*errdetails.RetryInfo); ok {
			return r.RetryDelay.AsDuration()
		}
	}
	return 0
}

// TestGRPCToken checks that the server refuses calls without the token. Only ServerLive and ServerReady must succeed
// without it.
func TestGRPCToken(t *testing.T) {
	_, client := newGRPCTest(t, &fake{}, func(c *Config) { c.Token = []byte("sixteen-letters!") })
	for _, c := range []struct {
		token string
		want  codes.Code
	}{
		{"", codes.Unauthenticated}, {"Bearer ", codes.Unauthenticated}, {"sixteen-letters!", codes.Unauthenticated},
		{"Bearer sixteen-letters", codes.Unauthenticated}, {"Bearer sixteen-letters!", codes.OK},
	} {
		ctx := t.Context()
		if c.token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", c.token)
		}
		_, infer := client.ModelInfer(ctx, floats(1, 0))
		_, model := client.ModelMetadata(ctx, &oip.ModelMetadataRequest{Name: "m"})
		_, ready := client.ModelReady(ctx, &oip.ModelReadyRequest{Name: "m"})
		_, server := client.ServerMetadata(ctx, &oip.ServerMetadataRequest{})
		for i, err := range []error{infer, model, ready, server} {
			if status.Code(err) != c.want {
				t.Errorf("call %d with %q: %v, want %v", i, c.token, err, c.want)
			}
		}
		if _, err := client.ServerLive(ctx, &oip.ServerLiveRequest{}); err != nil {
			t.Error(err)
		}
		if _, err := client.ServerReady(ctx, &oip.ServerReadyRequest{}); err != nil {
			t.Error(err)
		}
	}
}

// TestGRPCQueue fills the queue by HTTP and gRPC. The next call must be refused at once, and the error must say when to
// try again.
func TestGRPCQueue(t *testing.T) {
	f := &fake{hold: make(chan struct{})}
	s, server := newTest(t, f, nil)
	client := dial(t, listenGRPC(t, s), insecure.NewCredentials())
	ended := make(chan error, 2)
	go func() {
		_, err := client.ModelInfer(t.Context(), floats(2, 0, 0))
		ended <- err
	}()
	go func() {
		var err error
		if status, _, text := post(t, server.URL+"/v2/models/m/infer", body("[2,1,1,2]", "FP32", "[0,0,0,0]", "")); status != 200 {
			err = fmt.Errorf("%d %s", status, text)
		}
		ended <- err
	}()
	for s.waiting.Load() != 4 {
		time.Sleep(time.Millisecond)
	}
	_, err := client.ModelInfer(t.Context(), floats(1, 0))
	if status.Code(err) != codes.ResourceExhausted || retryDelay(err) != time.Second {
		t.Errorf("a full queue: %v, retry after %v", err, retryDelay(err))
	}
	close(f.hold)
	for range 2 {
		if err := <-ended; err != nil {
			t.Errorf("a waiting request: %v", err)
		}
	}
	if _, err := client.ModelInfer(t.Context(), floats(1, 0)); err != nil {
		t.Error(err)
	}
}

// TestRunningLimit starts the maximum number of requests. Further requests must be refused, but the server must still
// say whether it and its model are ready.
func TestRunningLimit(t *testing.T) {
	f := &fake{hold: make(chan struct{})}
	s, server := newTest(t, f, func(c *Config) { c.Connections = 3 })
	client := dial(t, listenGRPC(t, s), insecure.NewCredentials())
	ended := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := client.ModelInfer(t.Context(), floats(1, 0))
			ended <- err
		}()
	}
	for s.waiting.Load() != 3 {
		time.Sleep(time.Millisecond)
	}
	if _, err := client.ModelInfer(t.Context(), floats(1, 0)); status.Code(err) != codes.Unavailable || retryDelay(err) == 0 {
		t.Errorf("the fourth call: %v", err)
	}
	if status, header, text := post(t, server.URL+"/v2/models/m/infer", body("[1,1,1,2]", "FP32", "[0,0]", "")); status != 503 || header.Get("Retry-After") == "" {
		t.Errorf("the fourth request: %d %s", status, text)
	}
	if r, err := client.ServerReady(t.Context(), &oip.ServerReadyRequest{}); err != nil || !r.Ready {
		t.Error(r, err)
	}
	if r, err := client.ModelReady(t.Context(), &oip.ModelReadyRequest{Name: "m"}); err != nil || !r.Ready {
		t.Error(r, err)
	}
	if status, text := get(t, server.URL+"/readyz"); status != 200 {
		t.Error(status, text)
	}
	close(f.hold)
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestGRPCTimes checks five ways in which a call can fail: the answer takes too long, the client's deadline passes, the
// client cancels the call, the message takes too long to arrive, and the client closes the stream without a message.
func TestGRPCTimes(t *testing.T) {
	f := &fake{hold: make(chan struct{})}
	s, client := newGRPCTest(t, f, func(c *Config) { c.Timeout, c.ReadTimeout = 50*time.Millisecond, 200*time.Millisecond })
	if _, err := client.ModelInfer(t.Context(), floats(1, 0)); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the server's time: %v", err)
	}
	s.config.Timeout = time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.ModelInfer(ctx, floats(1, 0)); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the client's time: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := client.ModelInfer(ctx, floats(1, 0)); status.Code(err) != codes.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	for s.running.Load() != 0 || s.waiting.Load() != 0 { // the handler ends a little later than the call
		time.Sleep(time.Millisecond)
	}
	// An answer may take longer than ReadTimeout, which limits only the arrival of the message.
	time.AfterFunc(2*s.config.ReadTimeout, func() { close(f.hold) })
	if _, err := client.ModelInfer(t.Context(), floats(1, 0)); err != nil {
		t.Errorf("an answer after the time of the arrival: %v", err)
	}
	// The client sends no message and keeps the stream open.
	conn, err := grpc.NewClient(listenGRPC(t, s), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	slow, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, oip.GRPCInferenceService_ModelInfer_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := slow.RecvMsg(&oip.ModelInferResponse{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a call that does not arrive: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it ended after %v, want .2 s", took)
	}
	// The client sends no message and closes the stream.
	empty, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, oip.GRPCInferenceService_ModelInfer_FullMethodName)
	if err == nil {
		err = empty.CloseSend()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := empty.RecvMsg(&oip.ModelInferResponse{}); status.Code(err) != codes.Internal {
		t.Errorf("a call without a message: %v", err)
	}
}

// TestClaims checks that a request counts towards the limits until the sampler has dropped the request's inputs, even
// if the client has cancelled the request.
func TestClaims(t *testing.T) {
	s, client := newGRPCTest(t, nil, nil)
	left := make(chan func(), 1)
	s.ready.Store(&opened{&keeps{left: left}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _, _ = client.ModelInfer(ctx, floats(2, 0, 0)) }()
	leave := <-left
	cancel()
	for s.metricValue(t, `rscert_requests_total{path="/inference.GRPCInferenceService/ModelInfer",status="Canceled"} 1`) == "" {
		time.Sleep(time.Millisecond)
	}
	if s.waiting.Load() != 2 || s.running.Load() != 1 || s.bodies.TryAcquire(allBodies) {
		t.Errorf("%d inputs wait, %d requests run, while the sampler has the inputs", s.waiting.Load(), s.running.Load())
	}
	leave()
	if s.waiting.Load() != 0 || s.running.Load() != 0 || !s.bodies.TryAcquire(allBodies) {
		t.Errorf("%d inputs wait, %d requests run, after the sampler", s.waiting.Load(), s.running.Load())
	}
}

// The type 'keeps' is a classifier that still holds the inputs of a request after the request has ended.
type keeps struct {
	fake
	left chan func()
}

func (k *keeps) Ask(ctx context.Context, q run.Question) (run.Answered, error) {
	k.left <- q.Left
	<-ctx.Done()
	return run.Answered{}, ctx.Err()
}

// metricValue returns the line of /metrics that begins with 'prefix', or an empty string.
func (s *Server) metricValue(t *testing.T, prefix string) string {
	t.Helper()
	families, err := s.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			if line := fmt.Sprintf("%s{%s} %v", f.GetName(), strings.Join(labels, ","), m.GetCounter().GetValue()); strings.HasPrefix(line, prefix) {
				return line
			}
		}
	}
	return ""
}

// TestGRPCAudit checks that the audit log records the answers to a call.
func TestGRPCAudit(t *testing.T) {
	s, client := newGRPCTest(t, &fake{}, nil)
	path, seed := t.TempDir()+"/log", checksum.Seed(7)
	var err error
	if s.log, err = auditlog.Open(path, seed); err != nil {
		t.Fatal(err)
	}
	if _, err := client.ModelInfer(t.Context(), floats(2, 1, 2)); err != nil {
		t.Fatal(err)
	}
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	var classes []int
	err = auditlog.Read(path, seed, func(l auditlog.Line) error {
		classes = append(classes, l.Answer.Class)
		if l.Answer.Request != "q" || l.Answer.Key != "0000000000000abc" || l.Answer.Input != run.InputHash([]float32{float32(len(classes)) / 255, 0}) {
			t.Errorf("%+v", l.Answer)
		}
		return nil
	})
	if err != nil || !slices.Equal(classes, []int{1, 2}) {
		t.Error(classes, err)
	}
}

// TestGRPCTLS checks that a server with TLS answers calls over TLS and refuses calls without TLS.
func TestGRPCTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	s, _ := newTest(t, &fake{}, func(c *Config) {
		c.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	})
	address := listenGRPC(t, s)
	if _, err := dial(t, address, credentials.NewTLS(&tls.Config{RootCAs: roots})).ModelInfer(t.Context(), floats(1, 0)); err != nil {
		t.Error(err)
	}
	if _, err := dial(t, address, insecure.NewCredentials()).ModelInfer(t.Context(), floats(1, 0)); status.Code(err) != codes.Unavailable {
		t.Errorf("without TLS: %v", err)
	}
}

// TestConnections opens the maximum number of connections. If some connections are idle, a new connection must replace
// the connection that has been idle for the longest time. Connections with running requests must stay open.
func TestConnections(t *testing.T) {
	f := &fake{hold: make(chan struct{})}
	s := newServer(Config{
		Name: "m", Listen: "127.0.0.1:0", MaxBody: 1000, Queue: 4000, Samples: 1000, Connections: 2, Timeout: time.Minute, ReadTimeout: time.Minute,
		Slog: slog.New(slog.DiscardHandler),
	})
	s.ready.Store(&opened{f})
	l, _, err := s.config.listen()
	if err != nil {
		t.Fatal(err)
	}
	front := s.fronts()
	go func() { _ = front.http.Serve(limitedListener{l, s.connections}) }()
	defer front.close()
	open := func() net.Conn {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	request := func(conn net.Conn, text string) string {
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprint(conn, text)
		line := make([]byte, 12)
		n, _ := io.ReadFull(conn, line)
		return string(line[:n])
	}
	const health = "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"
	first := open()
	if got := request(first, health); got != "HTTP/1.1 200" {
		t.Fatal(got)
	}
	silent := []net.Conn{}
	for range 2 + spareConnections - 1 {
		silent = append(silent, open())
	}
	if got := request(open(), health); got != "HTTP/1.1 200" {
		t.Errorf("beyond the limit: %q", got)
	}
	closed := 0
	for _, conn := range append(silent, first) {
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := io.Copy(io.Discard, conn); err == nil {
			closed++
		}
	}
	if closed != 1 {
		t.Errorf("%d connections gave way, want 1", closed)
	}
	// Two requests are running, which is the maximum. The server must still answer health requests, and must refuse a
	// third request. Each new connection must replace an idle connection.
	b := body("[1,1,1,2]", "FP32", "[0,0]", "")
	infer := fmt.Sprintf("POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
	answers := make(chan string, 2)
	for range 2 {
		conn := open()
		go func() { answers <- request(conn, infer) }()
	}
	for s.running.Load() != 2 {
		time.Sleep(time.Millisecond)
	}
	for range 2 * spareConnections {
		if got := request(open(), health); got != "HTTP/1.1 200" {
			t.Errorf("health beside running requests: %q", got)
		}
		if got := request(open(), infer); got != "HTTP/1.1 503" {
			t.Errorf("a third request: %q", got)
		}
	}
	close(f.hold)
	for range 2 {
		if got := <-answers; got != "HTTP/1.1 200" {
			t.Errorf("a running request: %q", got)
		}
	}
}

// TestConnectionsAllBusy checks that a connection is refused while every open connection has a running request.
func TestConnectionsAllBusy(t *testing.T) {
	c := newConnections(1)
	pipe := func() net.Conn {
		a, b := net.Pipe()
		t.Cleanup(func() { _, _ = a.Close(), b.Close() })
		return a
	}
	busy := c.admit(pipe())
	end := c.begin(busy.(*connection).route)
	if c.admit(pipe()) != nil {
		t.Error("a connection took the place of a busy one")
	}
	end()
	if c.admit(pipe()) == nil || len(c.open) != 1 {
		t.Error("an idle connection did not give way")
	}
	c.begin("unknown")()
	if err := busy.Close(); err != nil || len(c.open) != 1 {
		t.Errorf("closing a connection that gave way: %v, %d are open", err, len(c.open))
	}
}
