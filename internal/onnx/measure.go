package onnx

import (
	"context"
	"errors"
	"sync"
	"time"

	ort "github.com/yalue/onnxruntime_go"
)

// These constants limit the time of the measurements that choose the batch size, and say when a larger batch is better.
const (
	measureBudget = time.Second
	// time for which each batch size is measured; if one call takes longer, the measurement lasts as long as this call
	measureOne  = 80 * time.Millisecond
	measureGain = 1.05        // a larger batch is better only if it is at least this many times as fast
	longestCall = time.Second // limit of a call's time, because a cancelled run waits for its current call
)

// measureBatch measures which number of samples per call is fastest on the device. It tries the reference size, twice
// the reference size, four times the reference size, and so on. The argument 'most' is the largest size that it may
// try. measureBatch stops earlier if a larger size is hardly faster, or if the next measurement could take too long.
// The session s was opened for the reference size. The choice affects only the speed, because runBatched rejects a
// batch size that changes any bit of a sample's scores.
func (l *loader) measureBatch(s *session, pool [][]float32, most int) int {
	started := time.Now()
	best := l.reference()
	rate, call, err := l.measure(s, best, pool)
	for next := 2 * best; err == nil && next <= most; next *= 2 {
		// Stop before the budget is spent, because opening the session of the next size also takes time.
		if 2*call > longestCall || time.Since(started) > measureBudget/2 {
			break
		}
		var larger *session
		if larger, err = l.session(true, next); err != nil {
			break
		}
		var faster float64
		if faster, call, err = l.measure(larger, next, pool); err != nil || faster < measureGain*rate {
			break
		}
		best, rate = next, faster
	}
	return best
}

// measure lets all workers run calls concurrently. The argument 'tile' is the number of samples per call. The method
// 'measure' returns the number of samples per second and the duration of a call.
func (l *loader) measure(s *session, tile int, pool [][]float32) (rate float64, call time.Duration, err error) {
	in, out := l.shapes(tile)
	return s.measure(l.ctx, l.settings.workers, in, out, pool)
}

// measure does the work of loader.measure: the workers run calls of the given shapes concurrently. The first dimension
// of the shapes is the number of samples per call.
func (s *session) measure(ctx context.Context, workers int, in, out ort.Shape, pool [][]float32) (float64, time.Duration, error) {
	var (
		mu     sync.Mutex
		calls  int
		failed error
		wg     sync.WaitGroup
	)
	started := time.Now()
	for range workers {
		wg.Go(func() {
			x, y := make([]float32, 0, in.FlattenedSize()), make([]float32, out.FlattenedSize())
			for i := 0; len(x) < cap(x); i++ {
				x = append(x, pool[i%len(pool)]...)
			}
			for first := true; first || time.Since(started) < measureOne; first = false {
				err := s.scores(ctx, in, out, x, y)
				mu.Lock()
				calls++
				failed = errors.Join(failed, err)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(started)
	return float64(int64(calls)*in[0]) / took.Seconds(), took * time.Duration(workers) / time.Duration(calls), failed
}
