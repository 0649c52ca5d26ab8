package run

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/conformal"
	"github.com/rscert/rscert/internal/conformalfile"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/scorefile"
	"github.com/rscert/rscert/internal/spec"
)

// savedRun certifies byteImage(k) for each k in 'images', saves the scores, and returns the run folder.
func savedRun(t *testing.T, sigma float64, images ...int) string {
	t.Helper()
	values := make([][]float64, len(images))
	for i, n := range images {
		values[i] = byteImage(n)
	}
	p := quick(t, writeImages(t, values...), func(p *Plan) {
		p.SaveScores, p.N, p.N0, p.Class, p.Sigma = true, 9, 0, certify.Label, sigma
	})
	mustCertify(t, p)
	return p.Out
}

// copyOf copies a file of scores out of its run. It compresses the arrays and reverses their order in the file.
func copyOf(t *testing.T, path string) string {
	t.Helper()
	in, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	to := filepath.Join(t.TempDir(), "copy.npz")
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(out)
	slices.Reverse(in.File)
	for _, f := range in.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		entry, err := w.Create(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(entry, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return to
}

// fileFit fits a predictor on a file of scores, for noise of scale sigma. It applies the functions in 'change' to the
// predictor, writes the predictor to a file, and returns the path of this file.
func fileFit(t *testing.T, saved string, sigma float64, change ...func(*conformalfile.File)) string {
	t.Helper()
	f, err := FitConformal(t.Context(), fitOf(saved, sigma, ""), new(said).console())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(f)
	}
	path := filepath.Join(t.TempDir(), "c.json")
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func fitOf(saved string, sigma float64, l law.Name) ConformalFit {
	return ConformalFit{
		Saved: saved, Temperature: 1, Spec: spec.Spec{Smoothing: spec.Smoothing{Sigma: sigma, Law: l}},
		Params: conformal.Params{
			Rule: conformal.Count, Scorer: conformal.NewScorer(conformal.THR), Miss: .3, Guarantee: conformal.Marginal, Draws: 9, CalibrationDraws: 9,
			Attack: conformal.Attack{Radius: .05},
		},
	}
}

// The scores of the calibration examples must get no sets, even if they come from a copy of the file with another
// compression. The scores of a run must get sets only if the run and the predictor have the same noise and the same
// temperature.
func TestApplyToScores(t *testing.T) {
	calibration, test := filepath.Join(savedRun(t, .5, 0, 1, 2, 3, 4, 5), "scores.npz"), filepath.Join(savedRun(t, .5, 6, 7, 8), "scores.npz")
	other := filepath.Join(savedRun(t, .25, 6, 7, 8), "scores.npz")
	from := copyOf(t, calibration)
	fitted := fileFit(t, from, .5)
	for _, tt := range []struct{ fitted, data, want string }{
		{fitted, test, ""},
		{fitted, copyOf(t, test), ""},
		{fitted, from, "is the file of the calibration examples"},
		{fitted, calibration, "is the file of the calibration examples"},
		{fitted, copyOf(t, copyOf(t, calibration)), "is the file of the calibration examples"},
		{fitted, other, "sigma is 0.25 in its run, and 0.5 in"},
		{fitted, copyOf(t, other), ""}, // the file does not state its σ
		{fileFit(t, from, .5, func(f *conformalfile.File) { f.Temperature = 2 }), test, "temperature is 1 in its run, and 2 in"},
	} {
		r, err := ApplyConformal(t.Context(), ConformalApply{Spec: spec.Spec{Data: tt.data}, Path: tt.fitted}, new(said).console())
		if tt.want == "" && (err != nil || len(r.Sets) != 3) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.data, err, tt.want)
		}
	}
}

