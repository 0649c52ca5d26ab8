package runfolder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/spec"
)

// splitRun is a run of 23 examples in 7 shards. The first two shards have 4 examples each, and the other shards have 3.
var splitRun = func() Run {
	r := testRun
	r.Data.Examples, r.Data.Selected = 70, 23
	r.Data.Shape = []int{2}
	r.Parameters.Skip, r.Parameters.Max, r.Parameters.Select = 2, 23, spec.Spread
	r.Parameters.ConfidenceRadii, r.Parameters.SaveScores = []float64{0, 1, 2}, true
	return r
}()

// votesRun is splitRun without scores and bounds.
var votesRun = func() Run {
	r := splitRun
	r.Parameters.ConfidenceRadii, r.Parameters.SaveScores = nil, false
	return r
}()

// quantisationOf returns the value that the function 'sample' writes into the field Quantisation of an example's votes.
func quantisationOf(index int) float64 { return float64(index+1) / 1024 }

// sample appends made-up results for an example to the run. Like the noise, these results depend only on the example's
// index.
func sample(t *testing.T, f *Folder, place, index int) {
	t.Helper()
	p := f.run.Parameters
	r := Record{
		Votes:       certify.Votes{Index: index, Label: index % 2, N0: 5, Counts0: []int64{4, 1}, N: 10, Counts: []int64{int64(index % 11), int64(10 - index%11)}, Quantisation: quantisationOf(index)},
		Certificate: certify.Certificate{Index: index, Label: index % 2, Radius: float64(index%4) - 0.5, Method: "margin", Alpha: 0.001, Sigma: 0.25, N: 10, Sound: true},
	}
	for _, row := range p.boundRows(r.Certificate, boundsHeader) {
		r.Bounds = append(r.Bounds, certify.ConfidenceBound{
			Index: index, Label: r.Votes.Label, Correct: r.Votes.Label == 0, Radius: row.radius, Certified: row.certified, Alpha: 0.001, Lower: 0.1, Confidence: 0.75, Upper: 0.9,
		})
	}
	if w := f.Scores(); w != nil {
		probs := make([]float32, 2*15)
		for i := range probs {
			probs[i] = float32(index) + float32(i)/64
		}
		err := errors.Join(w.WriteExample(place, index, index%2), w.WriteSelection(place, 0, probs[:10]), w.WriteEstimation(place, 0, probs[10:]))
		if err == nil {
			r.Scores, err = w.Digest(place)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Append(r); err != nil {
		t.Fatal(err)
	}
}

// sampleShard samples a shard of the run, but omits the last examples of the shard. The argument 'without' is the
// number of omitted examples.
func sampleShard(t *testing.T, run Run, shard spec.Shard, without int) (dir string) {
	t.Helper()
	run.Parameters.Shard = shard
	positions := run.positions()
	run.Data.Selected = len(positions)
	run.Runtime.Batch = 8 + shard.I // a setting that changes no result
	if shard.K > 1 {
		run.Runtime.GPUs = []string{fmt.Sprint("GPU ", shard.I)}
		run.Runtime.Resumed = []Resumption{{1, Runtime{GPUs: []string{"another"}}}}
	}
	dir = filepath.Join(t.TempDir(), strings.ReplaceAll(shard.String(), "/", "of"))
	f, err := Create(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	for place, index := range positions[:len(positions)-without] {
		sample(t, f, place, index)
	}
	if without == 0 {
		err = f.Finish()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shardsOf samples all shards i/k.
func shardsOf(t *testing.T, run Run, k int) (dirs []string) {
	for i := range k {
		dirs = append(dirs, sampleShard(t, run, spec.Shard{I: i, K: k}, 0))
	}
	return dirs
}

// merge merges shards into a new folder, and returns the path of this folder.
func merge(t *testing.T, dirs []string) (out string, err error) {
	t.Helper()
	s, err := OpenShards(dirs)
	if err != nil {
		return "", err
	}
	defer s.Close()
	out = filepath.Join(t.TempDir(), "merged")
	return out, s.Merge(t.Context(), out, func(int64) {})
}

// allFiles returns the files of a folder except run.json and the lock.
func allFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		if e.Name() == RunFile || e.Name() == lockFile {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

// checkWhole compares a merged folder with the folder of an unsplit run, and resumes the merged run.
func checkWhole(t *testing.T, out, whole string, run Run) {
	t.Helper()
	got, want := allFiles(t, out), allFiles(t, whole)
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s differs from the whole run's", name)
		}
	}
	merged, err := Read(out)
	if err != nil {
		t.Fatal(err)
	}
	split, err := Read(whole)
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, s := range merged.Runtime.Shards {
		if s.Batch != 8+s.Shard.I {
			t.Errorf("shard %s ran with batch %d", s.Shard, s.Batch)
		}
		if s.Shard.K > 1 && (len(s.Resumed) != 1 || !slices.Equal(s.Kinds(), []string{fmt.Sprint("GPU ", s.Shard.I), "another"})) {
			t.Errorf("shard %s ran on %v", s.Shard, s.Kinds())
		}
		p := merged.Parameters
		p.Shard = s.Shard
		ran += len(p.Positions(merged.Data.Examples))
	}
	if ran != merged.Data.Selected {
		t.Errorf("run.json names shards of %d examples, want %d", ran, merged.Data.Selected)
	}
	if merged.Runtime.Resumed != nil || len(merged.Runtime.Shards) > 1 && len(merged.Runtime.Kinds()) != 1+len(merged.Runtime.Shards) {
		t.Errorf("the whole was resumed on %v, and was on %v", merged.Runtime.Resumed, merged.Runtime.Kinds())
	}
	merged.Runtime, split.Runtime = Runtime{}, Runtime{}
	if !reflect.DeepEqual(merged, split) {
		t.Errorf("run.json is %+v, want %+v", merged, split)
	}
	f, err := Resume(out, run)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Done() != run.Data.Selected || f.Dropped() != 0 || f.Scores() != nil {
		t.Errorf("%d examples are done, %d dropped, want all %d", f.Done(), f.Dropped(), run.Data.Selected)
	}
}

func TestMerge(t *testing.T) {
	for name, run := range map[string]Run{"votes": votesRun, "scores and bounds": splitRun} {
		whole := sampleShard(t, run, spec.Whole, 0)
		seven := shardsOf(t, run, 7)
		uneven := []string{sampleShard(t, run, spec.Shard{I: 3, K: 4}, 0), sampleShard(t, run, spec.Shard{I: 0, K: 2}, 0), sampleShard(t, run, spec.Shard{I: 1, K: 4}, 0)}
		more := shardsOf(t, run, 23)
		for split, dirs := range map[string][]string{"whole": {whole}, "seven": seven, "in another order": {seven[4], seven[0], seven[6], seven[2], seven[1], seven[5], seven[3]}, "uneven": uneven, "one each": more} {
			t.Run(name+"/"+split, func(t *testing.T) {
				out, err := merge(t, dirs)
				if err != nil {
					t.Fatal(err)
				}
				checkWhole(t, out, whole, run)
			})
		}
	}
}

// TestMergeGaps first merges some of the shards, and then merges the result with the remaining shards.
func TestMergeGaps(t *testing.T) {
	whole := sampleShard(t, splitRun, spec.Whole, 0)
	dirs := shardsOf(t, splitRun, 7)
	s, err := OpenShards([]string{dirs[5], dirs[0], dirs[2]})
	if err != nil {
		t.Fatal(err)
	}
	gap := s.Gaps()
	if f, err := lockFolder(dirs[5], splitRun); err == nil {
		f.unlock()
		t.Error("another can write to a shard that is open")
	}
	s.Close()
	f, err := lockFolder(dirs[5], splitRun)
	if err != nil {
		t.Fatal(err)
	}
	f.unlock()
	if gap == nil || gap.Examples != 13 || gap.Of != 23 || !slices.Equal(gap.Missing, []spec.Shard{{I: 1, K: 7}, {I: 3, K: 7}, {I: 4, K: 7}, {I: 6, K: 7}}) {
		t.Errorf("the gap is %+v", gap)
	}
	out, err := merge(t, []string{dirs[5], dirs[0], dirs[2]})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Find(out)
	if err != nil {
		t.Fatal(err)
	}
	votes, err := e.Votes(func(certify.Votes) error { return nil })
	if err != nil || len(votes) != 10 || !slices.Equal(e.Run.Data.Shards, []spec.Shard{{I: 0, K: 7}, {I: 2, K: 7}, {I: 5, K: 7}}) {
		t.Errorf("%d votes of shards %v, %v", len(votes), e.Run.Data.Shards, err)
	}
	bounds, err := e.Bounds()
	if err != nil || bounds.Examples != 23 || bounds.Unfinished != 13 { // the numbers include the missing examples
		t.Errorf("bounds of %d examples, %d unfinished, %v", bounds.Examples, bounds.Unfinished, err)
	}
	scores, err := e.Scores()
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for ; err == nil; examples++ {
		_, _, err = scores.Next()
	}
	if !errors.Is(err, io.EOF) || examples-1 != 10 {
		t.Errorf("%d scores, %v", examples-1, err)
	}
	_ = scores.Close()
	var mismatch *MismatchError
	if _, err := Resume(out, splitRun); !errors.As(err, &mismatch) || !strings.Contains(mismatch.Hint(), "merge all") {
		t.Errorf("a run with gaps is resumed: %v", err)
	}

	if rows := strings.Split(allFiles(t, out)[BoundsFile], "\n"); !strings.Contains(rows[1], ",23,0,0.001,crc32c:") {
		t.Errorf("a row of the bounds is %q, want 23 examples", rows[1])
	}
	more, err := merge(t, []string{out, dirs[3]})
	if err != nil {
		t.Fatal(err)
	}
	if run, err := Read(more); err != nil || !slices.Equal(run.Data.Shards, []spec.Shard{{I: 0, K: 7}, {I: 2, K: 7}, {I: 3, K: 7}, {I: 5, K: 7}}) {
		t.Errorf("shards %v, %v", run.Data.Shards, err)
	}

	all, err := merge(t, []string{dirs[1], dirs[3], out, dirs[4], dirs[6]})
	if err != nil {
		t.Fatal(err)
	}
	checkWhole(t, all, whole, splitRun)

	s, err = OpenShards([]string{sampleShard(t, votesRun, spec.Shard{I: 0, K: 2}, 0), sampleShard(t, votesRun, spec.Shard{I: 1, K: 4}, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if gap := s.Gaps(); gap == nil || !slices.Equal(gap.Missing, []spec.Shard{{I: 3, K: 4}}) {
		t.Errorf("the gap is %+v", gap)
	}

	large, err := OpenShards([]string{sampleShard(t, votesRun, spec.Shard{I: 1, K: 2}, 0), sampleShard(t, votesRun, spec.Shard{I: 0, K: 4}, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	if gap := large.Gaps(); gap == nil || !slices.Equal(gap.Missing, []spec.Shard{{I: 2, K: 4}}) {
		t.Errorf("the gap is %+v", gap)
	}

	s, err = OpenShards([]string{sampleShard(t, votesRun, spec.Shard{I: 0, K: 4}, 0), sampleShard(t, votesRun, spec.Shard{I: 1, K: 6}, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// Shard 2/6 consists of the examples with the numbers 2, 8, 14 and 20. Shard 0/4 contains two of them, 8 and 20. So
	// the missing examples do not form complete shards.
	if gap := s.Gaps(); gap == nil || gap.Missing != nil || gap.Examples != 13 || !strings.HasPrefix(gap.Error(), "examples are missing: ") {
		t.Errorf("the gap is %+v", gap)
	}
}

// TestMergedRunFile checks that Read refuses a run.json with overlapping shards.
func TestMergedRunFile(t *testing.T) {
	run := votesRun
	run.Data.Shards = []spec.Shard{{I: 0, K: 2}, {I: 2, K: 4}}
	dir := t.TempDir()
	if err := run.write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("shards that overlap: %v", err)
	}
}

func TestMergeRefuses(t *testing.T) {
	dirs := shardsOf(t, splitRun, 3)
	old := votesRun
	old.Schema = 1
	open := sampleShard(t, splitRun, spec.Shard{I: 2, K: 3}, 0)
	lock, err := lockFolder(open, Run{})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.unlock()
	for _, tt := range []struct {
		name string
		dirs []string
		want string
	}{
		{"the same twice", []string{dirs[0], dirs[1], dirs[0]}, "(0/3) overlap: both have example 0; 8 examples"},
		{"the whole and a part", []string{sampleShard(t, splitRun, spec.Whole, 0), dirs[1]}, "(1/3) overlap: both have example"},
		{"one of two examples", []string{dirs[0], sampleShard(t, splitRun, spec.Shard{I: 3, K: 6}, 0)}, "(3/6) overlap"},
		{"no folder", []string{dirs[0], filepath.Join(dirs[0], "no")}, "no such file"},
		{"a file", []string{dirs[0], filepath.Join(dirs[1], VotesFile)}, "is a file"},
		{"an empty folder", []string{t.TempDir()}, "is no run folder"},
		{"an old format", []string{sampleShard(t, old, spec.Whole, 0)}, "was written in format 1"},
		{"another is writing", []string{dirs[0], dirs[1], open}, "another rscert is writing to it"},
	} {
		out, err := merge(t, tt.dirs)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
		if out != "" {
			t.Errorf("%s: merged", tt.name)
		}
	}
}

// TestMergeMismatch compares two shards of a run after it has changed one condition of the second shard. The shards
// must not match. The test changes each parameter and some further conditions that determine results.
func TestMergeMismatch(t *testing.T) {
	a := shardFolder{dir: "a", run: splitRun}
	refuses := func(name string, change func(*Run)) {
		t.Helper()
		b := shardFolder{dir: "b", run: splitRun}
		b.run.Parameters.Shard = spec.Shard{I: 1, K: 7}
		if err := a.matches(b); err != nil {
			t.Fatalf("the same: %v", err)
		}
		change(&b.run)
		if err := a.matches(b); err == nil || !strings.Contains(err.Error(), name+" is ") || !strings.HasPrefix(err.Error(), "b is no shard of the run of a: ") {
			t.Errorf("another %s: error %v", name, err)
		}
	}
	parameters := reflect.TypeFor[Parameters]()
	for _, field := range reflect.VisibleFields(parameters) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "shard" || field.Anonymous {
			continue
		}
		refuses("--"+name, func(r *Run) { changeValue(t, reflect.ValueOf(&r.Parameters).Elem().FieldByIndex(field.Index)) })
	}
	refuses("the model", func(r *Run) { r.Model.SHA256 = "0" })
	refuses("the data set", func(r *Run) { r.Data.SHA256 = "0" })
	refuses("rscert", func(r *Run) { r.Version = "2" })
	refuses("ONNX Runtime", func(r *Run) { r.Runtime.Library = "2" })
	refuses("the provider", func(r *Run) { r.Runtime.Provider = "cuda" })
	refuses("the table of the noise", func(r *Run) { r.Noise.Table = "0" })

	other := votesRun
	other.Parameters.N, other.Parameters.Seed = 20, 9
	dirs := []string{sampleShard(t, votesRun, spec.Shard{I: 0, K: 2}, 0), sampleShard(t, other, spec.Shard{I: 1, K: 2}, 2)}
	want := "--n is 10 there, 20 here; --seed is 1 there, 9 here"
	if _, err := merge(t, dirs); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// changeValue gives a parameter another value.
func changeValue(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint64, reflect.Uint8:
		v.SetUint(v.Uint() + 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(v.String() + "other")
	case reflect.Slice:
		more := reflect.MakeSlice(v.Type(), 1, 1)
		if of := more.Index(0); of.CanFloat() {
			of.SetFloat(7)
		}
		v.Set(more)
	case reflect.Struct:
		switch v.Interface().(type) {
		case Method:
			v.Set(reflect.ValueOf(ByVotes(certify.ClopperPearson)))
		case certify.StopRule:
			rule, err := certify.ParseStop("radius>=0.5")
			if err != nil {
				t.Fatal(err)
			}
			v.Set(reflect.ValueOf(rule))
		case spec.Only:
			v.Set(reflect.ValueOf(spec.Only{Choice: spec.Failed, Run: "a", Seeds: []uint64{1}, Of: 3, Examples: spec.Indices{1}}))
		default:
			t.Fatalf("how is a %s changed?", v.Type())
		}
	default:
		t.Fatalf("how is a %s changed?", v.Type())
	}
}

// TestMergeUnfinished checks that OpenShards rejects incomplete shards and names them in the error.
func TestMergeUnfinished(t *testing.T) {
	first := sampleShard(t, splitRun, spec.Shard{I: 0, K: 2}, 0)
	refuses := func(what, dir string) {
		t.Helper()
		_, err := merge(t, []string{first, dir})
		var shard *ShardError
		if !errors.As(err, &shard) || shard.Dir != dir || shard.Run.Parameters.Shard != (spec.Shard{I: 1, K: 2}) || shard.Advice == "" {
			t.Errorf("%s: error %v, want one of the shard", what, err)
		}
	}
	for without := 1; without <= 11; without++ {
		refuses(fmt.Sprintf("without %d", without), sampleShard(t, splitRun, spec.Shard{I: 1, K: 2}, without))
	}
	want := "is not finished: it has 9 of its 11 examples"
	if _, err := merge(t, []string{sampleShard(t, votesRun, spec.Shard{I: 1, K: 2}, 2)}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("votes of 9 examples: error %v, want %q", err, want)
	}
	for _, name := range []string{VotesFile, CertificatesFile, BoundsFile, ScoresFile} {
		cut := func(s string) string { return s[:strings.LastIndexByte(s[:len(s)-1], '\n')+1] }
		dir := sampleShard(t, splitRun, spec.Shard{I: 1, K: 2}, 0)
		overwrite(t, dir, name, cut)
		refuses("a line less in "+name, dir)
		dir = sampleShard(t, splitRun, spec.Shard{I: 1, K: 2}, 0)
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		refuses("no "+name, dir)
	}
	for _, name := range []string{CertificatesFile, BoundsFile} {
		dir := sampleShard(t, splitRun, spec.Shard{I: 1, K: 2}, 0)
		overwrite(t, dir, name, func(s string) string {
			return s + s[strings.LastIndexByte(s[:len(s)-1], '\n')+1:]
		})
		refuses("a line more in "+name, dir)
		dir = sampleShard(t, splitRun, spec.Shard{I: 1, K: 2}, 0)
		overwrite(t, dir, name, func(s string) string { return s + "x" })
		refuses("a torn line in "+name, dir)
	}
}

// TestMergeDamage flips bits of a shard. The merge must reject the shard, or have the same result as without the flip.
func TestMergeDamage(t *testing.T) {
	first, second := sampleShard(t, splitRun, spec.Shard{I: 0, K: 2}, 0), sampleShard(t, splitRun, spec.Shard{I: 1, K: 2}, 0)
	whole := allFiles(t, sampleShard(t, splitRun, spec.Whole, 0))
	rng := rand.New(rand.NewPCG(1, 2))
	for name, data := range allFiles(t, second) {
		for range 40 {
			changed := []byte(data)
			at, bit := rng.IntN(len(changed)), rng.IntN(8)
			changed[at] ^= 1 << bit
			if err := os.WriteFile(filepath.Join(second, name), changed, 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := merge(t, []string{first, second})
			if err == nil {
				if got := allFiles(t, out); !reflect.DeepEqual(got, whole) {
					t.Errorf("%s: bit %d of byte %d is flipped, and merged", name, bit, at)
				}
				continue
			}
			var shard *ShardError
			if !errors.As(err, &shard) || shard.Dir != second {
				t.Errorf("%s: bit %d of byte %d: error %v, want one of the shard", name, bit, at, err)
			}
			if out != "" {
				if entries, err := os.ReadDir(filepath.Dir(out)); err != nil || len(entries) > 0 {
					t.Errorf("%s: the refused merge leaves %v, %v", name, entries, err)
				}
			}
		}
		if err := os.WriteFile(filepath.Join(second, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMergeInterrupted interrupts a merge at every step: once by a cancelled context, and once by a simulated kill,
// which leaves the files of the merge. An interrupted merge must leave no folder at the path 'out', and another merge
// must complete the work.
func TestMergeInterrupted(t *testing.T) {
	whole := sampleShard(t, splitRun, spec.Whole, 0)
	s, err := OpenShards(shardsOf(t, splitRun, 7))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for stop := range s.Steps() {
		root := t.TempDir()
		out := filepath.Join(root, "merged")
		killed := filepath.Join(t.TempDir(), "killed")
		if err := os.Mkdir(killed, 0o755); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var steps int64
		err := s.Merge(ctx, out, func(n int64) {
			if steps += n; steps == stop+1 {
				if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("after %d steps there is %s: %v", steps, out, err)
				}
				if err := os.CopyFS(killed, os.DirFS(root)); err != nil {
					t.Error(err)
				}
				cancel()
			}
		})
		if entries, _ := os.ReadDir(root); !errors.Is(err, context.Canceled) || len(entries) > 0 {
			t.Fatalf("interrupted after %d steps: %v, leaves %v", stop+1, err, entries)
		}
		left, err := os.ReadDir(killed)
		if err != nil || len(left) != 1 || !strings.HasPrefix(left[0].Name(), durable.Temporary) {
			t.Fatalf("a kill after %d steps leaves %v, %v", stop+1, left, err)
		}
		again := filepath.Join(killed, "merged")
		if err := s.Merge(t.Context(), again, func(int64) {}); err != nil {
			t.Fatal(err)
		}
		if left, err = os.ReadDir(killed); err != nil || len(left) != 1 {
			t.Fatalf("the second merge leaves %v, %v", left, err)
		}
		if stop%10 == 0 {
			checkWhole(t, again, whole, splitRun)
		}
	}
}

// TestMergeOut checks that Merge does not overwrite a file or a non-empty folder, and that it fails while another merge
// writes to the same folder.
func TestMergeOut(t *testing.T) {
	s, err := OpenShards([]string{sampleShard(t, votesRun, spec.Whole, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	root := t.TempDir()
	taken := filepath.Join(root, "taken")
	if err := os.WriteFile(taken, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.Merge(t.Context(), taken, func(int64) {}); err == nil || !errors.Is(err, ErrExists) {
		t.Errorf("a file is replaced: %v", err)
	}
	if err := s.Merge(t.Context(), root, func(int64) {}); !errors.Is(err, ErrExists) {
		t.Errorf("a folder is replaced: %v", err)
	}
	out := filepath.Join(root, "made", "merged")
	if err := os.MkdirAll(out, 0o755); err != nil { // an empty folder does not prevent a merge
		t.Fatal(err)
	}
	lock, err := func() (*Folder, error) {
		dir := filepath.Join(root, "made", durable.Temporary+"merge-merged")
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		return lockFolder(dir, Run{})
	}()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Merge(t.Context(), out, func(int64) {}); err == nil || !strings.Contains(err.Error(), "another rscert") {
		t.Errorf("two merges to one place: %v", err)
	}
	lock.unlock()
	if err := s.Merge(t.Context(), out, func(int64) {}); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(taken); err != nil || !bytes.Equal(data, []byte("x")) {
		t.Errorf("%q, %v", data, err)
	}
}

// TestCopyRow checks that copyRow writes the merged run's number of examples into the column 'examples'. It tests rows
// with the current header and rows with the header of earlier versions, which has fewer columns.
func TestCopyRow(t *testing.T) {
	m := merging{Shards: &Shards{run: Run{Data: Data{Selected: 17}}}}
	for header, tails := range map[string][2]string{boundsHeader: {",4,0,0.001", ",17,0,0.001"}, certifiedHeader: {",4", ",17"}} {
		const row = "5,1,1,1,0.9,0.5,0.8,0.95"
		got, err := m.copyRow(checksum.Seed(0).AppendCSV([]byte(header), []byte(row+tails[0])))
		if want := checksum.Seed(0).AppendCSV([]byte(header), []byte(row+tails[1])); err != nil || string(got) != string(want) {
			t.Errorf("%q (%v), want %q", got, err, want)
		}
		if _, err := m.copyRow(checksum.Seed(0).AppendCSV([]byte(header), []byte(row))); err == nil {
			t.Errorf("a row too short for %q, no error", header)
		}
	}
}

// Scores.Quantisation must return how much rounding reduces the radii of each example. Without this reduction, radii
// from scores would be too large if the data are not on a lattice.
func TestScoresHaveTheirQuantisation(t *testing.T) {
	e, err := Find(sampleShard(t, splitRun, spec.Whole, 0))
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Scores()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for n := 0; ; n++ {
		index, _, err := s.Next()
		if errors.Is(err, io.EOF) && n == splitRun.Data.Selected {
			return
		}
		if err != nil {
			t.Fatalf("after %d examples: %v", n, err)
		}
		if q := s.Quantisation(); q != quantisationOf(index) {
			t.Errorf("quantisation of example %d is %v, want %v", index, q, quantisationOf(index))
		}
	}
}
