package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/warning"
)

// Queue is a scheduler of job arrays.
type Queue interface {
	Submit(ctx context.Context, a *Array, shards []int) (Job, error)
	// Tasks returns the tasks of a job. The keys of the map are the numbers of the tasks. The map may omit tasks that
	// ended long ago.
	Tasks(ctx context.Context, j Job) (map[int]Task, error)
}

// Watch waits for an array and resubmits failed shards. In the array of a sweep, Watch counts each task as a 'shard'. A
// task is one shard of one point.
type Watch struct {
	Queue   Queue
	Retries int                                                 // maximum number of resubmissions of a failed shard
	Every   time.Duration                                       // time between two queries
	Note    func(format string, args ...any)                    // reports events
	Warn    func(code warning.Code, format string, args ...any) // reports a problem that may go away by itself
	Show    func(done, total int, note string)                  // shows progress of all shards; total = 0 if unknown
	Extent  func(dir string) (runfolder.Extent, error)          // reads a run's progress; usually runfolder.ReadExtent
	Sleep   func(ctx context.Context, d time.Duration) error    // waits for the time d; usually Pause
}

// maxSilent is the number of consecutive queries that may fail. It is so large that Watch survives a restart of Slurm's
// controller.
const maxSilent = 30

// wrongInput is rscert's exit code for wrong usage or input. A shard with this exit code is not submitted again,
// because it would fail again.
const wrongInput = 2

// Submit queues shards and records the job in the array.
func Submit(ctx context.Context, q Queue, a *Array, shards []int) (Job, error) {
	job, err := q.Submit(ctx, a, shards)
	if err != nil {
		return job, err
	}
	a.Jobs = append(a.Jobs, job)
	return job, a.Save()
}

// Unfinished returns the shards that must be submitted. These are the shards that are neither finished nor in the
// queue.
func (w *Watch) Unfinished(ctx context.Context, a *Array) ([]int, error) {
	tasks, err := w.tasks(ctx, a, a.Jobs)
	if err != nil {
		return nil, err
	}
	var left []int
	for i := range a.Tasks() {
		x, err := w.Extent(a.run(i))
		if err != nil {
			return nil, err
		}
		if !x.Finished && tasks[i].Ended() {
			left = append(left, i)
		}
	}
	return left, nil
}

// The method 'tasks' returns each shard's latest task.
func (w *Watch) tasks(ctx context.Context, a *Array, jobs []Job) (map[int]Task, error) {
	last := make([]int, a.Tasks()) // index of each shard's latest job in 'jobs', plus 1
	for j, job := range jobs {
		for _, shard := range job.Shards {
			last[shard] = j + 1
		}
	}
	latest := map[int]Task{}
	for j, job := range jobs {
		if !slices.Contains(last, j+1) {
			continue
		}
		tasks, err := w.Queue.Tasks(ctx, job)
		if err != nil {
			return nil, err
		}
		for shard, of := range last {
			if of == j+1 {
				latest[shard] = tasks[shard]
			}
		}
	}
	return latest, nil
}

// The type 'watched' is the state of a shard.
type watched struct {
	extent  runfolder.Extent
	task    Task
	retries int
	over    bool // the shard is done or was given up
	failed  bool
}

// Run waits until all shards are finished. If a shard fails, Run submits it again, at most Retries times. (It does not
// repeat a shard whose exit code is wrongInput.) If Run gives up a shard, it still waits for the other shards and then
// returns an error.
func (w *Watch) Run(ctx context.Context, a *Array) error {
	shards := make([]watched, a.Tasks())
	for silent := 0; ; {
		tasks, err := w.tasks(ctx, a, a.Jobs)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if silent++; silent > maxSilent {
				return fmt.Errorf("%w; asked %d times", err, silent)
			}
			w.Warn(warning.QueueSilent, "%v", err)
		default:
			silent = 0
			over, err := w.step(ctx, a, shards, tasks)
			if err != nil {
				return err
			}
			if over {
				return w.verdict(a, shards)
			}
		}
		if err := w.Sleep(ctx, w.Every); err != nil {
			return err
		}
	}
}

