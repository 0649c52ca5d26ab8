package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/predict"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/spec"
)

// modelVersion is the only version of the model in the protocol.
const modelVersion = "1"

// headerLength is the HTTP header with the length of the JSON part of a body.
const headerLength = "Inference-Header-Content-Length"

// problem is an error with an HTTP status.
type problem struct {
	status int
	error
}

func (p problem) Unwrap() error { return p.error }

// handler returns the handler of all paths.
func (s *Server) handler() http.Handler {
	open, closed := http.NewServeMux(), http.NewServeMux()
	live := func(w http.ResponseWriter, _ *http.Request) error { return writeJSON(w, map[string]bool{"live": true}) }
	ready := s.whenReady(func(w http.ResponseWriter, _ *http.Request) error {
		return writeJSON(w, map[string]bool{"ready": true})
	})
	for _, path := range []string{"GET /livez", "GET /v2/health/live"} {
		open.Handle(path, s.handle(live))
	}
	for _, path := range []string{"GET /readyz", "GET /v2/health/ready"} {
		open.Handle(path, s.handle(ready))
	}
	closed.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	closed.Handle("GET /v2", s.handle(s.serverMetadata))
	for _, model := range []string{"/v2/models/{name}", "/v2/models/{name}/versions/{version}"} {
		closed.Handle("GET "+model, s.handle(s.ofModel(s.modelMetadata)))
		closed.Handle("GET "+model+"/ready", s.handle(s.ofModel(ready)))
		closed.Handle("POST "+model+"/infer", s.handle(s.ofModel(s.infer)))
		closed.Handle("POST "+model+"/image", s.handle(s.ofModel(s.image)))
	}
	open.Handle("/", s.authorise(closed))
	return s.observe(open)
}

// authorise demands the bearer token. The comparison takes the same time for every wrong token.
func (s *Server) authorise(next http.Handler) http.Handler {
	if s.config.Token == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		given := sha256.Sum256([]byte(token))
		if !ok || subtle.ConstantTimeCompare(given[:], s.tokens[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeError(w, http.StatusUnauthorized, errors.New("a bearer token is needed"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// statusWriter remembers the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(data)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// observe logs and counts requests, and answers 500 after a panic.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, sw := time.Now(), &statusWriter{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				s.config.Slog.Error("panic", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				if sw.status == 0 {
					writeError(sw, http.StatusInternalServerError, errors.New("internal error"))
				}
			}
			s.metrics.request(r.Pattern, sw.status, time.Since(began))
			s.config.Slog.Info("request", "method", r.Method, "path", r.URL.Path, "status", sw.status,
				"seconds", time.Since(began).Seconds(), "client", r.RemoteAddr)
		}()
		next.ServeHTTP(sw, r)
	})
}

// handle turns the error of a handler into a response.
func (s *Server) handle(h func(w http.ResponseWriter, r *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := h(w, r)
		if err == nil {
			return
		}
		status := statusOf(err)
		if status == http.StatusInternalServerError {
			s.config.Slog.Error("answering", "path", r.URL.Path, "error", err)
			err = errors.New("internal error")
		}
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		writeError(w, status, err)
	})
}

// statusOf returns the status for an error.
func statusOf(err error) int {
	var p problem
	var tooLarge *http.MaxBytesError
	var input spec.InputError
	switch {
	case errors.As(err, &p):
		return p.status
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.As(err, &input):
		return http.StatusBadRequest
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	case errors.Is(err, run.ErrClosed), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func writeError(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": spellPlain(err)})
}

func writeJSON(w http.ResponseWriter, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(data, '\n')) // the client may be gone
	return nil
}

// whenReady answers 503 until the model has passed its checks.
func (s *Server) whenReady(h func(w http.ResponseWriter, r *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if s.ready.Load() == nil {
			return problem{http.StatusServiceUnavailable, errors.New("the model is not ready yet")}
		}
		return h(w, r)
	}
}

// ofModel answers 404 for other models.
func (s *Server) ofModel(h func(w http.ResponseWriter, r *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return s.whenReady(func(w http.ResponseWriter, r *http.Request) error {
		version := r.PathValue("version")
		if r.PathValue("name") != s.config.Name || version != "" && version != modelVersion {
			return problem{http.StatusNotFound, fmt.Errorf("unknown model: this server has %q, version %s", s.config.Name, modelVersion)}
		}
		return h(w, r)
	})
}

func (s *Server) serverMetadata(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, map[string]any{"name": "rscert", "version": s.config.Version, "extensions": []string{"binary_tensor_data"}})
}

// tensorDocument describes a tensor in the model's metadata.
type tensorDocument struct {
	Name     string   `json:"name"`
	Datatype datatype `json:"datatype"`
	Shape    []int    `json:"shape"`
}

// metadataDocument is the model's metadata. The protocol knows all but Classifier.
type metadataDocument struct {
	Name       string           `json:"name"`
	Versions   []string         `json:"versions"`
	Platform   string           `json:"platform"`
	Inputs     []tensorDocument `json:"inputs"`
	Outputs    []tensorDocument `json:"outputs"`
	Classifier run.Description  `json:"classifier"`
}

func (s *Server) modelMetadata(w http.ResponseWriter, _ *http.Request) error {
	about := s.answerer().About()
	in := fp32
	if about.Bytes {
		in = uint8s
	}
	return writeJSON(w, metadataDocument{
		Name: s.config.Name, Versions: []string{modelVersion}, Platform: "rscert",
		Inputs: []tensorDocument{{inputName, in, append([]int{-1}, about.Shape...)}},
		Outputs: []tensorDocument{
			{"class", int64s, []int{-1}}, {"votes", int64s, []int{-1, about.Classes}}, {"none", int64s, []int{-1}},
			{"samples", int64s, []int{-1}}, {"moved", fp64, []int{-1}},
		},
		Classifier: about,
	})
}

// body reads the body of a request.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, problem{http.StatusUnsupportedMediaType, fmt.Errorf("content encoding %.20q: want none", encoding)}
	}
	if r.ContentLength > s.config.MaxBody {
		return nil, problem{http.StatusRequestEntityTooLarge, fmt.Errorf("%d bytes; at most %d are read", r.ContentLength, s.config.MaxBody)}
	}
	weight := r.ContentLength
	if weight < 0 { // unknown
		weight = s.config.MaxBody
	}
	if !s.bodies.TryAcquire(weight) {
		return nil, problem{http.StatusTooManyRequests, errors.New("too many large requests at once")}
	}
	context.AfterFunc(r.Context(), func() { s.bodies.Release(weight) }) // the request's context ends with its handler
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.config.MaxBody))
	var tooLarge *http.MaxBytesError
	if err != nil && !errors.As(err, &tooLarge) {
		err = problem{http.StatusBadRequest, fmt.Errorf("the body is incomplete: %w", err)}
	}
	return data, err
}

