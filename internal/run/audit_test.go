package run

import (
	"context"
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

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/runfolder"
)

// These tests audit runs of a linear classifier with two classes. Class 0 wins where plane·x + offset > 0. The noise is
// symmetric, so the smoothed classifier has the same boundary, and the robust radius is |plane·x + offset|/‖plane‖.
var plane = []float64{.9, -.4, .7, .2, -.8, .5, -.3, .6}

const offset = -.7

func planeDistance(x []float32) float64 {
	sum, norm := offset, 0.
	for d, v := range x {
		sum += plane[d] * float64(v)
		norm += plane[d] * plane[d]
	}
	return sum / math.Sqrt(norm)
}

// writeLinear writes the linear classifier as an ONNX model. Its second output is 0.
func writeLinear(t *testing.T) string {
	t.Helper()
	weights := &onnxpb.TensorProto{Name: proto.String("w"), Dims: []int64{int64(len(plane)), 2}, DataType: proto.Int32(1)}
	for _, w := range plane {
		weights.FloatData = append(weights.FloatData, float32(w), 0)
	}
	bias := &onnxpb.TensorProto{Name: proto.String("b"), Dims: []int64{2}, DataType: proto.Int32(1), FloatData: []float32{offset, 0}}
	model := &onnxpb.ModelProto{
		IrVersion: proto.Int64(8), OpsetImport: []*onnxpb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(13)}},
		Graph: &onnxpb.GraphProto{
			Name: proto.String("linear"), Initializer: []*onnxpb.TensorProto{weights, bias},
			Node:   []*onnxpb.NodeProto{graph.Node("Gemm", []string{"x", "w", "b"}, "y")},
			Input:  []*onnxpb.ValueInfoProto{graph.FloatTensor("x", []int64{-1, int64(len(plane))})},
			Output: []*onnxpb.ValueInfoProto{graph.FloatTensor("y", []int64{-1, 2})},
		},
	}
	data, err := proto.Marshal(model)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "linear.onnx")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// linearRun certifies n random vectors of bytes. Every tenth vector has the wrong label.