// A run must have the noise of the predictor: the same law, the same scale, and one scale for all columns.
func TestSameNoise(t *testing.T) {
	f := &conformalfile.File{Temperature: 1}
	f.Predictor.Attack.Scale, f.Predictor.Attack.Law = .5, "uniform"
	a := &applying{plan: ConformalApply{Spec: spec.Spec{Data: "s.npz"}, Path: "c.json"}, file: f}
	if err := a.sameNoise(nil); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		noise       spec.Smoothing
		temperature float64
		want        string
	}{
		{spec.Smoothing{Law: "uniform", Sigma: .5}, 1, ""},
		{spec.Smoothing{Sigma: .5}, 1, "law is gaussian in its run, and uniform in c.json"},
		{spec.Smoothing{Law: "uniform", Sigma: .4}, 1, "sigma is 0.4"},
		{spec.Smoothing{Law: "uniform", Sigma: .5}, 2, "temperature is 2"},
		{spec.Smoothing{Law: "uniform", Sigma: .5, SigmaColumns: []spec.SigmaColumn{{}, {}}}, 1, "noise with one σ"},
	} {
		run := &runfolder.Run{Parameters: runfolder.Parameters{Smoothing: tt.noise}}
		run.Parameters.Temperature = tt.temperature
		if err := a.sameNoise(run); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.noise, err, tt.want)
		}
	}
}

// The digest of examples must depend on every score, and on which scores belong to the same example. It must not depend
// on the order of the examples.
func TestExampleDigest(t *testing.T) {
	digest := func(examples ...[]float32) string {
		var d exampleDigest
		for _, e := range examples {
			d.next()
			d.add(e[:1])
			d.add(e[1:])
		}
		return d.sum()
	}
	a, b := []float32{1, 2, 3}, []float32{4, 5, 6}
	seen := map[string]bool{digest(a, b): true}
	if !seen[digest(b, a)] {
		t.Error("another order has another digest")
	}
	for i, d := range []string{digest(a), digest(a, a, b), digest(a, []float32{4, 5, 7}), digest([]float32{1, 2, 3, 4, 5, 6}), digest([]float32{1, 2}, []float32{3, 4, 5, 6})} {
		if seen[d] {
			t.Errorf("examples %d have the digest of others", i)
		}
		seen[d] = true
	}
}

// A fit on the scores of a run must refuse a σ or a law that differs from the run's. It must also do so if the user
// gives the path of the file of scores in the run folder.
func TestFitChecksNoise(t *testing.T) {
	folder := savedRun(t, .5, 0, 1, 2, 3, 4, 5)
	for _, saved := range []string{folder, filepath.Join(folder, "scores.npz")} {
		for _, tt := range []struct {
			sigma float64
			law   law.Name
			want  string
		}{
			{0, "", ""},
			{.5, "", ""},
			{99, "", "sigma 99: the run of"},
			{.5, law.Name("uniform"), "law uniform: the run of"},
		} {
			f, err := FitConformal(t.Context(), fitOf(saved, tt.sigma, tt.law), new(said).console())
			if tt.want == "" && (err != nil || f.Predictor.Attack.Scale != .5) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%s, %v %s: %v, want %q", saved, tt.sigma, tt.law, err, tt.want)
			}
		}
	}
}

// A predictor can be fitted on samples of a model, on a run, or on a file of scores. The groups must have a row for
// each example of the data. A file of scores with indices may come from data that has more examples than the file. So
// for such a file, the groups may have more rows than the file has examples.
func TestGroupRows(t *testing.T) {
	folder := savedRun(t, .5, 0, 1, 2, 3, 4, 5)
	copied := copyOf(t, filepath.Join(folder, "scores.npz"))
	model := quick(t, writeImages(t, byteImage(0), byteImage(1), byteImage(2), byteImage(3), byteImage(4), byteImage(5)))
	model.Max = 4
	for _, fit := range []ConformalFit{fitOf(folder, 0, ""), fitOf(copied, .5, ""), {Spec: model.Spec, Temperature: 1}} {
		fit.Params = fitOf("", 0, "").Params
		fit.Params.Guarantee = conformal.Group
		for rows := 5; rows <= 7; rows++ {
			fit.Groups = make([]string, rows)
			_, err := FitConformal(t.Context(), fit, new(said).console())
			ok := rows == 6 || fit.Saved == copied && rows == 7 // the indices in the copied file may come from 7 examples
			if ok && err != nil || !ok && (err == nil || !strings.Contains(err.Error(), "groups")) {
				t.Errorf("%q with %d groups: %v", fit.Saved, rows, err)
			}
		}
	}
	s := &runfolder.Scores{Reader: &scorefile.Reader{}}
	s.Examples = 6
	for rows := 5; rows <= 7; rows++ {
		if err := checkSavedGroups(make([]string, rows), nil, s, "scores.npz"); (err == nil) != (rows == 6) {
			t.Errorf("%d groups of 6 examples without indices: %v", rows, err)
		}
	}
}
