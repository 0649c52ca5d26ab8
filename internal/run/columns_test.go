package run

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/predict"
	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// mixed is a linear classifier of a table in mixed units: class 0 wins where Σ weight·x + bias > 0. The column "plan"
// is a category whose scale is 0, so it must get no noise. The weight of this column is so large that any noise on the
// column would decide the class.
var mixed = struct {
	names          []string
	weight, scales []float64
	bias           float64
}{[]string{"age", "income", "plan", "rate"}, []float64{.05, -3e-4, 1000, 8}, []float64{4, 900, 0, .03}, -.5}

// mixedDistance returns the exact radius of the smoothed classifier at x under Gaussian noise, in units of the scales.
// The result is negative where class 1 wins.
func mixedDistance(x []float64) float64 {
	sum, norm := mixed.bias, 0.
	for d, v := range x {
		sum += mixed.weight[d] * v
		norm += mixed.weight[d] * mixed.scales[d] * mixed.weight[d] * mixed.scales[d]
	}
	return sum / math.Sqrt(norm)
}

// writeMixed writes the model of the classifier 'mixed' to a file, and returns the file's path.
func writeMixed(t *testing.T) string {
	t.Helper()
	weights := &onnxpb.TensorProto{Name: proto.String("w"), Dims: []int64{int64(len(mixed.weight)), 2}, DataType: proto.Int32(1)}
	for _, w := range mixed.weight {
		weights.FloatData = append(weights.FloatData, float32(w), 0)
	}
	bias := &onnxpb.TensorProto{Name: proto.String("b"), Dims: []int64{2}, DataType: proto.Int32(1), FloatData: []float32{float32(mixed.bias), 0}}
	model := &onnxpb.ModelProto{
		IrVersion: proto.Int64(8), OpsetImport: []*onnxpb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(13)}},
		Graph: &onnxpb.GraphProto{
			Name: proto.String("mixed"), Initializer: []*onnxpb.TensorProto{weights, bias},
			Node:   []*onnxpb.NodeProto{graph.Node("Gemm", []string{"x", "w", "b"}, "y")},
			Input:  []*onnxpb.ValueInfoProto{graph.FloatTensor("x", []int64{-1, int64(len(mixed.weight))})},
			Output: []*onnxpb.ValueInfoProto{graph.FloatTensor("y", []int64{-1, 2})},
		},
	}
	data, err := proto.Marshal(model)
	if err != nil {
		t.Fatal(err)
	}
	return writeText(t, "mixed.onnx", string(data))
}

func writeText(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// mixedRows returns random rows. The value in the column "plan" is always 0.
func mixedRows(n int) (rows [][]float64) {
	r := rand.New(rand.NewPCG(8, 0))
	for range n {
		rows = append(rows, []float64{20 + 50*r.Float64(), 1000 + 12000*r.Float64(), 0, .01 + .3*r.Float64()})
	}
	return rows
}

func writeMixedTable(t *testing.T, rows [][]float64) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("label," + strings.Join(mixed.names, ",") + "\n")
	for _, x := range rows {
		label := 1
		if mixedDistance(x) > 0 {
			label = 0
		}
		fmt.Fprintf(&b, "%d,%v,%v,%v,%v\n", label, x[0], x[1], x[2], x[3])
	}
	return writeText(t, "table.csv", b.String())
}

const mixedScales = "column,sigma\nage,4\nincome,900\nplan,0\nrate,0.03\n"

func mixedPlan(t *testing.T, changes ...func(*Plan)) Plan {
	t.Helper()
	p := quick(t, writeMixedTable(t, mixedRows(20)), func(p *Plan) {
		p.Model, p.N, p.N0, p.Alpha, p.Sigma = writeMixed(t), 1000, 50, .001, 0
		p.Scales.File = writeText(t, "sigma.csv", mixedScales)
	})
	for _, change := range changes {
		change(&p)
	}
	return p
}