func linearRun(t *testing.T, n int, changes ...func(*Plan)) Plan {
	t.Helper()
	r := rand.New(rand.NewPCG(6, 0))
	var b strings.Builder
	b.WriteString("label")
	for d := range plane {
		fmt.Fprintf(&b, ",v%d", d)
	}
	for i := range n {
		x := make([]float32, len(plane))
		for d := range x {
			x[d] = float32(r.IntN(256)) / 255
		}
		label := 0
		if (planeDistance(x) < 0) != (i%10 == 9) {
			label = 1
		}
		fmt.Fprintf(&b, "\n%d", label)
		for _, v := range x {
			fmt.Fprintf(&b, ",%v", v)
		}
	}
	data := filepath.Join(t.TempDir(), "points.csv")
	if err := os.WriteFile(data, []byte(b.String()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := quick(t, data, changes...)
	p.Model, p.N, p.N0, p.Alpha, p.Sigma = writeLinear(t), 1000, 50, .001, .25
	mustCertify(t, p)
	return p
}

// The type straight is a search that knows the boundary. It moves each example straight towards the boundary, by
// multiples of the example's distance to the boundary.
type straight struct{ asked *int }

func (s straight) Candidates(_ context.Context, x attack.Example) (all []attack.Candidate, _ error) {
	*s.asked++
	away := planeDistance(x.Values)
	norm := 0.
	for _, w := range plane {
		norm += w * w
	}
	for _, factor := range []float64{1, 1.5, 1.2, 1.1, .8} {
		values := make([]float32, len(x.Values))
		for d, v := range x.Values {
			moved := float64(v) - factor*away*plane[d]/math.Sqrt(norm)
			values[d] = float32(math.RoundToEven(255*moved)) / 255
			if moved < 0 || moved > 1 {
				return nil, nil // no candidates: this move leaves the box
			}
		}
		all = append(all, attack.Candidate{Values: values, Rival: 1 - x.Label})
	}
	return all, nil
}

// auditPlan returns the plan of a small audit of a run. The search of this audit is the type 'straight', which moves
// each example straight towards the boundary.
func auditPlan(p Plan, changes ...func(*AuditPlan)) AuditPlan {
	asked := 0
	a := AuditPlan{
		Run: p.Out, Gamma: .001, Budget: AuditBudget{Rounds: 1, Restarts: 1, Steps: 1, Samples: 1, Screen: 2000, Verify: 20000},
		Again: Again{Examples: 30, Threads: 2, Version: "test"},
		open:  func(*auditor, int) (candidateSearch, error) { return straight{&asked}, nil },
	}
	for _, change := range changes {
		change(&a)
	}
	return a
}

func mustAudit(t *testing.T, p AuditPlan) *Audited {
	t.Helper()
	r, err := Audit(t.Context(), p, new(said).console())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// An audit must not accuse a correct run. Every candidate's distance is a multiple of the example's exact radius. No
// certified radius may exceed the exact radius. The farthest candidate is at 1.5 times the exact radius. Up to
// rounding, each verified distance must be between the exact radius and 1.5 times the exact radius.
func TestAuditOfRightRun(t *testing.T) {
	p := linearRun(t, 40)
	r := mustAudit(t, auditPlan(p))
	if c := r.Contradictions; c.Count != 0 || c.MoreThanChance || c.PValue != 1 {
		t.Errorf("a right run is accused: %+v", c)
	}
	if r.Done != 30 || r.Gap.Verified < 10 {
		t.Errorf("%d examples are audited, %d changes verified", r.Done, r.Gap.Verified)
	}
	data := readPoints(t, p.Data)
	for _, e := range r.Results {
		exact := math.Abs(planeDistance(data[e.Index]))
		if e.Radius > exact {
			t.Errorf("example %d: radius %v, exactly %v", e.Index, e.Radius, exact)
		}
		if e.Distance != nil && (*e.Distance < exact || *e.Distance > 1.55*exact+.02) {
			t.Errorf("example %d: verified distance %v, the boundary is at %v", e.Index, *e.Distance, exact)
		}
		if wrong := e.Label != boundaryClass(data[e.Index]); e.Wrong && !wrong || wrong && exact > .2 && !e.Wrong {
			t.Errorf("example %d: wrong is %v", e.Index, e.Wrong)
		}
	}
	for _, point := range r.Curve {
		if point.Lower > point.Upper || point.Certified > point.Unbroken || point.Images > point.Unbroken {
			t.Errorf("curves cross: %+v", point)
		}
	}
}

func boundaryClass(x []float32) int {
	if planeDistance(x) > 0 {
		return 0
	}
	return 1
}

func readPoints(t *testing.T, path string) (all [][]float32) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		var x []float32
		for _, cell := range strings.Split(line, ",")[1:] {
			var v float32
			if _, err := fmt.Sscan(cell, &v); err != nil {
				t.Fatal(err)
			}
			x = append(x, v)
		}
		all = append(all, x)
	}
	return all
}

// enlarge multiplies the radii and margins of a run's certificates by a factor, and corrects the checksums.
func enlarge(t *testing.T, dir string, factor float64) {
	t.Helper()
	run, err := runfolder.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	certs := readResults(t, dir).certs
	var lines []byte
	for _, c := range certs {
		c.Radius, c.Margin = factor*c.Radius, factor*c.Margin
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, run.Seed().AppendJSON(text)...), '\n')
	}
	if err := os.WriteFile(filepath.Join(dir, runfolder.CertificatesFile), lines, 0o644); err != nil {
		t.Fatal(err)
	}
}

// An audit must find false radii, even if the checksums match. It certifies each contradicted example again. In the
// first audit, a correct method makes these fresh certificates, so the audit does not contradict them. The run's own
// certificates must then have more contradictions than chance explains. In the second audit, a broken method makes the
// fresh certificates, and the audit must contradict them.
func TestAuditFindsFalseRadii(t *testing.T) {
	p := linearRun(t, 40)
	enlarge(t, p.Out, 2)
	r := mustAudit(t, auditPlan(p))
	if c := r.Contradictions; !c.MoreThanChance || c.Count < 10 || c.Again != 0 || c.PValue > 1e-6 {
		t.Errorf("false radii pass: %+v", c)
	}
	// At this large gamma, chance can explain the number of contradictions of the run's own certificates. Only
	// contradictions of the fresh certificates can then accuse the run. The function 'fresh' doubles the radii of the
	// fresh certificates, so these radii are false, too.
	again := auditPlan(p, func(a *AuditPlan) {
		a.Out = filepath.Join(t.TempDir(), "audit")
		a.Examples, a.Gamma = 4, .49
		a.fresh = func(c *certify.Certificate) {
			if c.Alpha != escalationAlpha {
				t.Errorf("certified again at alpha %v", c.Alpha)
			}
			c.Radius *= 2
		}
	})
	if c := mustAudit(t, again).Contradictions; c.Count == 0 || c.PValue < accusation || c.Again == 0 || !c.MoreThanChance {
		t.Errorf("the broken method passes: %+v", c)
	}
}

