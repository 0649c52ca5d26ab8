package sweep

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/runfolder"
)

var twoSigmas = Axis{"sigma", []string{"0.25", "0.5"}}

// begin makes an empty run.json in each folder.
func begin(t *testing.T, folders ...string) {
	t.Helper()
	for _, folder := range folders {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, runfolder.RunFile), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sweeps", "one")
	r := NewRecord("v1", 7, grid(t, twoSigmas))
	if err := Start(dir, r, true); err != nil { // --resume begins a sweep that has not begun
		t.Fatal(err)
	}
	if got, err := Read(dir); err != nil || !reflect.DeepEqual(got, r) {
		t.Fatalf("%+v, %v; want %+v", got, err, r)
	}
	if err := Start(dir, r, false); !errors.Is(err, runfolder.ErrExists) {
		t.Errorf("a second start: %v", err)
	}
	if err := Start(dir, NewRecord("v2", 7, grid(t, twoSigmas)), true); err != nil {
		t.Errorf("another version resumes: %v", err)
	}
	renamed := NewRecord("v1", 7, grid(t, twoSigmas))
	renamed.Points[1].Name = "other"
	for want, other := range map[string]Record{
		"seed was 7, now 8":     NewRecord("v1", 8, grid(t, twoSigmas)),
		"the sweep was sigma":   NewRecord("v1", 7, grid(t, twoSigmas, Axis{"n", []string{"1", "2"}})),
		"the names of its poin": renamed,
	} {
		if err := Start(dir, other, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := Start(filepath.Dir(dir), r, true); !errors.Is(err, runfolder.ErrExists) {
		t.Errorf("a folder with something else: %v", err)
	}
	roundabout := filepath.Dir(dir) + "/missing/.." // filepath.Join would remove the two dots
	if err := Start(roundabout, r, true); !errors.Is(err, runfolder.ErrExists) {
		t.Errorf("a folder with something else, named through a missing folder: %v", err)
	}
	other := NewRecord("v1", 8, grid(t, twoSigmas))
	begin(t, filepath.Join(dir, r.Points[0].Name))
	if err := Start(dir+"/missing/..", other, true); err == nil || !strings.Contains(err.Error(), "seed was 7, now 8") {
		t.Errorf("another sweep, named through a missing folder: %v", err)
	}
}

// Read must refuse a record that was changed and a record in a newer format. It must also refuse a record in which the
// name of a point, such as ../run, leads out of the folder.
func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if err := NewRecord("v1", 7, grid(t, twoSigmas)).Write(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, File)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := checksum.VerifySealed(whole)
	for want, text := range map[string][]byte{
		"checksum":                   bytes.Replace(whole, []byte("0.25"), []byte("0.26"), 1),
		"format 2":                   checksum.Seal(bytes.Replace(body, []byte(`"schema": 1`), []byte(`"schema": 2`), 1)),
		"no schema":                  checksum.Seal(bytes.Replace(body, []byte(`"schema": 1`), []byte(`"schema": 0`), 1)),
		"is not the name of a point": checksum.Seal(bytes.Replace(body, []byte(`"sigma-0.25"`), []byte(`"../run"`), 1)),
		"unexpected end":             whole[:20],
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	at := func(names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, filepath.Join(dir, name))
		}
		return paths
	}
	if err := os.MkdirAll(filepath.Join(dir, "s"), 0o755); err != nil {
		t.Fatal(err)
	}
	record := NewRecord("v1", 7, grid(t, Axis{"sigma", []string{"1", "0.25", "0.5"}}))
	if err := record.Write(filepath.Join(dir, "s")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Expand(at("s")); err == nil || !strings.Contains(err.Error(), "no point of the sweep has begun") {
		t.Errorf("error %v", err)
	}
	begin(t, at("s/sigma-1", "s/sigma-0.25", "s/extra", "plain/b", "plain/a", "plain/.hidden", "plain/deep/er", "run", "run/inside")...)
	for _, c := range []struct{ given, runs, missing []string }{
		{at("s"), at("s/sigma-1", "s/sigma-0.25"), at("s/sigma-0.5")},
		{at("s/sigma-0.25", "s/sigma-1", "s/sweep.json"), at("s/sigma-0.25", "s/sigma-1"), at("s/sigma-0.5")},
		{at("s/sweep.json"), at("s/sigma-1", "s/sigma-0.25"), at("s/sigma-0.5")},
		{at("plain", "run"), at("plain/a", "plain/b", "run"), nil},
		{at("run/run.json", "nothing"), at("run/run.json", "nothing"), nil},
	} {
		runs, missing, err := Expand(c.given)
		if err != nil || !reflect.DeepEqual(runs, c.runs) || !reflect.DeepEqual(missing, c.missing) {
			t.Errorf("%q: %q, missing %q, %v; want %q, missing %q", c.given, runs, missing, err, c.runs, c.missing)
		}
	}
}

func TestReadParts(t *testing.T) {
	dir := t.TempDir()
	part := func(name string, r Record, points ...string) string {
		folder := filepath.Join(dir, name)
		for _, p := range points {
			begin(t, filepath.Join(folder, p))
		}
		if err := r.Write(folder); err != nil {
			t.Fatal(err)
		}
		return folder
	}
	r := NewRecord("v1", 7, grid(t, twoSigmas))
	a, b := part("a", r, "sigma-0.25", "sigma-0.5"), part("b", r, "sigma-0.5")
	c := part("c", NewRecord("v1", 8, grid(t, twoSigmas)), "sigma-0.5")
	d := part("d", NewRecord("v1", 7, grid(t, Axis{"n", []string{"1", "2"}})), "n-1")
	single := filepath.Join(dir, "single")
	begin(t, single)
	got, err := ReadParts([]string{a, b})
	want := [][]string{{filepath.Join(a, "sigma-0.25")}, {filepath.Join(a, "sigma-0.5"), filepath.Join(b, "sigma-0.5")}}
	if err != nil || !reflect.DeepEqual(got.Folders, want) || !reflect.DeepEqual(got.Record, r) {
		t.Errorf("%+v, %v; want %q", got, err, want)
	}
	if got, err := ReadParts([]string{single, single}); got != nil || err != nil {
		t.Errorf("runs that are no sweep: %v, %v", got, err)
	}
	for _, refused := range []struct {
		dirs []string
		want string
	}{
		{[]string{a, c}, "another seed"}, {[]string{a, d}, "another sweep"}, {[]string{b}, "no folder holds a shard of sigma-0.25"},
		{[]string{a, single}, "single: holds no sweep"}, {[]string{single, a}, "a: holds a sweep"}, {[]string{single, single, a}, "a: holds a sweep"},
	} {
		if _, err := ReadParts(refused.dirs); err == nil || !strings.Contains(err.Error(), refused.want) {
			t.Errorf("%q: error %v, want %q", refused.dirs, err, refused.want)
		}
	}
}

// If several processes (such as the tasks of a job array) start the same sweep at the same time, all of them must
// succeed.
func TestStartTogether(t *testing.T) {
	for range 50 {
		dir := filepath.Join(t.TempDir(), "sweep")
		r := NewRecord("v1", 7, grid(t, Axis{"sigma", []string{"0.25", "0.5"}}))
		var tasks sync.WaitGroup
		for range 8 {
			tasks.Go(func() {
				if err := Start(dir, r, true); err != nil {
					t.Error(err)
				}
			})
		}
		tasks.Wait()
	}
}