// Under Gaussian noise, the certified radii of a linear classifier must not exceed the exact radii, in units of the
// scales. At least 10 of the 20 certified radii must exceed 80 % of the exact radius. If the exact radius is above 2.3,
// the certified radius need only exceed 80 % of 2.3.
func TestColumnsRun(t *testing.T) {
	for _, l := range []law.Law{law.Gaussian, law.Laplace, law.Uniform} {
		p := mixedPlan(t, func(p *Plan) { p.Law = law.Of(l) })
		o := mustCertify(t, p)
		if !o.Scaled || o.Sigma != 1 {
			t.Errorf("%s: outcome %+v", l.Name(), o.Summary)
		}
		e, err := runfolder.Find(p.Out)
		if err != nil {
			t.Fatal(err)
		}
		run := e.Run
		names, scales := []string{}, []float64{}
		for _, c := range run.Parameters.SigmaColumns {
			names, scales = append(names, c.Name), append(scales, c.Sigma)
		}
		if !slices.Equal(names, mixed.names) || !slices.Equal(scales, mixed.scales) || run.Parameters.Sigma != 1 || len(run.Noise.Columns) != 4 || run.Noise.Columns[2] != (runfolder.NoiseColumn{}) {
			t.Errorf("%s: run.json has the columns %v and the noise %+v", l.Name(), run.Parameters.SigmaColumns, run.Noise)
		}
		rows, near := mixedRows(20), 0
		h, err := runfolder.Audit(p.Out)
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range h.Records {
			c, exact := rec.Certificate, math.Abs(mixedDistance(rows[rec.Votes.Index]))
			if !c.Scaled || !rec.Votes.Scaled {
				t.Fatalf("%s: the record of example %d is not marked: %+v", l.Name(), c.Index, c)
			}
			if l == law.Gaussian && c.Radius > exact {
				t.Errorf("example %d: radius %v, exactly %v", c.Index, c.Radius, exact)
			}
			if c.Radius > .8*min(exact, 2.3) {
				near++
			}
			if c.Correct != (c.Prediction == c.Label) || c.Prediction >= 0 && !c.Correct && exact > .5 {
				t.Errorf("%s: example %d: %+v, exactly %v", l.Name(), c.Index, c, exact)
			}
		}
		if l == law.Gaussian && near < 10 {
			t.Errorf("only %d of 20 radii are near the exact ones", near)
		}
		v, err := Verify(t.Context(), p.Out, &Again{Model: p.Model, Data: p.Data, Examples: 3, Threads: 2, Version: "test"}, nil, param.Plain, new(said).console())
		if err != nil || !v.Valid || !v.Scaled {
			t.Errorf("%s: verdict %+v, %v", l.Name(), v, err)
		}
	}
}

// The random words of the noise have finite length, so the level of a run is reduced. Columns without noise must not
// add to this reduction.
func TestColumnsLevel(t *testing.T) {
	p := mixedPlan(t, func(p *Plan) { p.N, p.Max = 100, 1 })
	mustCertify(t, p)
	run, err := runfolder.Read(p.Out)
	if err != nil {
		t.Fatal(err)
	}
	const huge = 1 << 40
	run.Parameters.N, run.Parameters.N0 = huge, 0
	want := .001 * math.Exp(-huge*3*run.Noise.Eta) // three of four columns have noise
	if got := run.Target(.001).Level; got > want || got < want*(1-1e-9) || !(run.Noise.Eta > 0) {
		t.Errorf("level %v, want %v", got, want)
	}
}