// An audit that stops in the middle of any line of its file must resume, and must end with the results of all examples.
// If the file already holds the candidates of an example, the resumed audit must not search for them again.
func TestAuditResumes(t *testing.T) {
	p := linearRun(t, 12)
	asked := 0
	plan := auditPlan(p, func(a *AuditPlan) {
		a.Examples = 5
		a.open = func(*auditor, int) (candidateSearch, error) { return straight{&asked}, nil }
	})
	whole := mustAudit(t, plan)
	searches := asked
	path := filepath.Join(p.Out, AuditFolder, AuditLinesFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(text)))
	plan.Resume = true
	for n := range lines {
		torn := strings.Join(lines[:n], "") + lines[n][:len(lines[n])/2]
		if err := os.WriteFile(path, []byte(torn), 0o644); err != nil {
			t.Fatal(err)
		}
		if r, err := ReadAudit(filepath.Join(p.Out, AuditFolder), find(t, p.Out)); err != nil || r.Done > n/2 {
			t.Fatalf("after %d lines: %v", n, err)
		}
		asked = 0
		r := mustAudit(t, plan)
		if r.Done != whole.Done || len(r.Results) != len(whole.Results) || asked > searches-strings.Count(strings.Join(lines[:n], ""), `"round":1,"sha256"`) {
			t.Fatalf("after %d lines: %d examples are done, %d searches", n, r.Done, asked)
		}
		for i, e := range r.Results {
			if e.Candidates != whole.Results[i].Candidates {
				t.Errorf("after %d lines: example %d has %d candidates, want %d", n, e.Index, e.Candidates, whole.Results[i].Candidates)
			}
		}
	}
	// A changed line must be refused.
	changed := strings.Replace(string(text), `"rejected":true`, `"rejected":false`, 1)
	if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAudit(filepath.Join(p.Out, AuditFolder), find(t, p.Out)); err == nil {
		t.Error("a changed line passes")
	}
}

