package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/warning"
)

// The type 'scripted' is a queue whose tasks have given states: one state for each query.
type scripted struct {
	states    map[int][][]Task // states[shard][i]: states of the task after submission i, one for each query
	attempt   map[int]int      // number of submissions of a shard
	asked     map[string]int   // number of queries about each job
	submitted [][]int
	silent    int // number of queries that fail
}

func (q *scripted) Submit(_ context.Context, _ *Array, shards []int) (Job, error) {
	for _, s := range shards {
		q.attempt[s]++
	}
	q.submitted = append(q.submitted, shards)
	return Job{ID: fmt.Sprint(len(q.submitted)), Shards: shards}, nil
}

func (q *scripted) Tasks(_ context.Context, j Job) (map[int]Task, error) {
	if q.silent > 0 {
		q.silent--
		return nil, errors.New("squeue: no controller")
	}
	tasks := map[int]Task{}
	for _, s := range j.Shards {
		states := q.states[s][q.attempt[s]-1]
		tasks[s] = states[min(q.asked[j.ID], len(states)-1)]
	}
	q.asked[j.ID]++
	return tasks, nil
}

var (
	pending  = Task{State: "PENDING", Reason: "Resources"}
	running  = Task{State: "RUNNING"}
	complete = Task{State: "COMPLETED"}
	killed   = Task{State: "FAILED", Signal: 9}
	gone     = Task{}
)

// The function 'watching' makes a Watch over an array of shards. The argument 'states' gives the states of the shards'
// tasks. Each shard has 2 examples. The function 'done' returns the number of examples in the shard's folder.
func watching(t *testing.T, retries int, done func(shard int) int, states map[int][][]Task) (*Watch, *scripted, *Array, *[]string) {
	q := &scripted{states: states, attempt: map[int]int{}, asked: map[string]int{}}
	a := &Array{Shards: len(states), Out: filepath.Join(t.TempDir(), "run")}
	if err := a.Create(); err != nil {
		t.Fatal(err)
	}
	var all []int
	for i := range a.Shards {
		all = append(all, i)
	}
	var said []string
	if _, err := Submit(t.Context(), q, a, all); err != nil {
		t.Fatal(err)
	}
	w := &Watch{
		Queue: q, Retries: retries,
		Note: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) },
		Warn: func(code warning.Code, format string, args ...any) {
			said = append(said, "warning: "+warning.New(code, format, args...).Spell(param.Plain))
		},
		Show: func(done, total int, note string) { said = append(said, fmt.Sprintf("%d/%d %s", done, total, note)) },
		Extent: func(dir string) (runfolder.Extent, error) {
			n := done(slices.Index(a.Parts(), dir))
			return runfolder.Extent{Done: n, Selected: 2, Whole: 2 * a.Shards, Finished: n == 2}, nil
		},
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
	return w, q, a, &said
}

