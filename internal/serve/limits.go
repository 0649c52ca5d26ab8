package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/rscert/rscert/internal/run"
)

// claim is a request's share of the server's limits: one of the permitted running requests, and memory for the request's
// body. The request's handler holds the claim until the handler returns. The sampler holds the claim until the sampler
// has dropped the request's inputs. The claim ends when the handler and the sampler have both released it.
type claim struct {
	server  *Server
	running bool // the request counts as a running request
	bytes   int64
	holders atomic.Int32
}

// unclaimed returns a claim (a share of the server's limits) for a request that needs no sampler. The claim does not
// count as a running request, so the error is always nil. The caller must release the claim.
func (s *Server) unclaimed() (*claim, error) {
	c := &claim{server: s}
	c.hold()
	return c, nil
}

// enter returns the claim of a running request, or an error if too many requests are running. The caller must release
// the claim.
func (s *Server) enter() (*claim, error) {
	c := &claim{server: s, running: true}
	c.hold()
	if s.running.Add(1) > int64(s.config.Connections) {
		c.release()
		return nil, problem{http.StatusServiceUnavailable, fmt.Errorf("%d requests are running", s.config.Connections)}
	}
	return c, nil
}

// The method 'take' reserves memory for a body of the given length in bytes. The memory is freed at the end of the
// claim, when its last holder releases it.
func (c *claim) take(bytes int64) error {
	if !c.server.bodies.TryAcquire(bytes) {
		return problem{http.StatusTooManyRequests, errors.New("too many large requests at once")}
	}
	c.bytes += bytes
	return nil
}

func (c *claim) hold() { c.holders.Add(1) }

func (c *claim) release() {
	if c.holders.Add(-1) == 0 {
		c.server.bodies.Release(c.bytes)
		if c.running {
			c.server.running.Add(-1)
		}
	}
}

// ask answers a query within the limits of the server, and logs the answers.
func (s *Server) ask(ctx context.Context, c *claim, q query) (run.Answered, error) {
	samples, err := s.answerer().Samples(q.question)
	if err != nil {
		return run.Answered{}, err
	}
	if samples > s.config.Samples {
		return run.Answered{}, badf("the request may need %d samples; at most %d are drawn for a request: send fewer inputs",
			samples, s.config.Samples)
	}
	n := int64(len(q.question.Inputs))
	if s.waiting.Add(n) > int64(s.config.Queue) {
		s.waiting.Add(-n)
		err := fmt.Errorf("more than %d inputs wait for answers", s.config.Queue)
		return run.Answered{}, problem{http.StatusTooManyRequests, err}
	}
	c.hold()
	q.question.Left = func() {
		s.waiting.Add(-n)
		c.release()
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