// An audit must refuse a model or data that differ from the run's, and a run whose noise is in floats. It must refuse
// the level 0, and 0 as the number of examples. It must also refuse to overwrite an existing audit, and to resume an
// audit with another budget.
func TestAuditRefuses(t *testing.T) {
	p := linearRun(t, 6)
	other := linearRun(t, 7)
	floats := quick(t, p.Data, func(q *Plan) { q.Noise = "float" })
	floats.Model = p.Model
	mustCertify(t, floats)
	small := func(a *AuditPlan) { a.Examples = 2 }
	mustAudit(t, auditPlan(p, small))
	for name, c := range map[string]struct {
		change func(*AuditPlan)
		says   string
	}{
		"another model": {func(a *AuditPlan) { a.Model, a.Out = models+"nchw.onnx", "x" }, ""},
		"other data":    {func(a *AuditPlan) { a.Data, a.Out = other.Data, "x" }, "the data set"},
		"no resume":     {small, "already"},
		"other budget":  {func(a *AuditPlan) { a.Resume, a.Examples, a.Budget.Screen = true, 2, 999 }, "budget"},
		"floats":        {func(a *AuditPlan) { a.Run = floats.Out }, "floats"},
		"no examples":   {func(a *AuditPlan) { a.Examples = 0 }, "examples"},
		"level":         {func(a *AuditPlan) { a.Gamma = 0 }, "gamma"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Audit(t.Context(), auditPlan(p, c.change), new(said).console())
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// If scores certify the classes of a run, an audit must test mean scores, not votes.
func TestAuditByScores(t *testing.T) {
	p := linearRun(t, 30, func(p *Plan) { p.Scores = true })
	r := mustAudit(t, auditPlan(p, func(a *AuditPlan) { a.Out, a.Examples = filepath.Join(t.TempDir(), "audit"), 12 }))
	if c := r.Contradictions; c.Count != 0 || r.Gap.Verified < 3 {
		t.Errorf("a right run: %+v, %d changes verified", c, r.Gap.Verified)
	}
	for _, e := range r.Results {
		if e.Distance != nil && *e.Distance < e.Radius {
			t.Errorf("example %d: verified distance %v, radius %v", e.Index, *e.Distance, e.Radius)
		}
	}
	enlarge(t, p.Out, 8)
	if c := mustAudit(t, auditPlan(p)).Contradictions; !c.MoreThanChance {
		t.Errorf("false radii pass: %+v", c)
	}
}

// The audit must accept right bounds on the confidence and find false bounds.
func TestAuditOfConfidence(t *testing.T) {
	p := linearRun(t, 30, func(p *Plan) { p.ConfidenceRadii = []float64{.05, .1} })
	small := func(a *AuditPlan) { a.Out, a.Examples = filepath.Join(t.TempDir(), "audit"), 8 }
	r := mustAudit(t, auditPlan(p, small))
	if r.Contradictions.Count != 0 {
		t.Errorf("a right run: %+v", r.Contradictions)
	}
	lines := readAuditLines(t, r.Out)
	checkCalibration(t, r, lines)
	tested := 0
	for _, l := range lines {
		for _, test := range l.Tests {
			if test.Kind == TestConfidence {
				tested++
				if test.Distance > test.Radius || test.Distance < .5*test.Radius {
					t.Errorf("a bound for radius %v is tested at %v", test.Radius, test.Distance)
				}
			}
		}
	}
	if tested < 4 {
		t.Errorf("%d bounds are tested", tested)
	}
	narrow(t, p.Out)
	r = mustAudit(t, auditPlan(p, small))
	found := 0
	for _, e := range r.Results {
		if slices.Equal(e.Contradicted, []TestKind{TestConfidence}) {
			found++
		}
	}
	if !r.Contradictions.MoreThanChance || found < 3 {
		t.Errorf("false bounds pass: %+v", r.Contradictions)
	}
}

// checkCalibration recomputes the certified Brier score and the Brier score under attack. It also checks that an ECE
// is at least the difference between mean confidence and accuracy.
func checkCalibration(t *testing.T, r *Audited, lines []AuditLine) {
	t.Helper()
	if len(r.Calibration) != 2 {
		t.Fatalf("%d radii, want 2: %+v", len(r.Calibration), r.Calibration)
	}
	for _, c := range r.Calibration {
		n, cbs, brier, gap := 0, 0., 0., 0.
		for i, l := range lines {
			if l.Step != Frozen {
				continue
			}
			at := slices.IndexFunc(r.Results, func(e AuditedExample) bool { return e.Index == l.Index })
			e := r.Results[at]
			for k, test := range l.Tests {
				if test.Kind != TestConfidence || test.Radius != c.Radius || e.Radius < c.Radius || test.Class != e.Prediction {
					continue
				}
				mean, truth, end := *lines[i+1].Results[k].Mean, 0., test.Upper
				if e.Prediction == e.Label {
					truth, end = 1, test.Lower
				}
				if mean < test.Lower || mean > test.Upper {
					t.Errorf("example %d: the mean score %v is outside [%v, %v]", l.Index, mean, test.Lower, test.Upper)
				}
				n++
				cbs += (end - truth) * (end - truth)
				brier += (mean - truth) * (mean - truth)
				gap += mean - truth
			}
		}
		if n < 2 || c.Examples != n || math.Abs(c.CBS-cbs/float64(n)) > 1e-12 || math.Abs(c.Brier-brier/float64(n)) > 1e-12 {
			t.Errorf("%+v, want %d examples, CBS %v and Brier score %v", c, n, cbs/float64(n), brier/float64(n))
		}
		if c.Brier >= c.CBS || c.ECE >= c.CCE || c.ECE < math.Abs(gap)/float64(n)-1e-12 || c.CCE > 1 {
			t.Errorf("found calibration is not below certified calibration: %+v", c)
		}
	}
}

func readAuditLines(t *testing.T, dir string) []AuditLine {
	t.Helper()
	var header AuditHeader
	lines, err := auditForm.Read(dir, &header)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// narrow raises the lower bounds in a run's bounds.csv to the upper bounds, and corrects the checksums.
func narrow(t *testing.T, dir string) {
	t.Helper()
	run, err := runfolder.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, runfolder.BoundsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, line := range lines[1:] {
		cells := strings.Split(line, ",")
		cells[6] = cells[7]
		lines[i+1] = string(run.Seed().AppendCSV([]byte(lines[0]), []byte(strings.Join(cells[:len(cells)-1], ","))))
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// In an audit with several rounds, the flip tests of each round must have a smaller level than the flip tests of the
// round before. The sum of these levels must not exceed the level of the flip tests in an audit with one round.
func TestAuditRounds(t *testing.T) {
	p := linearRun(t, 12)
	r := mustAudit(t, auditPlan(p, func(a *AuditPlan) { a.Examples, a.Budget.Rounds = 4, 2 }))
	levels := map[int]map[int]float64{}
	for _, l := range readAuditLines(t, r.Out) {
		for _, test := range l.Tests {
			if test.Kind == TestFlip {
				if levels[l.Index] == nil {
					levels[l.Index] = map[int]float64{}
				}
				levels[l.Index][l.Round] = test.Level
			}
		}
	}
	for index, of := range levels {
		if of[1]+of[2] > .001/4*flipShare || math.Abs(of[1]-4*of[2]) > 1e-12 {
			t.Errorf("example %d: the levels of the rounds are %v", index, of)
		}
	}
	if len(levels) == 0 || r.Done != 4 {
		t.Errorf("%d examples are done, %d with candidates", r.Done, len(levels))
	}
}