func TestWatchRetries(t *testing.T) {
	w, q, a, said := watching(t, 2, func(shard int) int { return shard % 3 }, map[int][][]Task{
		0: {{running, complete}}, // complete, although the folder seems to hold no example yet
		1: {{running, running, killed}, {pending, killed}, {complete}},
		2: {{pending, running, gone}},
	})
	if err := w.Run(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if want := [][]int{{0, 1, 2}, {1}, {1}}; !reflect.DeepEqual(q.submitted, want) {
		t.Errorf("submitted %v, want %v", q.submitted, want)
	}
	want := []string{"3/6 2 running, 1 waiting (Resources)", "3/6 2 running", "shard 1: failed, signal 9; submitting it again (1 of 2 times)", "3/6 0 running",
		"3/6 0 running, 1 waiting (Resources)", "shard 1: failed, signal 9; submitting it again (2 of 2 times)", "3/6 0 running", "3/6 0 running"}
	if !reflect.DeepEqual(*said, want) {
		t.Errorf("said %q\nwant %q", *said, want)
	}
	then, err := Load(a.Out)
	if err != nil || !reflect.DeepEqual(then.Jobs, a.Jobs) || len(a.Jobs) != 3 {
		t.Errorf("recorded %v, %v; want %v", then.Jobs, err, a.Jobs)
	}
}

func TestWatchGivesUp(t *testing.T) {
	w, q, a, _ := watching(t, 1, func(shard int) int { return 2 * (shard % 2) }, map[int][][]Task{
		0: {{killed}, {killed}},
		1: {{running, running, running, running, complete}},
		2: {{Task{State: "FAILED", Exit: 2}}}, // wrong input, which must not be retried
	})
	if err := os.WriteFile(a.log("2", "0"), []byte("rscert: first\nrscert: no memory\nhint: more\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := w.Run(t.Context(), a)
	if err == nil || err.Error() != "2 of 3 shards failed: 0,2; shard 0: failed, signal 9: no memory" {
		t.Errorf("%v", err)
	}
	if advice, _ := hint.Of(err); !strings.HasSuffix(advice, "go on with resume") {
		t.Errorf("hint %q", advice)
	}
	if want := [][]int{{0, 1, 2}, {0}}; !reflect.DeepEqual(q.submitted, want) {
		t.Errorf("submitted %v, want %v", q.submitted, want)
	}
	if q.asked["1"] != 5 {
		t.Errorf("asked %d times: shard 1 was not waited for", q.asked["1"])
	}
}

// If Slurm has forgotten a shard, the shard's folder alone decides whether the shard is done. Run submits a failed task
// again, even if the task's folder is complete.
func TestWatchFolders(t *testing.T) {
	w, q, a, _ := watching(t, 1, func(shard int) int { return 2 - shard%2 }, map[int][][]Task{
		0: {{gone}}, 1: {{gone}, {complete}}, 2: {{killed}, {complete}},
	})
	if left, err := w.Unfinished(t.Context(), a); err != nil || !reflect.DeepEqual(left, []int{1}) {
		t.Errorf("unfinished %v, %v; want shard 1", left, err)
	}
	if err := w.Run(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if want := [][]int{{0, 1, 2}, {1, 2}}; !reflect.DeepEqual(q.submitted, want) {
		t.Errorf("submitted %v, want %v", q.submitted, want)
	}
}

func TestUnfinished(t *testing.T) {
	w, _, a, _ := watching(t, 1, func(shard int) int { return shard % 3 }, map[int][][]Task{
		0: {{running}}, 1: {{killed}}, 2: {{complete}}, 3: {{pending}},
	})
	if left, err := w.Unfinished(t.Context(), a); err != nil || !reflect.DeepEqual(left, []int{1}) {
		t.Errorf("unfinished %v, %v; want shard 1", left, err)
	}
}

func TestWatchSilentQueue(t *testing.T) {
	states := map[int][][]Task{0: {{complete}}}
	w, q, a, _ := watching(t, 1, func(int) int { return 2 }, states)
	q.silent = maxSilent
	if err := w.Run(t.Context(), a); err != nil {
		t.Errorf("%v after %d questions without an answer", err, maxSilent)
	}
	w, q, a, _ = watching(t, 1, func(int) int { return 2 }, states)
	q.silent = maxSilent + 1
	if err := w.Run(t.Context(), a); err == nil || !strings.Contains(err.Error(), "no controller") {
		t.Errorf("%v, want that the queue does not answer", err)
	}
}

func TestWatchInterrupted(t *testing.T) {
	w, _, a, _ := watching(t, 1, func(int) int { return 0 }, map[int][][]Task{0: {{running}}})
	ctx, cancel := context.WithCancel(t.Context())
	w.Show = func(int, int, string) { cancel() }
	err := a.Interrupted(w.Run(ctx, a))
	if advice, _ := hint.Of(err); !errors.Is(err, context.Canceled) || !strings.Contains(advice, "scancel 1") {
		t.Errorf("%v, hint %q", err, advice)
	}
}