// A run records the scales of its columns. A run must not resume with other scales. Predict must refuse inputs whose
// columns have other names than the run's columns. Every certificate must say that its radius is in units of the
// scales.
func TestColumnsOfARun(t *testing.T) {
	p := mixedPlan(t, func(p *Plan) { p.Max, p.N = 4, 100 })
	mustCertify(t, p)
	before, err := os.ReadFile(filepath.Join(p.Out, runfolder.CertificatesFile))
	if err != nil {
		t.Fatal(err)
	}
	again := p
	again.Resume, again.Max = true, 4
	mustCertify(t, again)
	if after, _ := os.ReadFile(filepath.Join(p.Out, runfolder.CertificatesFile)); string(after) != string(before) {
		t.Error("resuming changed the certificates")
	}
	again.Scales.File = writeText(t, "other.json", `{"age": 4, "income": 901, "plan": 0, "rate": 0.03}`)
	if _, err := Certify(t.Context(), again, new(said).console()); err == nil || !strings.Contains(err.Error(), "sigma-columns") {
		t.Errorf("other scales resume the run: %v", err)
	}

	answered, err := Predict(t.Context(), PredictPlan{
		Spec: spec.Spec{Data: p.Data, Threads: 2, Conditions: spec.Conditions{Skip: 1, Max: 4, Shard: spec.Whole}},
		Run:  p.Out, Rule: predict.BySequence, Alpha: .001, Budget: 2000, Certify: &runfolder.Certification{},
	}, new(said).console())
	if err != nil || !answered.Scaled || answered.Answered == 0 || !strings.Contains(answered.Statement, "units of each column") {
		t.Fatalf("answers %+v, %v", answered, err)
	}
	for _, a := range answered.Answers {
		if a.Certificate == nil || !a.Certificate.Scaled {
			t.Errorf("answer %+v", a)
		}
	}
	renamed, _ := os.ReadFile(p.Data)
	other := writeText(t, "renamed.csv", strings.Replace(string(renamed), "income", "salary", 1))
	_, err = Predict(t.Context(), PredictPlan{
		Spec: spec.Spec{Data: other, Threads: 2, Conditions: spec.Conditions{Skip: 1, Max: 4, Shard: spec.Whole}},
		Run:  p.Out, Rule: predict.BySequence, Alpha: .001, Budget: 2000,
	}, new(said).console())
	if err == nil || !strings.Contains(err.Error(), "salary") {
		t.Errorf("other columns: %v", err)
	}

	run := mustFind(t, p.Out)
	target, err := run.ClassTarget(runfolder.Given{})
	if err != nil || !target.Scaled {
		t.Fatalf("target %+v, %v", target, err)
	}
	sets, err := Recertification{Evidence: run, Target: target, Methods: []runfolder.Method{runfolder.ByVotes(certify.ClopperPearson)}}.Certify(t.Context(), quiet)
	if err != nil || len(sets[0]) != 4 || !sets[0][0].Scaled {
		t.Errorf("certified again: %+v, %v", sets, err)
	}
	src, err := summary.Read(t.Context(), p.Out)
	if err != nil {
		t.Fatal(err)
	}
	options := summary.Default()
	options.AxesRadius = 1.5
	s, err := summary.New(src, options)
	if err != nil || s.Columns == nil || len(s.Columns.SemiAxes) != 3 || s.Columns.SemiAxes[1].Length > 1350 || s.Columns.SemiAxes[1].Length < 1349.9999 || !slices.Equal(s.Columns.Frozen, []string{"plan"}) {
		t.Errorf("summary %+v, %v", s.Columns, err)
	}
	options.Norms = []law.Norm{law.L2}
	if _, err := summary.New(src, options); err == nil {
		t.Error("scaled radii became radii in L2")
	}
}

