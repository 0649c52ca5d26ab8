// Package progress shows the progress of long work. On a terminal it shows a bar. Elsewhere it writes a plain line from
// time to time. In quiet mode it shows nothing. Start makes a Bar, Add counts finished units, and Finish removes the
// Bar.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

const (
	quietStart = time.Second      // time before a bar appears
	lineEvery  = 10 * time.Second // interval between plain lines
	drawEvery  = 100 * time.Millisecond
)

// Options define where and how a Bar appears.
type Options struct {
	Writer   io.Writer // standard error
	Terminal bool      // Writer is a terminal, so draw in place
	Quiet    bool      // show nothing
}

// Bar shows the progress of one task. Several goroutines may call its methods.
type Bar struct {
	mu    sync.Mutex
	opt   Options
	label string
	total int64
	done  int64
	first int64 // units done before the start, excluded from the rate
	note  string
	start time.Time
	next  time.Time // time of the next plain line
	bar   *progressbar.ProgressBar
}

// Start returns the Bar of a task that begins now. The argument 'total' is the number of units of the task, or negative
// if this number is unknown. The argument 'done' is the number of units that an earlier run has finished.
func Start(opt Options, label string, total, done int64) *Bar {
	now := time.Now()
	b := &Bar{opt: opt, label: label, total: total, done: done, first: done, start: now, next: now.Add(lineEvery)}
	if opt.Terminal && !opt.Quiet {
		b.next = now.Add(quietStart)
		b.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(opt.Writer),
			progressbar.OptionSetDescription(label),
			progressbar.OptionSetPredictTime(false), // the library's rate would include the units of an earlier run
			progressbar.OptionSetElapsedTime(false),
			progressbar.OptionSetWidth(24),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionUseANSICodes(true),
		)
	}
	return b
}

// Add counts n finished units and shows the text 'note' beside the count. An empty note keeps the previous note.
func (b *Bar) Add(n int64, note string) {
	if b.opt.Quiet {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done += n
	if note != "" {
		b.note = note
	}
	now := time.Now()
	if now.Before(b.next) {
		return
	}
	if b.bar != nil {
		b.next = now.Add(drawEvery)
		_ = b.bar.Set64(b.done)
		b.bar.Describe(b.label + b.remarks(now))
		return
	}
	b.next = now.Add(lineEvery)
	fmt.Fprintln(b.opt.Writer, b.line(now))
}

// line returns the text of one progress line. Add prints such lines if there is no bar.
func (b *Bar) line(now time.Time) string {
	s := fmt.Sprintf("%s: %d", b.label, b.done)
	if b.total > 0 {
		s += fmt.Sprintf("/%d", b.total)
	}
	return s + b.remarks(now)
}

// remarks returns the note and the remaining time.
func (b *Bar) remarks(now time.Time) string {
	var s string
	if b.note != "" {
		s += ", " + b.note
	}
	if worked := b.done - b.first; b.total > 0 && worked > 0 {
		left := time.Duration(float64(now.Sub(b.start)) * float64(b.total-b.done) / float64(worked))
		s += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	return s
}

// Finish removes the bar from the terminal.
func (b *Bar) Finish() {
	if b.bar != nil {
		_ = b.bar.Finish()
	}
}
