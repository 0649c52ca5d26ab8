package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/serve/oip"
)

// client returns a gRPC client of the server.
func (s *served) client(t *testing.T) oip.GRPCInferenceServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return oip.NewGRPCInferenceServiceClient(conn)
}

// digitsCall returns a call with digits. If the radius is above 0, the call asks for certificates of this radius.
func digitsCall(images [][]byte, radius float64) *oip.ModelInferRequest {
	r := &oip.ModelInferRequest{
		ModelName: "mnist-cnn", Id: "a call", RawInputContents: [][]byte{slices.Concat(images...)},
		Inputs:  []*oip.ModelInferRequest_InferInputTensor{{Name: "input", Datatype: "UINT8", Shape: []int64{int64(len(images)), 1, 28, 28}}},
		Outputs: []*oip.ModelInferRequest_InferRequestedOutputTensor{{Name: "class"}},
	}
	if radius > 0 {
		r.Parameters = map[string]*oip.InferParameter{"certify": {ParameterChoice: &oip.InferParameter_DoubleParam{DoubleParam: radius}}}
	}
	return r
}

// classesOf returns the classes of an answer.
func classesOf(a *oip.ModelInferResponse) (classes []int) {
	for raw := a.RawOutputContents[0]; len(raw) > 0; raw = raw[8:] {
		classes = append(classes, int(int64(binary.LittleEndian.Uint64(raw))))
	}
	return classes
}

// TestServeProtocols asks one server by HTTP and gRPC. The answers must agree. The test sends SIGTERM while requests of
// both protocols are running. The server must answer every request that it received before the signal, and end with
// exit code 0. Then predict --replay must repeat every logged answer.
func TestServeProtocols(t *testing.T) {
	folder := servedRun(t)
	log := filepath.Join(t.TempDir(), "answers.jsonl")
	s := startServer(t, "--run", folder, "--log", log, "--alpha", "1e-6", "--grpc-listen", "127.0.0.1:0")
	client := s.client(t)
	images, _ := digits(t, 40)
	if r, err := client.ServerReady(t.Context(), &oip.ServerReadyRequest{}); err != nil || !r.Ready {
		t.Fatal(r, err)
	}
	code, byHTTP, err := s.infer(http.DefaultClient, images[:20]...)
	if code != 200 || err != nil {
		t.Fatal(code, err)
	}
	answer, err := client.ModelInfer(t.Context(), digitsCall(images[:20], .1))
	if err != nil {
		t.Fatal(err)
	}
	both := 0
	for i, k := range classesOf(answer) {
		if k >= 0 && byHTTP[i] >= 0 {
			both++
			if k != byHTTP[i] {
				t.Errorf("digit %d: gRPC %d, HTTP %d", i, k, byHTTP[i])
			}
		}
	}
	if both < 15 {
		t.Errorf("only %d of 20 digits have two answers to compare", both)
	}
	var wait sync.WaitGroup
	answered, began := make(chan error, 8), s.metric(t, "rscert_samples_total")
	for k := range 8 {
		wait.Go(func() {
			if k%2 == 0 {
				_, err := client.ModelInfer(t.Context(), digitsCall(images, .2))
				answered <- err
			} else if code, _, err := s.infer(&http.Client{}, images...); code != 200 || err != nil {
				answered <- status.Errorf(codes.Unknown, "%d %v", code, err)
			} else {
				answered <- nil
			}
		})
	}
	for s.metric(t, "rscert_queue") < 200 && s.metric(t, "rscert_samples_total") < began+2000 {
		time.Sleep(time.Millisecond)
	}
	if err := s.terminate(t); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, s.stderr)
	}
	wait.Wait()
	close(answered)
	ended, refused := 0, 0
	for err := range answered {
		switch {
		case err == nil:
			ended++
		case status.Code(err) == codes.Unavailable || status.Code(err) == codes.Unknown && s.cmd.ProcessState.Success():
			refused++ // the server got the signal before it received the request
		default:
			t.Error(err)
		}
	}
	if ended < 4 {
		t.Errorf("%d requests were answered at SIGTERM, %d refused", ended, refused)
	}
	out, err := program(t, "predict", "--run", folder, "--data", "../../testdata/mnist", "--replay", log, "--json", "--quiet").CombinedOutput()
	var r run.Replayed
	if err != nil || json.Unmarshal(out, &r) != nil || r.Logged != 40+40*ended || r.Repeated != r.Logged {
		t.Errorf("replay: %v, %d answered\n%s", err, ended, out)
	}
}

// TestServeAbandoned sends a request that needs many votes, and then cancels the request. It does this by gRPC and then
// by HTTP. The server must soon stop sampling. Until then, rscert_queue must count the input.
func TestServeAbandoned(t *testing.T) {
	const n = 2_000_000 // far more samples than the server draws during this test
	s := startServer(t, "--run", servedRun(t), "--grpc-listen", "127.0.0.1:0", "--rule", "fixed", "--n", "2000000", "--max-samples", "3000000")
	client := s.client(t)
	images, _ := digits(t, 1)
	for _, ask := range []func(ctx context.Context) error{
		func(ctx context.Context) error {
			_, err := client.ModelInfer(ctx, digitsCall(images, 0))
			return err
		},
		func(ctx context.Context) error {
			text := fmt.Sprintf(`{"inputs":[{"name":"input","shape":[1,1,28,28],"datatype":"UINT8","data":%s}]}`, jsonBytes(images[0]))
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.model+"/infer", strings.NewReader(text))
			if err != nil {
				return err
			}
			resp, err := http.DefaultClient.Do(r)
			if err == nil {
				err = resp.Body.Close()
			}
			return err
		},
	} {
		began := s.metric(t, "rscert_samples_total")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- ask(ctx) }()
		for s.metric(t, "rscert_samples_total") < began+200 {
			if len(ended) > 0 {
				t.Fatal(<-ended)
			}
		}
		if waiting := s.metric(t, "rscert_queue"); waiting != 1 {
			t.Errorf("%v inputs wait, want 1", waiting)
		}
		cancel()
		if err := <-ended; err == nil {
			t.Error("an answer after all")
		}
		for deadline := time.Now().Add(30 * time.Second); s.metric(t, "rscert_queue") != 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the input of a client that has gone still waits")
			}
		}
		before := s.metric(t, "rscert_samples_total")
		time.Sleep(300 * time.Millisecond)
		if after := s.metric(t, "rscert_samples_total"); after != before || after-began > n/4 {
			t.Errorf("%v samples of %d were drawn, %v of them after the input had left", after-began, n, after-before)
		}
	}
	if err := s.terminate(t); err != nil {
		t.Errorf("%v\n%s", err, s.stderr)
	}
}
