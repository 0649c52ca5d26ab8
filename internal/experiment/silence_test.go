package experiment

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rscert/rscert/internal/param"
)

// TestAfterSeconds checks how many notes afterSeconds sends: none if the work takes 1 second, and one if the work takes
// 2.5 or 4 seconds. Sending the note takes 1 second. The function 'stop' must not return while the note is being sent.
func TestAfterSeconds(t *testing.T) {
	for work, want := range map[time.Duration]int{time.Second: 0, 2500 * time.Millisecond: 1, 4 * time.Second: 1} {
		synctest.Test(t, func(t *testing.T) {
			notes := 0
			stop := Console{Note: func(param.Text) {
				time.Sleep(time.Second)
				notes++
			}}.afterSeconds("long")
			time.Sleep(work)
			stop()
			if notes != want {
				t.Errorf("%d notes after %v, want %d", notes, work, want)
			}
		})
	}
}
