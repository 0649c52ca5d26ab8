package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/spec"
)

// problem is an error with an HTTP status. The gRPC code of the error follows from this status (codeOf).
type problem struct {
	status int
	error
}

func (p problem) Unwrap() error { return p.error }

func badf(format string, args ...any) error { return spec.BadInputf(format, args...) }

// statusOf returns the HTTP status for an error.
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

// mayRetry reports whether the same request may succeed a little later.
func mayRetry(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// hide logs an internal error and returns the error that the client gets instead.
func (s *Server) hide(path string, err error) error {
	s.config.Slog.Error("answering", "path", path, "error", err)
	return errors.New("internal error")
}

// rescued logs the value p of a panic, and returns the error that the client gets.
func (s *Server) rescued(path string, p any) error {
	s.config.Slog.Error("panic", "path", path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return errors.New("internal error")
}

// spellPlain returns the text of an error for a client.
func spellPlain(err error) string { return param.Spell(err, param.Plain) }
