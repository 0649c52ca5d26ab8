package run

import (
	"math"
	"strings"
	"testing"
)

// TestShardsFor compares the result of shardsFor with a search over all numbers of shards.
func TestShardsFor(t *testing.T) {
	for _, start := range []float64{0, 3, 25} {
		for _, perExample := range []float64{1, 4, 7.5} {
			for _, deadline := range []float64{1, 10, 26, 32.5, 33, 60, 1000} {
				for examples := 1; examples <= 40; examples++ {
					want := 0
					for k := examples; k >= 1; k-- {
						if start+math.Ceil(float64(examples)/float64(k))*perExample <= deadline {
							want = k
						}
					}
					k, ok := shardsFor(examples, start, perExample, deadline)
					if ok != (want > 0) || ok && k != want {
						t.Errorf("%d examples, start %v, %v s each, deadline %v: %d, %v; want %d", examples, start, perExample, deadline, k, ok, want)
					}
				}
			}
		}
	}
}

func TestForecast(t *testing.T) {
	f := Forecast{Threads: 4, Examples: 90, Samples: 90 * 1000, SamplesPerSecond: 25, StartSeconds: 10}
	f.reckon()
	if f.Seconds != 3610 || math.Abs(f.Hours-3610./3600) > 1e-15 || f.CoreHours != 4*f.Hours {
		t.Errorf("%+v", f)
	}
	if err := f.split(0, 40); err != nil || f.Shards != 0 {
		t.Errorf("without a deadline: %+v, %v", f, err)
	}
	if err := f.split(1000, 40); err != nil || f.Shards != 4 || f.ShardSeconds != 10+23*40 || f.Deadline != 1000 {
		t.Errorf("%+v, %v", f, err)
	}
	if err := f.split(49, 40); err == nil || !strings.Contains(err.Error(), "one example alone takes 50s") {
		t.Errorf("%v", err)
	}
}
