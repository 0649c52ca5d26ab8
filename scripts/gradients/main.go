// Command gradients computes gradients for the scripts that check and time them. It reads requests from standard input
// and writes an answer to each. Requests and answers are JSON objects, one per line:
//
//	{"open": "model.onnx", "examples": 8, "loss": "margin"}     → {"input": 3072, "classes": 10}
//	{"run": "gradient", "x": […], "labels": […], "times": 3}    → {"scores": […], "loss": […], "gradient": […], "seconds": .01}
//
// The request "run": "forward" runs only the model, without a gradient. A request without x and labels uses the x and
// labels of the previous request. The member "times" of a request is the number of runs. The member "seconds" of the
// answer is the shortest time of these runs. If the request has "quiet": true, the answer holds only this time.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"
	"time"

	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/grad"
	"github.com/rscert/rscert/internal/onnx"
)

type request struct {
	Open     string
	Loss     grad.Loss
	Examples int

	Run    string // "gradient" or "forward"
	X      []float32
	Labels []int64
	Times  int
	Quiet  bool
}

type answer struct {
	Error    string    `json:"error,omitempty"`
	Input    int       `json:"input,omitempty"`
	Classes  int       `json:"classes,omitempty"`
	Scores   []float32 `json:"scores,omitempty"`
	Loss     []float32 `json:"loss,omitempty"`
	Gradient []float32 `json:"gradient,omitempty"`
	Seconds  float64   `json:"seconds,omitempty"`
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func serve(in io.Reader, out io.Writer) error {
	library, err := experiment.OpenLibrary(onnx.CPU, "")
	if err != nil {
		return err
	}
	s := &server{library: library}
	requests, answers := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	for {
		var r request
		if err := requests.Decode(&r); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		a, err := s.answer(context.Background(), r)
		if err != nil {
			a = answer{Error: err.Error()}
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

// server holds the model opened last.
type server struct {
	library  *onnx.Runtime
	model    *onnx.Model
	gradient *onnx.Gradient
	x        []float32
	labels   []int64
}

func (s *server) answer(ctx context.Context, r request) (answer, error) {
	switch {
	case r.Open != "":
		return s.open(ctx, r)
	case s.gradient == nil:
		return answer{}, errors.New("no gradient is open")
	}
	return s.run(ctx, r)
}

func (s *server) open(ctx context.Context, r request) (answer, error) {
	if err := s.close(); err != nil {
		return answer{}, err
	}
	file, err := graph.ReadModel(r.Open)
	if err != nil {
		return answer{}, err
	}
	if s.model, err = s.library.LoadFile(ctx, file, onnx.LoadOptions{Device: onnx.CPU, Batch: r.Examples}); err != nil {
		return answer{}, err
	}
	a := answer{Input: s.model.InputLen(), Classes: s.model.Classes()}
	s.gradient, err = s.model.Gradient(ctx, grad.Objective{Loss: r.Loss, Examples: r.Examples})
	return a, err
}

func (s *server) close() (err error) {
	if s.gradient != nil {
		err = s.gradient.Close()
	}
	if s.model != nil {
		err = errors.Join(err, s.model.Close())
	}
	*s = server{library: s.library}
	return err
}

func (s *server) run(ctx context.Context, r request) (a answer, err error) {
	if r.X != nil {
		s.x, s.labels = r.X, r.Labels
	}
	n := len(s.labels)
	a.Scores = make([]float32, n*s.model.Classes())
	a.Loss, a.Gradient = make([]float32, n), make([]float32, len(s.x))
	for range max(r.Times, 1) {
		start := time.Now()
		if r.Run == "forward" {
			err = s.model.Run(ctx, s.x, a.Scores)
		} else {
			err = s.gradient.Run(ctx, s.x, nil, s.labels, a.Scores, a.Loss, a.Gradient)
		}
		if err != nil {
			return a, err
		}
		if took := time.Since(start).Seconds(); a.Seconds == 0 || took < a.Seconds {
			a.Seconds = took
		}
	}
	if r.Quiet {
		a = answer{Seconds: a.Seconds}
	}
	return a, nil
}
