package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// The small models of internal/onnx take images of 3·4·4 values and have four classes.
const (
	models    = "../onnx/testdata/"
	imageSize = 48
)

// writeImages writes a CSV file of images whose labels are 0, 1, 2, 3, 0, 1, …
func writeImages(t *testing.T, images ...[]float64) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("label") // without this name, labels 0, 1, 2, … would look like an index
	for d := range images[0] {
		fmt.Fprintf(&b, ",v%d", d)
	}
	b.WriteByte('\n')
	for label, image := range images {
		fmt.Fprint(&b, label%4)
		for _, v := range image {
			fmt.Fprintf(&b, ",%v", v)
		}
		b.WriteByte('\n')
	}
	path := filepath.Join(t.TempDir(), "images.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// byteImage returns an image that depends on k. Its values are multiples of 1/255, in float32.
func byteImage(k int) []float64 {
	image := make([]float64, imageSize)
	for d := range image {
		image[d] = float64(float32((k*31+d*17)%256) / 255)
	}
	return image
}

// quick returns a plan that runs in a second or less.
func quick(t *testing.T, data string, changes ...func(*Plan)) Plan {
	t.Helper()
	seed := uint64(5)
	p := Plan{
		Spec: spec.Spec{
			Model: models + "nchw.onnx", Data: data, Threads: 2, FixedSeed: &seed, Smoothing: spec.Smoothing{Sigma: 0.1},
			Conditions: spec.Conditions{Noise: spec.Lattice, Skip: 1, Shard: spec.Whole},
		},
		Out: filepath.Join(t.TempDir(), "run"), Version: "test",
		Certification: runfolder.Certification{
			N: 60, N0: 20, Alpha: 0.01, Class: certify.Predicted, Margin: certify.SecondMargin, Combine: certify.Directed,
			Confidence: certify.ConfidenceTangent, ConfidenceBound: certify.Betting, Band: certify.BandBinomial,
			Temperature: 1,
		},
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

var quiet = progress.Options{Quiet: true}

// The type said records the warnings and the notes for the user.
type said struct{ warnings, notes []string }

func (s *said) console() experiment.Console {
	return experiment.Console{
		Warn:     func(w warning.Warning) { s.warnings = append(s.warnings, w.Text.Spell(param.Plain)) },
		Note:     func(t param.Text) { s.notes = append(s.notes, t.Spell(param.Plain)) },
		Progress: quiet,
	}
}

func mustCertify(t *testing.T, p Plan) Outcome {
	t.Helper()
	o, err := Certify(t.Context(), p, new(said).console())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// results holds the contents of a run folder.
type results struct {
	run   runfolder.Run
	votes []certify.Votes
	certs []certify.Certificate
}

func readResults(t *testing.T, dir string) (r results) {
	t.Helper()
	e := find(t, dir)
	r.run = *e.Run
	var err error
	if r.votes, err = e.Votes(func(certify.Votes) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if r.certs, err = e.Certificates(); err != nil {
		t.Fatal(err)
	}
	return r
}

func find(t *testing.T, path string) *runfolder.Evidence {
	t.Helper()
	e, err := runfolder.Find(path)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func sameJSON(t *testing.T, what string, got, want any) {
	t.Helper()
	a, err1 := json.Marshal(got)
	b, err2 := json.Marshal(want)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if string(a) != string(b) {
		t.Errorf("%s:\n%s\nwant\n%s", what, a, b)
	}
}

func sum(counts []int64) (s int64) {
	for _, k := range counts {
		s += k
	}
	return s
}

// The votes must add up to the number of samples, and the certificates must follow from the votes. The outcome must
// summarise the certificates, and the recorded conditions must match the plan.
func TestCertifyByVotes(t *testing.T) {
	p := quick(t, writeImages(t, byteImage(0), byteImage(1), byteImage(2)))
	outcome := mustCertify(t, p)
	r := readResults(t, p.Out)
	if r.run.Parameters.Outputs != graph.Logits { // detected from the model
		t.Errorf("the outputs are described as %v", r.run.Parameters.Outputs)
	}
	if len(r.votes) != 3 || len(r.certs) != 3 || r.run.Data.Examples != 3 || r.run.Data.Selected != 3 || r.run.Model.Classes != 4 {
		t.Fatalf("%d votes, %d certificates, run %+v", len(r.votes), len(r.certs), r.run)
	}
	certifier, err := certify.NewVoteCertifier(certify.VoteParams{
		Target: certify.Target{
			Alpha: 0.01, Level: r.run.Target(0.01).Level, Sigma: 0.1, Arithmetic: certify.Exact, Precision: "f32",
		},
		Method: certify.ExactMargin,
	})
	if err != nil {
		t.Fatal(err)
	}
	certified := 0
	for i, v := range r.votes {
		if v.Index != i || v.Label != i || v.N != 60 || v.N0 != 20 || sum(v.Counts) != 60 || sum(v.Counts0) != 20 || v.Quantisation != 0 {
			t.Errorf("example %d: votes %+v", i, v)
		}
		want, err := certifier.Certify(v)
		if err != nil {
			t.Fatal(err)
		}
		sameJSON(t, fmt.Sprintf("example %d", i), r.certs[i], want)
		if want.Prediction != certify.Abstained {
			certified++
		}
	}
	if certified == 0 {
		t.Error("nothing is certified: the test shows nothing")
	}
	var tally certify.Tally
	tally.Add(r.certs...)
	sameJSON(t, "summary", outcome.Summary, tally.Summary(certify.RadiiUpTo(tally.Largest())))
	if outcome.SamplesDrawn != 3*80 || outcome.Out != p.Out || outcome.None != 0 || !(outcome.Seconds > 0) ||
		math.Abs(outcome.SamplesPerSecond*outcome.Seconds-3*80) > 1e-6 {
		t.Errorf("outcome %+v", outcome)
	}
}

// Equal examples must get different noise, and the two phases of an example must get different noise. All votes are
// then independent. Neither the other examples of a run nor the number of threads may change the votes.
func TestVotesAreIndependent(t *testing.T) {
	image := byteImage(7)
	data := writeImages(t, image, image, image, image)
	wide := func(p *Plan) { p.Sigma, p.N, p.N0 = 2, 500, 500 }
	p := quick(t, data, wide)
	mustCertify(t, p)
	all := readResults(t, p.Out).votes
	seen := map[string]string{}
	for i, v := range all {
		for phase, counts := range map[string][]int64{"selection": v.Counts0, "estimation": v.Counts} {
			name, key := fmt.Sprintf("the %s of example %d", phase, i), fmt.Sprint(counts)
			if other, ok := seen[key]; ok {
				t.Errorf("%s and %s have the votes %s", name, other, key)
			}
			seen[key] = name
		}
	}
	part := quick(t, data, wide, func(p *Plan) { p.Skip, p.Shard, p.Threads, p.Batch = 1, spec.Shard{I: 1, K: 2}, 1, 3 })
	mustCertify(t, part)
	shard := readResults(t, part.Out)
	sameJSON(t, "shard 1/2", shard.votes, []certify.Votes{all[1], all[3]})
	if shard.run.Data.Examples != 4 || shard.run.Data.Selected != 2 {
		t.Errorf("shard 1/2 is described as %+v", shard.run.Data)
	}
	other := quick(t, data, wide, func(p *Plan) { seed := uint64(6); p.FixedSeed = &seed })
	mustCertify(t, other)
	for i, v := range readResults(t, other.Out).votes {
		if slices.Equal(v.Counts, all[i].Counts) {
			t.Errorf("example %d: seeds 5 and 6 give the same votes", i)
		}
	}
}

// A run must count NaN outputs in both phases, and report them to the user.
func TestCertifyCountsNone(t *testing.T) {
	p := quick(t, writeImages(t, byteImage(0), byteImage(1)), func(p *Plan) { p.Model, p.Sigma = models+"nan.onnx", 1 })
	var s said
	o, err := Certify(t.Context(), p, s.console())
	if err != nil {
		t.Fatal(err)
	}
	want := int64(0)
	for _, v := range readResults(t, p.Out).votes {
		want += v.None0 + v.None
		if v.None0 == 0 || v.None == 0 {
			t.Errorf("example %d: %d and %d outputs are NaN: the test shows nothing", v.Index, v.None0, v.None)
		}
	}
	warning := fmt.Sprintf("%s: %d of 160 outputs are NaN", p.Model, want)
	if o.None != want || !slices.ContainsFunc(s.warnings, func(w string) bool { return strings.HasPrefix(w, warning) }) {
		t.Errorf("outcome says %d, want %d; warnings %q", o.None, want, s.warnings)
	}
}

// TestCertifyByScores saves the scores of a run and certifies the saved scores again. The certificates and the bounds
// must be the same as those of the run.
func TestCertifyByScores(t *testing.T) {
	t.Run("class by votes", func(t *testing.T) { testSavedScores(t, runfolder.Method{}, certify.ExactMargin) })
	t.Run("class by another method for votes", func(t *testing.T) {
		testSavedScores(t, runfolder.ByVotes(certify.ClopperPearson), certify.ClopperPearson)
	})
	t.Run("class by scores", func(t *testing.T) { testSavedScores(t, runfolder.ByScores(certify.Betting), "") })
}

func testSavedScores(t *testing.T, method runfolder.Method, votes certify.VoteMethod) {
	p := quick(t, writeImages(t, byteImage(0), byteImage(1), byteImage(2)), func(p *Plan) {
		p.SaveScores, p.ConfidenceRadii, p.Temperature, p.N = true, []float64{0, 0.01, 5}, 0.5, 200 // no class is certified at the radius 5
		p.Method = method
	})
	mustCertify(t, p)
	r := readResults(t, p.Out)
	e := find(t, p.Out)
	target, err := e.Target(runfolder.Given{})
	if err != nil {
		t.Fatal(err)
	}
	params := certify.ScoreParams{
		Target: target, Bound: certify.Betting, Combine: certify.Directed,
		Confidence: certify.ConfidenceParams{
			Radii: []float64{0, 0.01, 5}, Method: certify.ConfidenceTangent, Bound: certify.Betting, Band: certify.BandBinomial},
	}
	// The run saved its scores at its own temperature. The temperature 1 leaves the saved scores unchanged.
	saved := SavedScores{Evidence: e, Params: params, Temperature: 1, Votes: e.ClassMethod()}
	if saved.Votes != votes {
		t.Fatalf("the run's classes are certified by %q, want %q", saved.Votes, votes)
	}
	c, err := BoundConfidence(t.Context(), saved, quiet)
	if err != nil {
		t.Fatal(err)
	}
	var certs []certify.Certificate
	if err := CertifyScores(t.Context(), saved, quiet,
		func(cert certify.Certificate, _ []certify.ConfidenceBound) { certs = append(certs, cert) }); err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "certificates", certs, r.certs)
	classes, err := e.ClassTarget(runfolder.Given{})
	if err != nil {
		t.Fatal(err)
	}
	sets, err := Recertification{Evidence: e, Target: classes, Combine: e.Combine(nil), Temperature: 1}.Certify(t.Context(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "certificates of radius", sets[0], r.certs)
	if r.certs[0].Alpha != p.Alpha/2 {
		t.Errorf("the certificates' α is %v of %v", r.certs[0].Alpha, p.Alpha)
	}
	var b strings.Builder
	if err := e.Run.WriteBounds(&b, c.Bounds); err != nil {
		t.Fatal(err)
	}
	// Outside the run folder, the file of scores has no recorded votes. Each sample then votes for its most probable
	// class. Except for ties, these votes equal the run's votes.
	elsewhere := saved
	elsewhere.Evidence = find(t, copyFile(t, filepath.Join(p.Out, runfolder.ScoresFile)))
	if again, err := BoundConfidence(t.Context(), elsewhere, quiet); err != nil || !reflect.DeepEqual(again.Bounds, c.Bounds) {
		t.Errorf("bounds of a file from elsewhere\n%+v\nof the run\n%+v (%v)", again.Bounds, c.Bounds, err)
	}
	if own, err := os.ReadFile(filepath.Join(p.Out, runfolder.BoundsFile)); err != nil || string(own) != b.String() {
		t.Errorf("bounds from saved scores\n%s\nof the run\n%s (%v)", b.String(), own, err)
	}
	if c.Examples != 3 || c.N != 200 || len(c.Bounds) != 9 {
		t.Errorf("%+v", c)
	}
	for i, at := range c.Radii {
		var lower, upper, n float64
		for _, row := range c.Bounds {
			if row.Certified && row.Radius == p.ConfidenceRadii[i] {
				lower, upper, n = lower+row.Lower, upper+row.Upper, n+1
			}
		}
		if at.Radius != p.ConfidenceRadii[i] || float64(at.Certified) != n || at.LeftOut != 3-at.Certified {
			t.Errorf("%+v, want %v rows", at, n)
		}
		if n > 0 && (math.Abs(at.Lower-lower/n) > 1e-12 || math.Abs(at.Upper-upper/n) > 1e-12 || math.Abs(at.Width-(upper-lower)/n) > 1e-12) {
			t.Errorf("%+v, want means %v and %v", at, lower/n, upper/n)
		}
	}
}

// If the data are on no lattice, the loss from rounding must be subtracted from every radius. This must hold for
// certificates from votes, from scores and from saved scores.
func TestQuantisedRuns(t *testing.T) {
	image := make([]float64, imageSize)
	for d := range image {
		image[d] = math.Mod(float64(d)*math.Phi, 1)
	}
	data := writeImages(t, image)
	for name, change := range map[string]func(*Plan){"votes": func(*Plan) {}, "scores": func(p *Plan) { p.SaveScores = true }} {
		p := quick(t, data, func(p *Plan) { p.N = 400 }, change)
		mustCertify(t, p)
		r := readResults(t, p.Out)
		// Rounding moves each of the 48 coordinates by at most half a lattice step. The step is σ/3640.
		q, half := r.votes[0].Quantisation, math.Sqrt(imageSize)*p.Sigma/3640/2
		if q < half || q > 2.001*half || r.certs[0].Quantisation != q || !r.run.Noise.Quantised || r.certs[0].Radius == 0 {
			t.Errorf("%s: quantisation %v, want %v to %v; certificate %+v", name, q, half, 2*half, r.certs[0])
		}
		if want := (certify.Target{Sigma: p.Sigma}).Radius(r.certs[0].Margin) - q; math.Abs(r.certs[0].Radius-want) > 1e-7 {
			t.Errorf("%s: radius %v, want %v", name, r.certs[0].Radius, want)
		}
		e := find(t, p.Out)
		target, err := e.Target(runfolder.Given{})
		if err != nil {
			t.Fatal(err)
		}
		again, err := Recertification{Evidence: e, Target: target, Temperature: 1}.Certify(t.Context(), quiet)
		if err != nil {
			t.Fatal(err)
		}
		sameJSON(t, name+" again", again[0], r.certs)
	}
}

// rebuild applies the function 'change' to the records of a run, and writes a run folder with the changed records.
func rebuild(t *testing.T, r results, change func([]runfolder.Record) []runfolder.Record) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "rebuilt")
	f, err := runfolder.Create(dir, r.run)
	if err != nil {
		t.Fatal(err)
	}
	var records []runfolder.Record
	for i, v := range r.votes {
		v.Counts, v.Counts0 = slices.Clone(v.Counts), slices.Clone(v.Counts0)
		records = append(records, runfolder.Record{Votes: v, Certificate: r.certs[i]})
	}
	for _, rec := range change(records) {
		if err := f.Append(rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A resumed run must have the same results as an uninterrupted run, and must not resample finished examples.
func TestResumeEndsTheSame(t *testing.T) {
	p := quick(t, writeImages(t, byteImage(0), byteImage(1), byteImage(2)))
	whole := mustCertify(t, p)
	r := readResults(t, p.Out)
	for done := range 4 {
		q := p
		q.Resume, q.FixedSeed = true, nil // the seed comes from the folder
		q.Out = rebuild(t, r, func(records []runfolder.Record) []runfolder.Record { return records[:done] })
		o := mustCertify(t, q)
		if o.SamplesDrawn != int64(3-done)*80 {
			t.Errorf("%d of 3 are done: %d samples are drawn", done, o.SamplesDrawn)
		}
		sameJSON(t, "summary", o.Summary, whole.Summary)
		again := readResults(t, q.Out)
		sameJSON(t, "votes", again.votes, r.votes)
		sameJSON(t, "certificates", again.certs, r.certs)
	}
}

// An interrupted run must report how many examples it has finished, and how to resume it. It must keep these examples.
func TestInterruptedRunSaysHow(t *testing.T) {
	p := quick(t, writeImages(t, byteImage(0), byteImage(1), byteImage(2)))
	mustCertify(t, p)
	r := readResults(t, p.Out)
	p.Resume = true
	p.Out = rebuild(t, r, func(records []runfolder.Record) []runfolder.Record { return records[:2] })
	ctx, cancel := context.WithCancel(t.Context())
	console := new(said).console()
	console.Note = func(text param.Text) {
		if strings.HasPrefix(text.Spell(param.Plain), "resuming") {
			cancel()
		}
	}
	_, err := Certify(ctx, p, console)
	advice, _ := hint.Of(err)
	if want := fmt.Sprintf("2 of 3 examples are in %s; go on with resume", p.Out); !errors.Is(err, context.Canceled) || advice != want {
		t.Errorf("error %v, want the hint %q", err, want)
	}
	sameJSON(t, "certificates", readResults(t, p.Out).certs, r.certs[:2])
}

// A resumed run must refuse a complete record if the run would not produce the same record itself. The error must name
// the example.
func TestResumeChecksRecords(t *testing.T) {
	data := writeImages(t, byteImage(0), byteImage(1), byteImage(2))
	stop := func(p *Plan) {
		p.N = 400
		if err := p.Stop.UnmarshalText([]byte("radius>=0.05")); err != nil {
			t.Fatal(err)
		}
	}
	scores := func(p *Plan) { p.Scores, p.N = true, 200 }
	for _, tt := range []struct {
		name   string
		plan   func(*Plan)
		change func(*runfolder.Record)
		want   string // "" = accepted
	}{
		{"as it was", func(*Plan) {}, func(*runfolder.Record) {}, ""},
		{"as it was, stopped", stop, func(*runfolder.Record) {}, ""},
		{"as it was, by scores", scores, func(*runfolder.Record) {}, ""},
		{"label", func(*Plan) {}, func(r *runfolder.Record) { r.Votes.Label, r.Certificate.Label = 3, 3 }, "label is 3, that of the data 1"},
		{"votes", func(*Plan) {}, func(r *runfolder.Record) {
			v := r.Votes.Counts
			slices.Sort(v)
			slices.Reverse(v)
			v[0], v[1], v[2], v[3] = 15, 15, 15, 15
		}, "its certificate is not what its votes certify"},
		{"radius", func(*Plan) {}, func(r *runfolder.Record) { r.Certificate.Radius += 0.001 }, "its certificate is not what its votes certify"},
		{"bounds", func(*Plan) {}, func(r *runfolder.Record) { r.Certificate.Bounds = map[string]float64{"p_a": 0.5} }, "its certificate is not what its votes certify"},
		{"share", stop, func(r *runfolder.Record) { r.Votes.AlphaShare *= 0.999 }, "alpha_share is"},
		{"method", scores, func(r *runfolder.Record) { r.Certificate.Method = "hoeffding+directed" }, "its method is hoeffding+directed"},
		{"radius by scores", scores, func(r *runfolder.Record) { r.Certificate.Radius = r.Certificate.Radius*1.001 + 0.001 }, "does not follow from its margin"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := quick(t, data, tt.plan)
			mustCertify(t, p)
			r := readResults(t, p.Out)
			p.Resume = true
			p.Out = rebuild(t, r, func(records []runfolder.Record) []runfolder.Record {
				tt.change(&records[1])
				return records
			})
			_, err := Certify(t.Context(), p, new(said).console())
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), "example 1: ") || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want one of example 1 with %q", err, tt.want)
			}
			advice, _ := hint.Of(err)
			var bad spec.InputError
			if tt.want != "" && (!errors.As(err, &bad) || !strings.Contains(advice, "line 2 of")) {
				t.Errorf("error %v with hint %q, want an spec.InputError with line 2 in its hint", err, advice)
			}
		})
	}
}

// With --stop, at least one example must stop before it has n samples. Each certificate must count the samples of its
// own example, and the last checkpoint must be n.
func TestStoppedVotes(t *testing.T) {
	p := quick(t, writeImages(t, byteImage(0), byteImage(1), byteImage(2)), func(p *Plan) {
		p.N = 2000
		if err := p.Stop.UnmarshalText([]byte("radius>=0.02")); err != nil {
			t.Fatal(err)
		}
	})
	o := mustCertify(t, p)
	r := readResults(t, p.Out)
	var drawn int64
	stopped := false
	for i, v := range r.votes {
		drawn += v.N0 + v.N
		stopped = stopped || v.N < p.N
		if v.Stop != p.Stop || !(v.AlphaShare > 0) || r.certs[i].N != v.N {
			t.Errorf("%+v", v)
		}
	}
	if drawn != o.SamplesDrawn || !stopped {
		t.Errorf("%d samples are drawn, %d recorded; stopped early: %v", o.SamplesDrawn, drawn, stopped)
	}
	c, err := r.run.Certifiers()
	if err != nil {
		t.Fatal(err)
	}
	if at := c.Stopping.Checkpoints(); at[len(at)-1].N != p.N {
		t.Errorf("the last checkpoint of n = %d is %d", p.N, at[len(at)-1].N)
	}
}

// Certify must report errors in a plan before it opens any file.
func TestPlansThatAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Plan){
		"model is missing":                      func(p *Plan) { p.Model = "" },
		"data is missing":                       func(p *Plan) { p.Data = "" },
		"out is missing":                        func(p *Plan) { p.Out = "" },
		"temperature 0: ":                       func(p *Plan) { p.Scores, p.Temperature = true, 0 },
		"temperature +Inf: ":                    func(p *Plan) { p.Scores, p.Temperature = true, math.Inf(1) },
		"sigma 0: ":                             func(p *Plan) { p.Sigma = 0 },
		"sigma NaN: ":                           func(p *Plan) { p.Sigma = math.NaN() },
		"n 0: ":                                 func(p *Plan) { p.N = 0 },
		"n0 0: the predicted class":             func(p *Plan) { p.N0 = 0 },
		"n0 -1: ":                               func(p *Plan) { p.N0, p.Class = -1, certify.Label },
		"n 2147483648, ":                        func(p *Plan) { p.N = 1 << 31 },
		"n 60, n0 2147483648":                   func(p *Plan) { p.N0 = 1 << 31 },
		"skip 0: ":                              func(p *Plan) { p.Skip = 0 },
		"max -1: ":                              func(p *Plan) { p.Max = -1 },
		"batch -1: ":                            func(p *Plan) { p.Batch = -1 },
		"threads -1: ":                          func(p *Plan) { p.Threads = -1 },
		"threads 1025: ":                        func(p *Plan) { p.Threads = 1025 },
		"method bonferroni is for votes":        func(p *Plan) { p.Scores, p.Method = true, runfolder.ByVotes(certify.Bonferroni) },
		"method hoeffding is for scores":        func(p *Plan) { p.Method = runfolder.ByScores(certify.Hoeffding) },
		"stop radius>=1: only votes":            func(p *Plan) { p.Scores = true; _ = p.Stop.UnmarshalText([]byte("radius>=1")) },
		"alpha 2 is outside":                    func(p *Plan) { p.Alpha = 2 },
		"shard 3/4: has none of the 3 examples": func(p *Plan) { p.Shard = spec.Shard{I: 3, K: 4} },
		"mean has 2 values; the model's input has 3":    func(p *Plan) { p.Mean = []float64{0.5, 0.5} },
		"std [0]: want numbers":                         func(p *Plan) { p.Std = []float64{0} },
		"std [-1 1 1]: want numbers":                    func(p *Plan) { p.Std, p.Noise = []float64{-1, 1, 1}, spec.Float },
		"no-such.onnx":                                  func(p *Plan) { p.Model = "no-such.onnx" },
		"no-such.csv":                                   func(p *Plan) { p.Data = "no-such.csv" },
		"no-such-library":                               func(p *Plan) { p.Library = "no-such-library.so" },
		"beyond float32":                                func(p *Plan) { p.Sigma, p.Std, p.Noise = 1e20, []float64{1e-20}, spec.Float },
		"softmax.onnx returns probabilities; a tempera": func(p *Plan) { p.Model, p.Scores, p.Temperature = models+"softmax.onnx", true, 2 },
	} {
		t.Run(want, func(t *testing.T) {
			p := quick(t, writeImages(t, byteImage(0), byteImage(1), byteImage(2)), change)
			_, err := Certify(t.Context(), p, new(said).console())
			var bad spec.InputError
			if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &bad) {
				t.Errorf("error %v, want an spec.InputError with %q", err, want)
			}
			if _, err := os.Stat(p.Out); p.Out != "" && err == nil {
				t.Error("a refused run has begun a folder")
			}
		})
	}
}