func mustFind(t *testing.T, path string) *runfolder.Evidence {
	t.Helper()
	e, err := runfolder.Find(path)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Commands that do not support runs with a scale for each column must say so.
func TestColumnsRefused(t *testing.T) {
	p := mixedPlan(t, func(p *Plan) { p.Max, p.N = 1, 100 })
	mustCertify(t, p)
	if _, err := OpenAnswerer(t.Context(), PredictPlan{Run: p.Out, Rule: predict.BySequence, Alpha: .001, Budget: 100}, new(said).console()); err == nil || !strings.Contains(err.Error(), "σ for each column") {
		t.Errorf("serve: %v", err)
	}
	if _, err := Audit(t.Context(), auditPlan(p), new(said).console()); err == nil || !strings.Contains(err.Error(), "σ for each column") {
		t.Errorf("audit: %v", err)
	}
	if _, _, err := AttackedRun(p.Out, []string{""}, ""); err == nil || !strings.Contains(err.Error(), "σ for each column") {
		t.Errorf("attack: %v", err)
	}
	for name, change := range map[string]func(*Plan){
		"confidence-radii": func(p *Plan) { p.ConfidenceRadii = []float64{.5} },
		"save-scores":      func(p *Plan) { p.Scores, p.SaveScores, p.Method = true, true, runfolder.ByScores(certify.Betting) },
		"norms":            func(p *Plan) { p.Norms = []law.Norm{law.LInf} },
		"noise float":      func(p *Plan) { p.Noise = spec.Float },
		"sigma":            func(p *Plan) { p.Sigma = .5 },
		"lipschitz":        func(p *Plan) { p.Margin, p.Lipschitz = certify.FirstMargin, 1 },
		"noise-on":         func(p *Plan) { p.NoiseOn = spec.NoiseOnDevice },
		"two sources":      func(p *Plan) { p.Scales.Channels = []float64{1} },
		"channels":         func(p *Plan) { p.Scales = spec.Scales{Channels: []float64{1}} },
		"no data of std":   func(p *Plan) { p.Scales, p.Sigma = spec.Scales{Kind: spec.StandardDeviation}, .5 },
		"noisy, not std":   func(p *Plan) { p.Scales.Noisy = []string{"plan"} },
	} {
		wrong := mixedPlan(t, func(p *Plan) { p.Max, p.N = 1, 100 }, change)
		if _, err := Certify(t.Context(), wrong, new(said).console()); err == nil {
			t.Errorf("%s was accepted", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
	for text, want := range map[string]string{
		"age,4\nincome,900\nrate,0.03\n":                           "does not name plan",
		mixedScales + "weight,1\n":                                 `no column "weight"`,
		mixedScales + "age,1\n":                                    "twice",
		"age,-4\nincome,900\nplan,0\nrate,0.03\n":                  "from 0",
		"age,0\nincome,0\nplan,0\nrate,0\n":                        "no column has noise",
		"age,4\nincome,x\nplan,0\nrate,0.03\n":                     "not a number",
		`{"age":4,"income":900,"plan":0,"rate":0.03,"age":5}`:      "twice",
		`{"age":4,"income":900,"plan":null,"rate":0.03}`:           "not a number",
		`{"age":4,"income":900,"plan":0,"rate":1e-9}`:              "rate",
		`{"age":4,"income":900,"plan":0,"rate":0.03} {"age": 400}`: "after the JSON",
	} {
		wrong := mixedPlan(t, func(p *Plan) { p.Scales.File = writeText(t, "sigma", text) })
		if _, err := Certify(t.Context(), wrong, new(said).console()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// One σ for columns in mixed units must be an error. The error must name the columns and the remedy.
func TestOneSigmaForMixedUnits(t *testing.T) {
	p := mixedPlan(t, func(p *Plan) { p.Scales, p.Sigma = spec.Scales{}, .05 })
	_, err := Certify(t.Context(), p, new(said).console())
	if err == nil || !strings.Contains(err.Error(), "reach so far: income") || strings.Contains(err.Error(), "age") {
		t.Errorf("error %v", err)
	}
}

// The scale of the noise on a column must be σ times the standard deviation of the column in the training data.
// Constant columns and one-hot groups get no noise. A column of whole numbers gets noise only if Noisy lists it. A note
// must name the columns without noise.
func TestColumnsByStandardDeviation(t *testing.T) {
	names := []string{"a", "count", "red", "green", "same", "b"}
	saved := mixed
	defer func() { mixed = saved }()
	mixed.names, mixed.weight, mixed.scales = names, []float64{1, 0, 0, 0, 0, 1}, make([]float64, 6)
	r := rand.New(rand.NewPCG(3, 0))
	table := func(rows int) (string, [][]float64) {
		var b strings.Builder
		var all [][]float64
		b.WriteString("label," + strings.Join(names, ",") + "\n")
		for i := range rows {
			red := float64(i % 2)
			x := []float64{r.NormFloat64() * 40, float64(r.IntN(9)), red, 1 - red, 7.5, r.NormFloat64()}
			all = append(all, x)
			fmt.Fprintf(&b, "%d", i%2)
			for _, v := range x {
				fmt.Fprintf(&b, ",%v", float32(v))
			}
			b.WriteByte('\n')
		}
		return writeText(t, "t.csv", b.String()), all
	}
	train, rows := table(50)
	test, _ := table(4)
	deviation := func(d int) float64 {
		mean, sum := 0., 0.
		for _, x := range rows {
			mean += float64(float32(x[d])) / float64(len(rows))
		}
		for _, x := range rows {
			sum += (float64(float32(x[d])) - mean) * (float64(float32(x[d])) - mean)
		}
		return math.Sqrt(sum / float64(len(rows)))
	}
	model := writeMixed(t)
	for noisy, count := range map[string]bool{"": false, "count": true} {
		p := quick(t, test, func(p *Plan) {
			p.Model, p.Sigma = model, .5
			p.Scales = spec.Scales{Kind: spec.StandardDeviation, Data: train}
			if noisy != "" {
				p.Scales.Noisy = []string{noisy}
			}
		})
		said := new(said)
		if _, err := Certify(t.Context(), p, said.console()); err != nil {
			t.Fatal(err)
		}
		run, err := runfolder.Read(p.Out)
		if err != nil {
			t.Fatal(err)
		}
		for d, c := range run.Parameters.SigmaColumns {
			want := 0.
			if d == 0 || d == 5 || d == 1 && count {
				want = .5 * deviation(d)
			}
			if math.Abs(c.Sigma-want) > 1e-9*want {
				t.Errorf("σ of %s is %v, want %v", c.Name, c.Sigma, want)
			}
		}
		if s := run.Data.Scale; s == nil || s.SHA256 == "" || s.Sigma != .5 || s.Kind != "std" {
			t.Errorf("scale %+v", s)
		}
		notes := strings.Join(said.notes, "\n")
		wants := []string{"constant in the scale data: same", "sum to 1: red + green"}
		if !count {
			wants = append(wants, "whole numbers in the scale data: count")
		}
		for _, want := range wants {
			if !strings.Contains(notes, want) {
				t.Errorf("notes\n%s\nlack %q", notes, want)
			}
		}
	}
	wrong := quick(t, test, func(p *Plan) {
		p.Model, p.Sigma = model, .5
		p.Scales = spec.Scales{Kind: spec.StandardDeviation, Data: train, Noisy: []string{"same"}}
	})
	if _, err := Certify(t.Context(), wrong, new(said).console()); err == nil || !strings.Contains(err.Error(), "constant") {
		t.Errorf("a constant column got noise: %v", err)
	}
}

// With a scale for each channel, the data must stay on their own lattice: no input is rounded. With one channel, the
// noise and the votes must equal the noise and the votes of a run with one σ, bit for bit. The radius with one σ must
// be σ times the radius with a scale for each channel.
func TestChannelsAreThePlainNoise(t *testing.T) {
	plain := goldenPlan(func(p *Plan) { p.Sigma, p.Out = .25, filepath.Join(t.TempDir(), "plain") })
	scaled := plain
	scaled.Out, scaled.Sigma, scaled.Scales.Channels = filepath.Join(t.TempDir(), "scaled"), 0, []float64{.25}
	mustCertify(t, plain)
	mustCertify(t, scaled)
	a, err := runfolder.Audit(plain.Out)
	b, err2 := runfolder.Audit(scaled.Out)
	if err != nil || err2 != nil || len(a.Records) != 4 || len(b.Records) != 4 {
		t.Fatal(err, err2, len(a.Records), len(b.Records))
	}
	if x, y := a.Evidence.Run.Noise, b.Evidence.Run.Noise; x.Table != y.Table || x.Inputs != y.Inputs || y.Quantised || y.Columns[0].Step != x.Step {
		t.Errorf("noise %+v, plain %+v", y, x)
	}
	for i, r := range a.Records {
		s := b.Records[i]
		if !slices.Equal(r.Votes.Counts, s.Votes.Counts) {
			t.Errorf("example %d: votes %v, plain %v", i, s.Votes.Counts, r.Votes.Counts)
		}
		if x, y := r.Certificate.Radius, s.Certificate.Radius*.25; math.Abs(x-y) > 1e-8 {
			t.Errorf("example %d: radius %v·.25, plain %v", i, s.Certificate.Radius, x)
		}
	}
}

// verify must notice changed scales, even if all checksums were computed again.
func TestColumnsTampered(t *testing.T) {
	p := mixedPlan(t, func(p *Plan) { p.Max, p.N = 1, 100 })
	mustCertify(t, p)
	run, err := runfolder.Read(p.Out)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkNoiseTable(run); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*runfolder.Run){
		"sigma":  func(r *runfolder.Run) { r.Parameters.SigmaColumns[0].Sigma = 5 },
		"frozen": func(r *runfolder.Run) { r.Parameters.SigmaColumns[0].Sigma = 0 },
		"eta":    func(r *runfolder.Run) { r.Noise.Eta /= 2 },
		"step":   func(r *runfolder.Run) { r.Noise.Columns[0].Step = "1/7" },
	} {
		text, _ := json.Marshal(run)
		var changed runfolder.Run
		if err := json.Unmarshal(text, &changed); err != nil {
			t.Fatal(err)
		}
		change(&changed)
		if err := checkNoiseTable(changed); err == nil {
			t.Errorf("%s: a change was not noticed", name)
		}
	}
}
