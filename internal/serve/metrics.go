package serve

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/rscert/rscert/internal/predict"
	"github.com/rscert/rscert/internal/run"
)

// metrics are the figures that /metrics shows.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	answered *prometheus.CounterVec
	votes    prometheus.Histogram
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rscert_requests_total", Help: "Requests by path or method, and by status or gRPC code."}, []string{"path", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rscert_request_seconds", Help: "Seconds from the header of a request to the end of its response.",
			Buckets: prometheus.ExponentialBuckets(.001, 2, 16),
		}, []string{"path"}),
		answered: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rscert_answers_total", Help: "Answers: a class, or abstained."}, []string{"answer"}),
		votes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rscert_answer_votes", Help: "Votes that an answer used.", Buckets: prometheus.ExponentialBuckets(8, 2, 16),
		}),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.answered, m.votes, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// watch adds the metrics of the sampler: the number of samples drawn and the length of the queue.
func (m *metrics) watch(a *run.Answerer, waiting *atomic.Int64) {
	m.registry.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rscert_samples_total", Help: "Samples that were drawn."},
			func() float64 { return float64(a.Drawn()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rscert_queue", Help: "Inputs that wait for answers."},
			func() float64 { return float64(waiting.Load()) }),
	)
}

// request counts a request. The argument 'pattern' is the pattern of the HTTP path, or the name of the gRPC method. It
// never contains text from the client, so clients cannot create new labels.
func (m *metrics) request(pattern string, status string, took time.Duration) {
	m.requests.WithLabelValues(pattern, status).Inc()
	m.seconds.WithLabelValues(pattern).Observe(took.Seconds())
}

// answers counts answers.
func (m *metrics) answers(answers []predict.Answer) {
	for _, a := range answers {
		m.votes.Observe(float64(a.Samples))
		if a.Class == predict.Abstained {
			m.answered.WithLabelValues("abstained").Inc()
		} else {
			m.answered.WithLabelValues("class").Inc()
		}
	}
}