// Settle must fill in the method. It must also reset the parameters that have no effect.
func TestSettle(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Plan)
		want   func(*Plan)
		idle   []string
	}{
		{"votes", func(*Plan) {}, func(p *Plan) {
			p.Method = runfolder.ByVotes(certify.ExactMargin)
			p.Combine, p.Temperature, p.Confidence, p.ConfidenceBound, p.Band = "", 0, "", "", ""
		}, []string{"combine", "temperature", "confidence", "confidence-bound", "band"}},
		{"scores", func(p *Plan) { p.Scores = true }, func(p *Plan) {
			p.Method = runfolder.ByScores(certify.Betting)
			p.Confidence, p.ConfidenceBound, p.Band = "", "", ""
		}, []string{"confidence", "confidence-bound", "band"}},
		{"saved scores", func(p *Plan) { p.SaveScores, p.Method = true, runfolder.ByScores(certify.Hoeffding) }, func(p *Plan) {
			p.Scores = true
			p.Confidence, p.ConfidenceBound, p.Band = "", "", ""
		}, []string{"confidence", "confidence-bound", "band"}},
		{"confidence", func(p *Plan) { p.ConfidenceRadii = []float64{1} }, func(p *Plan) {
			p.Scores, p.Method, p.Combine = true, runfolder.ByVotes(certify.ExactMargin), ""
		}, []string{"combine"}},
		{"confidence, saved", func(p *Plan) { p.ConfidenceRadii, p.SaveScores = []float64{1}, true }, func(p *Plan) {
			p.Scores, p.Method, p.Combine = true, runfolder.ByVotes(certify.ExactMargin), ""
		}, []string{"combine"}},
		{"confidence, scores", func(p *Plan) { p.ConfidenceRadii, p.Scores = []float64{1}, true }, func(p *Plan) {
			p.Method = runfolder.ByScores(certify.Betting)
		}, nil},
		{"confidence, a method for scores", func(p *Plan) {
			p.ConfidenceRadii, p.Method = []float64{1}, runfolder.ByScores(certify.Hoeffding)
		}, func(p *Plan) { p.Scores = true }, nil},
	} {
		p := quick(t, "d.csv", tt.change)
		want := p
		tt.want(&want)
		want.KeepOutputs = want.Scores
		var idle []string
		for _, i := range p.Settle() {
			idle = append(idle, i.Flag)
			without := "confidence-radii"
			switch i.Flag {
			case "combine", "temperature":
				without = "scores"
			case "average":
				without = "model given twice"
			case "denoiser-kind", "denoiser-range", "diffusion-schedule":
				without = "denoiser"
			}
			if i.Without != without {
				t.Errorf("%s: --%s is said to need --%s", tt.name, i.Flag, i.Without)
			}
		}
		tt.idle = append(tt.idle, "average", "denoiser-kind", "denoiser-range", "diffusion-schedule") // no plan has an ensemble or a denoiser
		if !reflect.DeepEqual(p, want) || !slices.Equal(idle, tt.idle) {
			t.Errorf("%s: %+v, idle %q; want %+v, %q", tt.name, p.Parameters(), idle, want.Parameters(), tt.idle)
		}
	}
}

