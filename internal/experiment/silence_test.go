package experiment

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rscert/rscert/internal/param"
)

// TestAfterSeconds checks that afterSeconds sends its note if the caller stops the timer after 3 seconds, and no note
// if the caller stops it after 1 second.
func TestAfterSeconds(t *testing.T) {
	for work, want := range map[time.Duration]int{time.Second: 0, 3 * time.Second: 1} {
		synctest.Test(t, func(t *testing.T) {
			notes := 0
			timer := Console{Note: func(param.Text) { notes++ }}.afterSeconds("long")
			time.Sleep(work)
			timer.Stop()
			synctest.Wait()
			if notes != want {
				t.Errorf("%d notes after %v, want %d", notes, work, want)
			}
		})
	}
}
