package auditlog

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/predict"
)

var (
	ours   = checksum.NewSeed([]byte("this run"))
	theirs = checksum.NewSeed([]byte("another run"))
)

func write(t *testing.T, path string, sessions, requests int) {
	t.Helper()
	for range sessions {
		l, err := Open(path, ours)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Begin(Session{RunID: "r", Rule: predict.BySequence, Alpha: .001, Budget: 100}); err != nil {
			t.Fatal(err)
		}
		var wait sync.WaitGroup
		for i := range requests {
			wait.Go(func() {
				a := predict.Answer{Index: i, Class: 2, Samples: 13, Votes: []int64{0, 0, 13}}
				if err := l.Append([]Answer{{Input: "a", Key: "0f", Answer: a}, {Input: "b", Key: "0f", Answer: a}}); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func count(path string, seed checksum.Seed) (sessions, answers int, err error) {
	err = Read(path, seed, func(l Line) error {
		if l.Session != nil {
			sessions++
		} else {
			answers++
		}
		return nil
	})
	return sessions, answers, err
}

// TestLog writes two sessions to a log. In each session, several goroutines append answers. Read must return every
// line, and must refuse the seed of another run.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write(t, path, 2, 20)
	if s, a, err := count(path, ours); s != 2 || a != 80 || err != nil {
		t.Errorf("%d sessions, %d answers, %v; want 2 and 80", s, a, err)
	}
	if _, _, err := count(path, theirs); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("read with another run's seed: %v", err)
	}
}

// TestTorn cuts a log at every byte of its last lines, as if the server had been killed while it wrote. Read must
// return all complete lines before the cut. The next session must continue after the last complete line.
func TestTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write(t, path, 1, 3)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := len(whole) - 400; cut < len(whole); cut++ {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(string(whole[:cut]), "\n")
		if s, a, err := count(path, ours); s+a != lines || err != nil {
			t.Fatalf("cut at %d: %d lines, %v; want %d", cut, s+a, err, lines)
		}
		if cut%40 != 0 {
			continue
		}
		write(t, path, 1, 1)
		if s, a, err := count(path, ours); s+a != lines+3 || err != nil {
			t.Fatalf("cut at %d, then continued: %d lines, %v; want %d", cut, s+a, err, lines+3)
		}
	}
}

// TestDamage damages logs in several ways. Both Read and Open must refuse each damaged log.
func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write(t, path, 1, 4)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	for name, text := range map[string]string{
		"a changed digit": strings.Replace(string(whole), `"samples":13`, `"samples":14`, 1),
		"a missing line":  lines[0] + lines[1] + strings.Join(lines[3:], ""),
		"a line twice":    lines[0] + lines[1] + lines[1] + strings.Join(lines[2:], ""),
		"swapped lines":   lines[0] + lines[2] + lines[1] + strings.Join(lines[3:], ""),
		"no checksum":     lines[0] + `{"line":2,"answer":{}}` + "\n",
		"a blank line":    lines[0] + "\n" + lines[1],
		"neither":         lines[0] + string(ours.AppendJSON([]byte(`{"line":2}`))) + "\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := count(path, ours); err == nil {
			t.Errorf("%s: was read", name)
		}
		if l, err := Open(path, ours); err == nil {
			t.Errorf("%s: was opened", name)
			_ = l.Close()
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Errorf("%s: the refused log has changed", name)
		}
	}
}

// TestTwoServers checks that a log cannot be opened while another server has it open.
func TestTwoServers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := Open(path, ours)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := Open(path, ours); err == nil || !strings.Contains(err.Error(), "another rscert") {
		t.Errorf("opened twice: %v, %v", second, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