// A resumed run must keep its seed and its choice of examples. A run that uses scores must also keep its batch size,
// and must make the noise on the same side (host or device). Settings of the plan must win over the recorded settings.
// If run.json is unreadable and the plan has no seed, keepResumed must return an error.
func TestKeepResumed(t *testing.T) {
	p := quick(t, writeImages(t, byteImage(0), byteImage(1), byteImage(2)), func(p *Plan) {
		p.Scores, p.Batch, p.Max, p.NoiseOn = true, 7, 2, spec.NoiseOnDevice
	})
	spread := spec.Spread
	p.FixedSelect = &spread
	mustCertify(t, p)
	p.Settle()
	p.FixedSeed, p.FixedSelect, p.Resume, p.Batch, p.NoiseOn = nil, nil, true, 0, spec.NoiseOnAuto
	scores, votes, all, fixed := p, p, p, p
	if err := scores.keepResumed(); err != nil || *scores.FixedSeed != 5 || *scores.FixedSelect != spec.Spread || scores.Batch != 7 ||
		scores.NoiseOn != spec.NoiseOnDevice {
		t.Errorf("scores: %+v, %v", scores.Spec, err)
	}
	votes.Scores = false
	if err := votes.keepResumed(); err != nil || *votes.FixedSeed != 5 || votes.Batch != 0 || votes.NoiseOn != spec.NoiseOnAuto {
		t.Errorf("votes: %+v, %v", votes.Spec, err)
	}
	all.Max = 0
	if err := all.keepResumed(); err != nil || all.FixedSelect != nil {
		t.Errorf("all examples: %+v, %v", all.Spec, err)
	}
	seed := uint64(8)
	fixed.FixedSeed, fixed.Batch, fixed.NoiseOn = &seed, 3, spec.NoiseOnHost
	if err := fixed.keepResumed(); err != nil || *fixed.FixedSeed != 8 || fixed.Batch != 3 || fixed.NoiseOn != spec.NoiseOnHost {
		t.Errorf("given: %+v, %v", fixed.Spec, err)
	}
	p.Out = t.TempDir()
	if err := p.keepResumed(); err != nil || p.FixedSeed != nil {
		t.Errorf("a new run: %v", err)
	}
	if err := os.WriteFile(filepath.Join(p.Out, runfolder.RunFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.keepResumed(); err == nil {
		t.Error("a damaged run.json is passed over")
	}
}

// In a file without selection samples, the first n0 samples must serve for selection, and the other samples for
// estimation. At the temperature T, every probability p must become p^(1/T), up to a factor that makes the sum 1.
func TestSavedScoresAreSplit(t *testing.T) {
	const n, n0, temperature = 5000, 4200, 2.5 // more samples than a single read returns
	p := quick(t, writeImages(t, byteImage(0), byteImage(1), byteImage(2)), func(p *Plan) {
		p.SaveScores, p.N, p.N0, p.Class, p.Temperature = true, n, 0, certify.Label, 0.5
	})
	mustCertify(t, p)
	e := find(t, p.Out)
	target, err := e.Target(runfolder.Given{})
	if err != nil {
		t.Fatal(err)
	}
	target.Class = certify.Predicted
	params := certify.ScoreParams{Target: target, Bound: certify.Hoeffding, Combine: certify.Directed}
	var got []certify.Certificate
	take := func(c certify.Certificate, _ []certify.ConfidenceBound) { got = append(got, c) }
	if err := CertifyScores(t.Context(), SavedScores{Evidence: e, Params: params, N0: n0, Temperature: temperature}, quiet, take); err != nil {
		t.Fatal(err)
	}
	certifier, err := certify.NewScoreCertifier(params)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := e.Scores()
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	for i := range 3 {
		index, label, err := saved.Next()
		if err != nil {
			t.Fatal(err)
		}
		var probs []float32
		if err := saved.Estimation(func(p []float32) error { probs = append(probs, p...); return nil }); err != nil {
			t.Fatal(err)
		}
		for row := probs; len(row) > 0; row = row[4:] {
			var total float64
			for k := range 4 {
				total += math.Pow(float64(row[k]), 1/temperature)
			}
			for k := range 4 {
				row[k] = float32(math.Pow(float64(row[k]), 1/temperature) / total)
			}
		}
		a, err := certifier.Start(certify.ScoreExample{Index: index, Label: label, Classes: 4, N0: n0, N: n - n0})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(a.Selection(probs[:4*n0]), a.Estimation(probs[4*n0:])); err != nil {
			t.Fatal(err)
		}
		want, err := a.Certificate()
		if err != nil {
			t.Fatal(err)
		}
		// The saved probabilities are rounded to float32, so the certificates differ in the last bits.
		if c := got[i]; c.Index != index || c.N != n-n0 || c.Prediction != want.Prediction || math.Abs(c.Margin-want.Margin) > 1e-5 {
			t.Errorf("%+v\nwant %+v", c, want)
		}
	}
	for want, q := range map[string]SavedScores{
		"n0 5000: want a part":   {e, params, n, 1, 0, ""},
		"n0 -1: want a part":     {e, params, -1, 1, 0, ""},
		"temperature 0: ":        {e, params, n0, 0, 0, ""},
		`temperature \+Inf: `:    {e, params, n0, math.Inf(1), 0, ""},
		"no array scores0":       {e, params, 0, 1, 0, ""},
		"alpha 0 is outside":     {e, certify.ScoreParams{Target: certify.Target{Sigma: 1}}, n0, 1, 0, ""},
		"n0 5: .* selection sam": {find(t, selected(t)), params, 5, 1, 0, ""},
	} {
		err := CertifyScores(t.Context(), q, quiet, take)
		var bad spec.InputError
		if err == nil || !regexp.MustCompile(want).MatchString(err.Error()) || !errors.As(err, &bad) {
			t.Errorf("error %v, want an spec.InputError with %q", err, want)
		}
	}
}

// selected creates a run that saves selection samples.
func selected(t *testing.T) string {
	p := quick(t, writeImages(t, byteImage(0)), func(p *Plan) { p.SaveScores, p.N = true, 20 })
	mustCertify(t, p)
	return p.Out
}

// Recertification must use the method of the run unless the user gives other methods. It must keep the order of the
// given methods.
func TestRecertification(t *testing.T) {
	data := writeImages(t, byteImage(0), byteImage(1), byteImage(2))
	votes := quick(t, data, func(p *Plan) { p.Method = runfolder.ByVotes(certify.Bonferroni) })
	kept := quick(t, data, func(p *Plan) { p.SaveScores, p.Method = true, runfolder.ByScores(certify.Hoeffding) })
	gone := quick(t, data, func(p *Plan) { p.Scores, p.Method = true, runfolder.ByScores(certify.Hoeffding) })
	elsewhere := filepath.Join(t.TempDir(), "kept.npz")
	for _, p := range []Plan{votes, kept, gone} {
		mustCertify(t, p)
	}
	npz, err := os.ReadFile(filepath.Join(kept.Out, runfolder.ScoresFile))
	if err == nil {
		err = os.WriteFile(elsewhere, npz, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	sigma := 0.1
	again := func(path string, methods ...runfolder.Method) (names []string, sets [][]certify.Certificate) {
		t.Helper()
		e := find(t, path)
		given := runfolder.Given{}
		if e.Run == nil {
			given.Sigma = &sigma
		}
		target, err := e.Target(given)
		if err != nil {
			t.Fatal(err)
		}
		sets, err = Recertification{Evidence: e, Target: target, Methods: methods, Temperature: 1}.Certify(t.Context(), quiet)
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range sets {
			if len(set) != 3 || set[0].Index != 0 || set[1].Index != 1 || set[2].Index != 2 {
				t.Fatalf("certificates %+v", set)
			}
			names = append(names, set[2].Method)
		}
		return names, sets
	}
	for _, tt := range []struct {
		path    string
		methods []runfolder.Method
		want    []string
	}{
		{votes.Out, nil, []string{"bonferroni"}},
		{filepath.Join(votes.Out, runfolder.VotesFile), nil, []string{"bonferroni"}},
		{kept.Out, nil, []string{"hoeffding+directed"}},
		{gone.Out, nil, []string{"margin"}}, // the run has only votes
		{elsewhere, nil, []string{"betting+directed"}},
		{kept.Out, []runfolder.Method{runfolder.ByVotes(certify.ClopperPearson), runfolder.ByScores(certify.Bernstein), runfolder.ByVotes(certify.ExactMargin)},
			[]string{"clopper-pearson", "bernstein+directed", "margin"}},
	} {
		if got, _ := again(tt.path, tt.methods...); !slices.Equal(got, tt.want) {
			t.Errorf("%s by %v: methods %q, want %q", tt.path, tt.methods, got, tt.want)
		}
	}
	for _, p := range []Plan{votes, kept} {
		_, sets := again(p.Out)
		sameJSON(t, "certificates again", sets[0], readResults(t, p.Out).certs)
	}
	labels := filepath.Join(t.TempDir(), "votes.jsonl")
	if err := os.WriteFile(labels, []byte(`{"index":0,"label":1,"n":3,"counts":[2,1]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = Recertification{Evidence: find(t, labels), Target: certify.Target{Alpha: 0.1, Sigma: 1, Class: certify.Predicted}}.Certify(t.Context(), quiet)
	advice, _ := hint.Of(err)
	if !errors.Is(err, certify.ErrNoSelection) || !strings.Contains(advice, "class label") {
		t.Errorf("votes without selection: error %v", err)
	}
}

// copyFile copies a file to a new folder.
func copyFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return to
}
