package runfolder

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rscert/rscert/internal/spec"
)

// TestReadExtent reads the extent of a shard that is missing, then unfinished, and then finished. The shard has two of
// the run's four examples.
func TestReadExtent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "part1")
	want := func(want Extent) {
		t.Helper()
		if got, err := ReadExtent(dir); err != nil || got != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	want(Extent{})
	run := testRun
	run.Parameters.Shard, run.Data.Selected = spec.Shard{I: 1, K: 2}, 2
	f, err := Create(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want(Extent{Selected: 2, Whole: 4})
	fill(t, f, 1, 2)
	want(Extent{Done: 1, Selected: 2, Whole: 4})
	fill(t, f, 3, 4)
	want(Extent{Done: 2, Selected: 2, Whole: 4, Finished: true})

	run.Parameters.SaveScores = true // now the run is finished only if scores.npz exists
	if err := run.write(dir); err != nil {
		t.Fatal(err)
	}
	want(Extent{Done: 2, Selected: 2, Whole: 4})
	if err := os.WriteFile(filepath.Join(dir, ScoresFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	want(Extent{Done: 2, Selected: 2, Whole: 4, Finished: true})
}