// step updates the shards from the queue and the folders, and resubmits failed shards.
func (w *Watch) step(ctx context.Context, a *Array, shards []watched, tasks map[int]Task) (over bool, err error) {
	var again []int
	over = true
	for i := range shards {
		s := &shards[i]
		if s.over {
			continue
		}
		s.task = tasks[i]
		if s.extent, err = w.Extent(a.run(i)); err != nil {
			return false, err
		}
		switch {
		case !s.task.Ended():
			over = false
		// A folder on a network disk may be out of date for a while. The state that Slurm reports is up to date.
		case s.task.State == "COMPLETED", s.task.State == "" && s.extent.Finished:
			s.over = true
		case s.retries < w.Retries && s.task.Exit != wrongInput:
			s.retries++
			again = append(again, i)
			w.Note("%s: %s; submitting it again (%d of %d times)", a.describe(i), s.task, s.retries, w.Retries)
		default:
			s.over, s.failed = true, true
			w.Note("%s: %s%s", a.describe(i), s.task, a.lastWords(i))
		}
	}
	w.show(a, shards)
	if len(again) == 0 {
		return over, nil
	}
	_, err = Submit(ctx, w.Queue, a, again)
	return false, err
}

// show reports the progress of all shards. All points of a sweep have the same number of examples, so the total is this
// number times the number of points.
func (w *Watch) show(a *Array, shards []watched) {
	var done, total, running, waiting int
	reason := ""
	for _, s := range shards {
		done, total = done+s.extent.Done, max(total, s.extent.Whole)
		switch {
		case s.over || s.task.Ended():
		case s.task.State == "PENDING":
			waiting++
			reason = " (" + s.task.Reason + ")"
		default:
			running++
		}
	}
	note := fmt.Sprintf("%d running", running)
	if waiting > 0 {
		note += fmt.Sprintf(", %d waiting%s", waiting, reason)
	}
	w.Show(done, total*max(1, len(a.Points)), note)
}

// verdict returns an error if any shard failed. Each shard must be finished or given up.
func (w *Watch) verdict(a *Array, shards []watched) error {
	var failed []int
	for i, s := range shards {
		if s.failed {
			failed = append(failed, i)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	first := failed[0]
	err := fmt.Errorf("%d of %d %s failed: %s; %s: %s%s", len(failed), a.Tasks(), a.Noun(), ranges(failed), a.describe(first), shards[first].task, a.lastWords(first))
	return hint.Add(err, "the logs are in %s; mend it and go on with %s", a.Folder()+"/log", param.Resume)
}

// lastWords returns rscert's last message in the log of a shard's last task, in the form ": …".
func (a *Array) lastWords(shard int) string {
	for _, job := range slices.Backward(a.Jobs) {
		if !slices.Contains(job.Shards, shard) {
			continue
		}
		text, err := os.ReadFile(a.log(job.ID, strconv.Itoa(shard)))
		if err != nil {
			return ""
		}
		said := ""
		for line := range bytes.Lines(text) {
			if words, ok := bytes.CutPrefix(line, []byte("rscert: ")); ok {
				said = ": " + strings.TrimSpace(string(words))
			}
		}
		return said
	}
	return ""
}

// Pause waits for the time d, or until ctx is done.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Interrupted adds a hint to the error of a cancelled wait. The hint says that the tasks continue without the waiting
// program.
func (a *Array) Interrupted(err error) error {
	if !errors.Is(err, context.Canceled) {
		return err
	}
	var ids []string
	for _, job := range a.Jobs {
		ids = append(ids, job.ID)
	}
	return hint.Add(err, "the tasks go on: wait for them with %s %s, or end them with 'scancel %s'", param.Resume, param.Wait, strings.Join(ids, " "))
}
