package conformalfile

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/conformal"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// The function 'fitted' returns a predictor of three classes that was fitted on scores 0.01, 0.02, …, 0.99.
func fitted(t testing.TB, miss float64) *File {
	t.Helper()
	design, err := conformal.NewDesign(conformal.Params{
		Rule: conformal.Clean, Scorer: conformal.NewScorer(conformal.THR), Miss: miss, Guarantee: conformal.Marginal,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := design.Calibrator()
	for i := 1; i < 100; i++ {
		if err := c.Add(conformal.Point{Scores: []float64{float64(i) / 100}, Label: i % 3}); err != nil {
			t.Fatal(err)
		}
	}
	p, err := c.Predictor(3)
	if err != nil {
		t.Fatal(err)
	}
	return &File{Schema: Schema, Version: "test", Predictor: *p, Sound: true, Arithmetic: certify.Exact, Temperature: 1,
		Calibration: Calibration{Scores: "scores.npz", SHA256: "aa"}}
}

// Read must return a file as it was written, with the same ID, even if a threshold is −∞.
func TestFileReadsBack(t *testing.T) {
	for miss, tau := range map[float64]float64{.1: .1, .001: math.Inf(-1)} {
		f := fitted(t, miss)
		path := filepath.Join(t.TempDir(), "c.json")
		if err := f.Write(path); err != nil {
			t.Fatal(err)
		}
		got, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(f)
		b, _ := json.Marshal(got)
		if !bytes.Equal(a, b) || got.ID() != f.ID() || len(f.ID()) != 16 {
			t.Errorf("%s of ID %s reads back as %s of ID %s", a, f.ID(), b, got.ID())
		}
		if x := float64(got.Predictor.Cells[0].Tau); x != tau || got.IncludesAll() != math.IsInf(tau, -1) {
			t.Errorf("miss %v: threshold %v, want %v", miss, x, tau)
		}
	}
}

// Read must refuse files that contradict themselves, even if their checksum is right.
func TestReadRefuses(t *testing.T) {
	text, err := fitted(t, .1).Encode()
	if err != nil {
		t.Fatal(err)
	}
	body, _ := checksum.VerifySealed(text)
	for name, c := range map[string]struct{ old, replacement, want string }{
		"no predictor":       {`"predictor"`, `"prediction"`, "is no conformal.json"},
		"no schema":          {`"schema": 1`, `"schema": 0`, "is no conformal.json"},
		"newer":              {`"schema": 1`, `"schema": 7`, "written in format 7"},
		"temperature":        {`"temperature": 1`, `"temperature": 0`, "temperature 0"},
		"no source":          {`"scores": "scores.npz"`, `"scores": ""`, "neither a classifier nor a file"},
		"threshold NaN":      {`"tau": "0x`, `"tau": "NaN0x`, "is not a number"},
		"rank":               {`"k": 10`, `"k": 11`, "rank 11: want 10"},
		"no proof":           {`"sound": true,` + "\n" + `    "labels"`, `"sound": false,` + "\n" + `    "labels"`, "sound cannot be false"},
		"negative allowance": {`"temperature": 1,`, `"temperature": 1, "allowance": -1,`, "allowance -1"},
		"another claim":      {`at least 0.9,`, `at least 0.99,`, "does not follow"},
	} {
		changed := strings.Replace(string(body), c.old, c.replacement, 1)
		if changed == string(body) {
			t.Errorf("%s: nothing to replace in\n%s", name, body)
			continue
		}
		if _, err := decode(checksum.Seal([]byte(changed))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
	if _, err := decode([]byte(strings.Replace(string(text), `"k": 10`, `"k": 11`, 1))); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a changed file: %v", err)
	}
}

// If the classifier clamps or rounds its inputs and the predictor does not allow for this, the file must be refused.
func TestPredictorFitsItsClassifier(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*File)
		want   string
	}{
		"right":    {func(*File) {}, ""},
		"range":    {func(f *File) { f.Predictor.OwnRange = false }, "clamped to the range"},
		"rounding": {func(f *File) { f.Allowance = 0.2 }, "allows for a rounding of 0.1"},
	} {
		design, err := conformal.NewDesign(conformal.Params{
			Rule: conformal.Count, Scorer: conformal.NewScorer(conformal.THR), Miss: .2, Guarantee: conformal.Marginal, OwnRange: true,
			Attack: conformal.Attack{Scale: 1, Radius: .4, Rounding: .1},
		})
		if err != nil {
			t.Fatal(err)
		}
		f := &File{Temperature: 1, Sound: true, Allowance: .1, Classifier: &Classifier{
			Model: runfolder.Model{Classes: 3}, Smoothing: spec.Smoothing{Sigma: 1}, Noise: runfolder.Noise{Quantised: true}}}
		f.Calibration.Data = &runfolder.Data{}
		p, err := design.Calibrator().Predictor(3)
		if err != nil {
			t.Fatal(err)
		}
		f.Predictor = *p
		c.change(f)
		if err := f.validate(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// For idealised noise, the statement must say that the noise is idealised. If, in addition, the scores come from a file
// that names no run, the statement must say what it assumes about the noise of these scores. Without a guarantee, the
// statement must have no such addition.
func TestStatement(t *testing.T) {
	const ran, drawn = "for idealised noise, not for the floats that were run", "if the noise of these scores was drawn as stated, fresh and secret"
	for _, tt := range []struct {
		arithmetic certify.Arithmetic
		classifier *Classifier
		sound      bool
		end        string
	}{
		{certify.Exact, nil, true, "is fresh and secret"},
		{certify.Exact, &Classifier{}, true, "is fresh and secret"},
		{certify.Idealised, &Classifier{}, true, "fresh and secret; " + ran},
		{certify.Idealised, nil, true, "fresh and secret; for idealised noise, " + drawn},
		{certify.Idealised, nil, false, "the noise of a query is fresh and secret"},
	} {
		f := fitted(t, .1)
		f.Arithmetic, f.Classifier, f.Predictor.Sound = tt.arithmetic, tt.classifier, tt.sound
		if s := f.Statement(); !strings.HasPrefix(s, f.Predictor.Statement) || !strings.HasSuffix(s, tt.end) {
			t.Errorf("%v, %v: %q, want …%q", tt.arithmetic, tt.classifier, s, tt.end)
		}
	}
}

// If two columns of a file have the same name, the file must be refused, even if the groups are in another column.
func TestReadGroups(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"id,kind\n0,a\n1,b\n", ""},
		{"kind,kind\na,c\nb,d\n", `has two columns "kind"`},
		{"id,kind,id\n0,a,0\n1,b,1\n", `has two columns "id"`},
		{"id,sort\n0,a\n1,b\n", `has no column "kind"`},
	} {
		groups, err := ReadGroups(writeSets(t, tt.text), "kind")
		if tt.want == "" && (err != nil || !slices.Equal(groups, []string{"a", "b"})) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q: %v, %v", tt.text, groups, err)
		}
	}
}

// The constant 'line' is a valid line of sets.jsonl.
const line = `{"index":1,"label":1,"set":[0,1],"size":2,"counts":[6,9,0],"draws":15,"predictor":"a","rule":"count","sigma":0.5,` +
	`"norm":"l2","radius":0.5,"rho":1,"miss":0.05,"guarantee":"marginal","sound":true,"arithmetic":"exact",` +
	`"m":20,"t":14,"query_m":20,"query_t":6,"n":500,"k":25}`

func writeSets(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sets.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadSets(t *testing.T) {
	sets, err := ReadSets(writeSets(t, line+"\n\n"+strings.Replace(line, `"index":1,"label":1`, `"index":2`, 1)+"\n"))
	if err != nil || len(sets) != 2 || *sets[0].Label != 1 || sets[1].Label != nil || sets[1].Classes() != "0 1" {
		t.Fatalf("%+v, %v", sets, err)
	}
	for old, replacement := range map[string]string{
		`"size":2`:               `"size":3`,
		`[0,1]`:                  `[1,0]`,
		`"set":[0,1]`:            `"set":[1,1]`,
		`"set":[0,1],`:           `"set":[1,3],`,
		`"label":1`:              `"label":3`,
		`"index":1`:              `"index":-1`,
		`"predictor":"a"`:        `"predictor":""`,
		`"rule":"count"`:         `"rule":"other"`,
		`"radius":0.5`:           `"radius":-0.5`,
		`"miss":0.05`:            `"miss":1`,
		`"rho":1`:                `"rho":-1`,
		`"sigma":0.5`:            `"sigma":-0.5`,
		`"m":20,`:                `"m":0,`,
		`"query_m":20`:           `"query_m":2000000000`,
		`"query_t":6`:            `"query_t":21`,
		`"t":14`:                 `"t":22`,
		`"k":25`:                 `"k":501`,
		`"arithmetic":"exact"`:   `"arithmetic":"other"`,
		`"norm":"l2"`:            `"norm":"l2","law":"splitting"`,
		`"draws":15`:             `"draws":15,"certified_counts":[1]`,
		`"counts":[6,9,0]`:       `"counts":[]`,
		`[6,9,0],"draws":15`:     `[6,9,1],"draws":15`, // class 2 is undecided
		`"counts":[6,9,0],`:      `"counts":[6,9,6],`,  // the counts put class 2 into the set
		`"counts":[6,9,0],"dr`:   `"counts":[0,9,0],"dr`,
		`[6,9,0],`:               `[6,16,0],`,
		`,9,0],`:                 `,9,-1],`,
		`"draws":15,`:            `"draws":21,`,
		`"draws":15,"p`:          `"draws":15,"certified_counts":[6,21,0],"p`,
		`"sound":true`:           `"sound":true,"replayed_seed":7`,
		`"guarantee":"marginal"`: `"guarantee":"none"`,
		`"radius":0.5,`:          `"radius":0.75,`, // above rho·sigma, which is 0.5
		`"norm":"l2","`:          `"norm":"l1","`,
		`"rule":"count",`:        `"rule":"clean",`,
	} {
		changed := strings.Replace(line, old, replacement, 1)
		if changed == line {
			t.Errorf("nothing to replace by %s", replacement)
		}
		if _, err := ReadSets(writeSets(t, changed+"\n")); err == nil || !strings.Contains(err.Error(), "sets.jsonl:1: ") {
			t.Errorf("%s: %v", replacement, err)
		}
	}
	for second, want := range map[string]string{
		line: "index 1 appears twice",
		strings.Replace(strings.Replace(line, `"index":1`, `"index":2`, 1), `"predictor":"a"`, `"predictor":"b"`, 1): `of predictor "b"`,
	} {
		if _, err := ReadSets(writeSets(t, line+"\n"+second)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	second := strings.Replace(line, `"index":1`, `"index":2`, 1)
	for old, replacement := range map[string]string{
		`"rule":"count"`:         `"rule":"weights"`,
		`"sigma":0.5`:            `"law":"uniform","sigma":0.5`,
		`"sigma":0.5,`:           `"sigma":0.25,`,
		`"norm":"l2"`:            `"norm":"l1"`,
		`"rho":1`:                `"poison_radius":0.5,"rho":1`,
		`,"rho":1`:               `,"poisoned":1,"rho":1`,
		`"rho":1,`:               `"queries":2,"rho":1,`,
		`"rho":1,"miss"`:         `"rho":0.5,"miss"`,
		`"miss":0.05`:            `"miss":0.5`,
		`"guarantee":"marginal"`: `"guarantee":"training"`,
		`"sound":true`:           `"delta":0.1,"sound":true`,
		`"arithmetic":"exact"`:   `"arithmetic":"idealised"`,
		`"m":20`:                 `"m":21`,
		`"t":14`:                 `"t":13`,
		`"query_m":20`:           `"query_m":19`,
		`"query_t":6`:            `"query_t":5`,
		`"n":500`:                `"n":501`,
		`"k":25`:                 `"k":24`,
	} {
		changed := strings.Replace(second, old, replacement, 1)
		if _, err := ReadSets(writeSets(t, line+"\n"+changed)); err == nil || !strings.Contains(err.Error(), "sets.jsonl:2: ") {
			t.Errorf("%s: %v", replacement, err)
		}
	}
	for old, replacement := range map[string]string{`"radius":0.5`: `"radius":0.25`, `"sound":true`: `"sound":false,"replayed_seed":7`} {
		if _, err := ReadSets(writeSets(t, line+"\n"+strings.Replace(second, old, replacement, 1))); err != nil {
			t.Errorf("%s: %v", replacement, err)
		}
	}
	byLabel := strings.ReplaceAll(line+"\n"+strings.Replace(second, `"k":25`, `"k":24`, 1), "marginal", "label")
	if _, err := ReadSets(writeSets(t, byLabel)); err == nil || !strings.Contains(err.Error(), "same threshold") {
		t.Errorf("two ranks of a label: %v", err)
	}
	if _, err := ReadSets(writeSets(t, strings.Replace(byLabel, `"label":1`, `"label":0`, 1))); err != nil {
		t.Errorf("ranks of two labels: %v", err)
	}
	if _, err := ReadSets(writeSets(t, "\n")); err == nil {
		t.Error("no error for an empty file")
	}
}

// The test compares the figures of a file with figures counted by hand. A class without labelled inputs must have no
// test of exchangeability.
func TestEvaluate(t *testing.T) {
	text := ""
	for i, c := range []string{
		`"label":0,"set":[0],"size":1,"counts":[6,0,0]`, `"label":1,"set":[0],"size":1,"counts":[9,0,0]`,
		`"label":1,"set":[0,1,2],"size":3,"counts":[6,7,8]`, `"label":0,"set":[],"size":0,"counts":[0,0,0]`, `"set":[2],"size":1,"counts":[0,0,15]`,
	} {
		l := strings.Replace(line, `"label":1,"set":[0,1],"size":2,"counts":[6,9,0]`, c, 1)
		l = strings.Replace(l, `"guarantee":"marginal"`, `"guarantee":"label"`, 1)
		text += strings.Replace(l, `"index":1`, `"index":`+string(rune('0'+i)), 1) + "\n"
	}
	text = strings.Replace(text, `"radius":0.5`, `"radius":0.25`, 1)
	text = strings.Replace(text, `"sound":true`, `"sound":false,"replayed_seed":7`, 1)
	e, err := Evaluate(writeSets(t, text), .05)
	if err != nil {
		t.Fatal(err)
	}
	v := e.Evaluation
	if e.Sets != 5 || e.Labelled != 4 || e.Classes != 6 || e.Radius != .25 || v.Covered != 2 || v.MeanSize != 1.25 || v.Empty != 1 || v.Singletons != 2 {
		t.Errorf("%+v, %+v", e, v)
	}
	if why := e.WhyUnsound(); e.Sound || e.Unsound != 1 || why != "they repeat the noise of seed 7" {
		t.Errorf("sound %v, %d unsound, because %s", e.Sound, e.Unsound, why)
	}
	if len(v.ByClass) != 2 || len(v.Exchangeability) != 2 {
		t.Errorf("classes %+v, tests %+v", v.ByClass, v.Exchangeability)
	}
}

// Queries that are off the lattice of the calibration examples are not exchangeable with these examples. So the rank of
// a threshold does not bound how often the sets of such queries miss the class.
func TestEvaluateMoved(t *testing.T) {
	second := strings.Replace(line, `"index":1`, `"index":2`, 1)
	for text, want := range map[string]bool{
		line + "\n" + second: true,
		line + "\n" + strings.Replace(second, `"draws":15`, `"draws":15,"moved":0.01`, 1): false,
	} {
		e, err := Evaluate(writeSets(t, text+"\n"), .05)
		if err != nil {
			t.Fatal(err)
		}
		if _, known := e.Evaluation.TooManyMisses(); known != want {
			t.Errorf("p is known: %v, want %v", known, want)
		}
	}
}

func FuzzReadSets(f *testing.F) {
	f.Add(line)
	f.Add(strings.Replace(line, `"guarantee":"marginal"`, `"guarantee":"label"`, 1))
	f.Fuzz(func(t *testing.T, text string) {
		// Texts with certified counts are skipped, because a bound computed from such counts takes seconds.
		if len(text) < 1<<12 && !strings.Contains(strings.ToLower(text), "certified_counts") {
			_, _ = Evaluate(writeSets(t, text), .05)
		}
	})
}

func FuzzDecode(f *testing.F) {
	text, err := fitted(f, .1).Encode()
	if err != nil {
		f.Fatal(err)
	}
	body, _ := checksum.VerifySealed(text)
	f.Add(string(body))
	f.Fuzz(func(_ *testing.T, text string) {
		if len(text) < 1<<13 && strings.HasPrefix(text, "{\n  ") && strings.HasSuffix(text, "\n}\n") {
			_, _ = decode(checksum.Seal([]byte(text)))
		}
	})
}
