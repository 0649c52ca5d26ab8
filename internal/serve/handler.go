package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/predict"
	"github.com/rscert/rscert/internal/spec"
)

// headerLength is the HTTP header with the length of the JSON part of a body.
const headerLength = "Inference-Header-Content-Length"

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
		closed.Handle("POST "+model+"/infer", s.handle(s.ofModel(s.claimed(s.infer))))
		closed.Handle("POST "+model+"/image", s.handle(s.ofModel(s.claimed(s.image))))
	}
	open.Handle("/", s.authorise(closed))
	return s.observe(open)
}

// hasToken reports whether an authorization header holds the bearer token. The comparison takes the same time for every
// wrong token.
func (s *Server) hasToken(header string) bool {
	if s.config.Token == nil {
		return true
	}
	token, ok := strings.CutPrefix(header, "Bearer ")
	given := sha256.Sum256([]byte(token))
	return ok && subtle.ConstantTimeCompare(given[:], s.tokens[:]) == 1
}

// errNoToken means that a request lacks the bearer token.
var errNoToken = problem{http.StatusUnauthorized, errors.New("a bearer token is needed")}

// authorise refuses requests without the bearer token.
func (s *Server) authorise(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.hasToken(r.Header.Get("Authorization")) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeError(w, errNoToken.status, errNoToken)
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
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			defer s.connections.begin(local.String() + " " + r.RemoteAddr)()
		}
		defer func() {
			if p := recover(); p != nil {
				err := s.rescued(r.URL.Path, p)
				if sw.status == 0 {
					writeError(sw, http.StatusInternalServerError, err)
				}
			}
			s.metrics.request(r.Pattern, strconv.Itoa(sw.status), time.Since(began))
			s.config.Slog.Info("request", "method", r.Method, "path", r.URL.Path, "status", sw.status,
				"seconds", time.Since(began).Seconds(), "client", r.RemoteAddr)
		}()
		next.ServeHTTP(sw, r)
	})
}

// httpHandler answers a request, or returns an error.
type httpHandler = func(w http.ResponseWriter, r *http.Request) error

// handle turns the error of a handler into a response.
func (s *Server) handle(h httpHandler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := h(w, r)
		if err == nil {
			return
		}
		status := statusOf(err)
		if status == http.StatusInternalServerError {
			err = s.hide(r.URL.Path, err)
		}
		if mayRetry(status) {
			w.Header().Set("Retry-After", "1")
		}
		writeError(w, status, err)
	})
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
func (s *Server) whenReady(h httpHandler) httpHandler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := s.checkReady(); err != nil {
			return err
		}
		return h(w, r)
	}
}

// ofModel answers 503 until the model has passed its checks, and 404 if a request names another model.
func (s *Server) ofModel(h httpHandler) httpHandler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := s.checkModel(r.PathValue("name"), r.PathValue("version")); err != nil {
			return err
		}
		return h(w, r)
	}
}

func (s *Server) serverMetadata(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, map[string]any{
		"name": platform, "version": s.config.Version, "extensions": []string{"binary_tensor_data"},
	})
}

func (s *Server) modelMetadata(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, s.metadata())
}

// claimed wraps a handler of requests that need the sampler. The wrapper passes a claim to the handler, or refuses the
// request if too many requests are running.
func (s *Server) claimed(h func(w http.ResponseWriter, r *http.Request, c *claim) error) httpHandler {
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := s.enter()
		if err != nil {
			return err
		}
		defer c.release()
		return h(w, r, c)
	}
}

// body reads the body of a request.
func (s *Server) body(w http.ResponseWriter, r *http.Request, c *claim) ([]byte, error) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, problem{http.StatusUnsupportedMediaType, fmt.Errorf("content encoding %.20q: want none", encoding)}
	}
	if r.ContentLength > s.config.MaxBody {
		err := fmt.Errorf("%d bytes; at most %d are read", r.ContentLength, s.config.MaxBody)
		return nil, problem{http.StatusRequestEntityTooLarge, err}
	}
	weight := r.ContentLength
	if weight < 0 { // the length is unknown
		weight = s.config.MaxBody
	}
	if err := c.take(weight); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.config.MaxBody))
	var tooLarge *http.MaxBytesError
	if err != nil && !errors.As(err, &tooLarge) {
		err = problem{http.StatusBadRequest, fmt.Errorf("the body is incomplete: %w", err)}
	}
	return data, err
}

// infer answers an inference request.
func (s *Server) infer(w http.ResponseWriter, r *http.Request, c *claim) error {
	data, err := s.body(w, r, c)
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
	q, asBinary, err := s.decodeInfer(header, binary)
	if err != nil {
		return err
	}
	answered, err := s.ask(r.Context(), c, q)
	if err != nil {
		return err
	}
	header, binary, err = s.encodeInfer(q, asBinary, answered)
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

// imageDocument is the answer to a request whose body is an image.
type imageDocument struct {
	predict.Answer
	Parameters map[string]any `json:"parameters"`
}

// image answers a request whose body is an image. The URL may contain the parameter certify=true or certify=RADIUS.
func (s *Server) image(w http.ResponseWriter, r *http.Request, c *claim) error {
	data, err := s.body(w, r, c)
	if err != nil {
		return err
	}
	q := query{id: r.URL.Query().Get("id")}
	if err := checkID(q.id); err != nil {
		return err
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
	answered, err := s.ask(ctx, c, q)
	if err != nil {
		return err
	}
	return writeJSON(w, imageDocument{answered.Answers[0], s.conditions(answered)})
}
