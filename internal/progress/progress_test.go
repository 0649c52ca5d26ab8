package progress

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLines checks the plain lines. It runs on the clock of synctest, so the times in the lines are exact.
func TestLines(t *testing.T) {
	tests := []struct {
		name        string
		quiet       bool
		total, done int64
		want        string
	}{
		{"known total", false, 100, 0, `work: 10/100, good, 1m30s left
work: 20/100, good, 1m20s left
`},
		{"resumed", false, 200, 100, `work: 110/200, good, 1m30s left
work: 120/200, good, 1m20s left
`},
		{"unknown total", false, -1, 0, "work: 10, good\nwork: 20, good\n"},
		{"quiet", true, 100, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				b := Start(Options{Writer: &out, Quiet: tt.quiet}, "work", tt.total, tt.done)
				for range 25 {
					time.Sleep(time.Second)
					b.Add(1, "good")
				}
				b.Finish()
				if out.String() != tt.want {
					t.Errorf("printed\n%s\nwant\n%s", out.String(), tt.want)
				}
			})
		})
	}
}

func TestShortWorkIsSilent(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			b := Start(Options{Writer: &out, Terminal: terminal}, "work", 10, 0)
			for range 9 {
				time.Sleep(100 * time.Millisecond)
				b.Add(1, "")
			}
			if out.String() != "" {
				t.Errorf("terminal %v: printed %q", terminal, out.String())
			}
		})
	}
}

func TestTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		b := Start(Options{Writer: &out, Terminal: true}, "work", 10, 0)
		for range 5 {
			time.Sleep(time.Second)
			b.Add(1, "best so far 3")
		}
		for _, want := range []string{"work, best so far 3, 5s left", "50%"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is not in %q", want, out.String())
			}
		}
		b.Finish()
	})
}