// infer answers a request of the protocol.
func (s *Server) infer(w http.ResponseWriter, r *http.Request) error {
	data, err := s.body(w, r)
	if err != nil {
		return err
	}
	header, binary := data, []byte(nil)
	if length := r.Header.Get(headerLength); length != "" {
		n, err := strconv.ParseUint(length, 10, 63)
		if err != nil || n > uint64(len(data)) {
			return badf("%s %.20q: want the length of the JSON part, at most %d", headerLength, length, len(data))
		}
		header, binary = data[:n], data[n:]
	}
	q, err := s.decodeInfer(header, binary)
	if err != nil {
		return err
	}
	answered, err := s.ask(r.Context(), q)
	if err != nil {
		return err
	}
	header, binary, err = s.encodeInfer(q, answered)
	if err != nil {
		return err
	}
	if binary == nil {
		w.Header().Set("Content-Type", "application/json")
	} else {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set(headerLength, strconv.Itoa(len(header)))
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(header)+len(binary)))
	_, _ = w.Write(append(header, binary...)) // the client may be gone
	return nil
}

// imageDocument is the answer to an image.
type imageDocument struct {
	predict.Answer
	Parameters map[string]any `json:"parameters"`
}

// image answers a request whose body is an image. The query may have certify=true or certify=RADIUS.
func (s *Server) image(w http.ResponseWriter, r *http.Request) error {
	data, err := s.body(w, r)
	if err != nil {
		return err
	}
	var q query
	if q.id = r.URL.Query().Get("id"); len(q.id) > maxID {
		return badf("id: has more than %d bytes", maxID)
	}
	if text := r.URL.Query().Get("certify"); text != "" {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			return badf("certify %.40q: want true, or a radius above 0", text)
		}
		if err := q.setCertify(value); err != nil {
			return err
		}
	}
	a := s.answerer()
	ctx, cancel := context.WithTimeout(r.Context(), s.config.Timeout)
	defer cancel()
	values, err := dataset.DecodeImage(ctx, data, a.About().Shape, a.ImageOptions())
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return spec.BadInput(err)
	}
	q.question.Inputs = [][]float32{values}
	answered, err := s.ask(ctx, q)
	if err != nil {
		return err
	}
	return writeJSON(w, imageDocument{answered.Answers[0], s.conditions(answered)})
}

// ask answers a query within the limits of the server, and logs the answers.
func (s *Server) ask(ctx context.Context, q query) (run.Answered, error) {
	samples, err := s.answerer().Samples(q.question)
	if err != nil {
		return run.Answered{}, err
	}
	if samples > s.config.Samples {
		return run.Answered{}, badf("the request may need %d samples; at most %d are drawn for a request: send fewer inputs", samples, s.config.Samples)
	}
	n := int64(len(q.question.Inputs))
	defer s.waiting.Add(-n)
	if s.waiting.Add(n) > int64(s.config.Queue) {
		return run.Answered{}, problem{http.StatusTooManyRequests, fmt.Errorf("more than %d inputs wait for answers", s.config.Queue)}
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	r, err := s.answerer().Ask(ctx, q.question)
	if err != nil {
		return r, err
	}
	s.metrics.answers(r.Answers)
	return r, s.record(q, r)
}
