package runfolder

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// The function 'drawn' returns a run with noise on a lattice. Because random words have a finite length, rscert reduces
// alpha by a factor that depends on Noise.Eta. The Eta of this run is so large that the tests can see the reduction.
func drawn() Run {
	r := testRun
	r.Data.Shape = []int{3, 4, 5}
	r.Noise.Eta = 1e-9
	r.Parameters.N0, r.Parameters.N = 1000, 4000
	r.Parameters.Margin, r.Parameters.Class, r.Parameters.Lipschitz = certify.FirstMargin, certify.Label, 2
	return r
}

// Each of the n0+n samples has D values, and each value takes one random word. One word can increase the probability of
// an event by a factor of at most 1+η. So the level of the target may be as high as α·(1+η)^(−(n0+n)D). The code uses
// α·e^(−(n0+n)Dη), which is slightly smaller.
func TestTargetIsDeflated(t *testing.T) {
	r := drawn()
	for _, alpha := range []float64{r.Parameters.Alpha, 0.5, 1e-6} {
		got := r.Target(alpha)
		want := certify.Target{Margin: certify.FirstMargin, Class: certify.Label, Alpha: alpha, Sigma: 0.25, Lipschitz: 2, Arithmetic: certify.Exact, Precision: "f32"}
		want.Level = got.Level
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		exact := alpha * math.Exp(-5000*60*1e-9)
		if got.Level > exact || got.Level < exact*(1-1e-12) {
			t.Errorf("alpha = %v, of which %v is left, want %v", alpha, got.Level, exact)
		}
	}
	r.Parameters.Precision = onnx.TF32
	if got := r.Target(0.1).Precision; got != "tf32" {
		t.Errorf("certificates of TF32 say %q", got)
	}
	if d := (Run{Parameters: Parameters{Certification: Certification{N0: 1, N: 2}}}).draws(); d != 3 {
		t.Errorf("an example of one value takes %d words", d)
	}
	// If the correction uses up all of alpha, certification must fail. It must not use the full alpha instead.
	r.Noise.Eta = 1
	target := r.Target(0.1)
	if _, err := certify.NewVoteCertifier(certify.VoteParams{Target: target}); err == nil {
		t.Errorf("%+v is accepted", target)
	}
	// If the run does not record noise on a lattice, the necessary reduction of alpha is unknown. So the certificate
	// must state the arithmetic "idealised".
	for name, change := range map[string]func(*Run){
		"float":    func(r *Run) { r.Parameters.Noise = spec.Float },
		"unnamed":  func(r *Run) { r.Parameters.Noise = "" },
		"format 1": func(r *Run) { r.Schema = 1 },
	} {
		r := drawn()
		change(&r)
		if got := r.Target(0.1); got.Level != 0 || got.Arithmetic != certify.Idealised || got.Alpha != 0.1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// If the run's noise comes from a table, the level of the target must equal the result of smoothing.Deflate for the
// table's η.
func TestTargetOfATable(t *testing.T) {
	table, err := smoothing.NewLawTable(law.Gaussian, 0.25, big.NewRat(1, 255))
	if err != nil {
		t.Fatal(err)
	}
	r := drawn()
	r.Noise.Eta = table.Eta
	if got, want := r.Target(0.01).Level, smoothing.Deflate(0.01, table.Eta, 5000*60); got != want || !(got < 0.01) {
		t.Errorf("level %v, want %v", got, want)
	}
}

// boundsContent returns the contents of a bounds.csv with these rows. The offsets in the field 'ends' assume that the
// header and each row have ten bytes.
func boundsContent(header string, rows ...boundRow) ownBounds {
	c := ownBounds{header: header}
	for _, row := range rows {
		c.values = append(c.values, ownRow{boundRow: row})
	}
	for i := range rows {
		c.lines, c.ends = append(c.lines, i+2), append(c.ends, int64(10*(i+2)))
	}
	return c
}

func TestBoundRows(t *testing.T) {
	p := Parameters{Certification: Certification{ConfidenceRadii: []float64{0.5, 0, 0.25, 1}}}
	for _, tt := range []struct {
		radius     float64
		prediction int
		certified  []float64
	}{
		{0.25, 3, []float64{0, 0.25}}, {0.2499, 3, []float64{0}}, {2, 0, []float64{0.5, 0, 0.25, 1}},
		{0, 1, []float64{0}}, {0, certify.Abstained, nil}, {2, certify.Abstained, nil},
	} {
		var all, certified []boundRow
		for _, r := range p.ConfidenceRadii {
			row := boundRow{7, r, slices.Contains(tt.certified, r)}
			if all = append(all, row); row.certified {
				certified = append(certified, row)
			}
		}
		c := certify.Certificate{Index: 7, Prediction: tt.prediction, Radius: tt.radius}
		if got := p.boundRows(c, boundsHeader); !slices.Equal(got, all) {
			t.Errorf("class %d certified at %v: rows %v, want %v", tt.prediction, tt.radius, got, all)
		}
		if got := p.boundRows(c, certifiedHeader); !slices.Equal(got, certified) {
			t.Errorf("class %d certified at %v, an earlier file: rows %v, want %v", tt.prediction, tt.radius, got, certified)
		}
		c.Label = certify.UnknownLabel
		if got := p.boundRows(c, boundsHeader); !slices.Equal(got, certified) {
			t.Errorf("class %d certified at %v, no label: rows %v, want %v", tt.prediction, tt.radius, got, certified)
		}
	}
}

// boundsOf must return the number of examples before the first example whose rows do not fit its certificate. It must
// also return the offset after the rows of these examples. The rows of an example must be in the order of the radii.
func TestBoundsOf(t *testing.T) {
	p := Parameters{Certification: Certification{ConfidenceRadii: []float64{0, 0.5}}}
	certs := []certify.Certificate{{Index: 4, Prediction: certify.Abstained}, {Index: 5, Radius: 0.7}, {Index: 6, Radius: 0.1}, {Index: 9, Prediction: certify.Abstained}}
	five, fiveHalf, six := boundRow{5, 0, true}, boundRow{5, 0.5, true}, boundRow{6, 0, true}
	for _, tt := range []struct {
		name     string
		rows     []boundRow
		examples int
		end      int64
	}{
		{"whole", []boundRow{five, fiveHalf, six}, 4, 40},
		{"more", []boundRow{five, fiveHalf, six, {10, 0, true}}, 4, 40},
		{"none", nil, 1, 0},
		{"a part of an example", []boundRow{five}, 1, 0},
		{"one example", []boundRow{five, fiveHalf}, 2, 30},
		{"another order of radii", []boundRow{fiveHalf, five, six}, 1, 0},
		{"another example", []boundRow{five, fiveHalf, {7, 0, true}}, 2, 30},
		{"another radius", []boundRow{five, fiveHalf, {6, 0.5, true}}, 2, 30},
		{"another example's second row", []boundRow{five, {6, 0.5, true}, six}, 1, 0},
	} {
		if n, end := p.boundsOf(certs, boundsContent(certifiedHeader, tt.rows...)); n != tt.examples || end != tt.end {
			t.Errorf("%s: %d examples up to %d, want %d up to %d", tt.name, n, end, tt.examples, tt.end)
		}
	}
	// The certificate of example 4 abstains. With this header, the example needs no rows, so no rows are missing.
	if n, end := p.boundsOf(certs[:1], boundsContent(certifiedHeader)); n != 1 || end != 0 {
		t.Errorf("an example without rows: %d up to %d", n, end)
	}
	// In a file with the current header, examples without a certified class have rows, too. Every row states whether
	// the class is certified.
	four, fourHalf, sixHalf := boundRow{4, 0, false}, boundRow{4, 0.5, false}, boundRow{6, 0.5, false}
	if n, end := p.boundsOf(certs[:3], boundsContent(boundsHeader, four, fourHalf, five, fiveHalf, six, sixHalf)); n != 3 || end != 70 {
		t.Errorf("rows of all: %d up to %d", n, end)
	}
	if n, end := p.boundsOf(certs[:3], boundsContent(boundsHeader, four, fourHalf, five, fiveHalf, six, boundRow{6, 0.5, true})); n != 2 || end != 50 {
		t.Errorf("a row that is certified without a certificate: %d up to %d", n, end)
	}
	if n, _ := p.boundsOf(certs[:3], boundsContent(boundsHeader, five, fiveHalf, six)); n != 0 {
		t.Errorf("rows of certified classes alone: %d", n)
	}
}

// Earlier versions wrote the header certifiedHeader, and rows for certified classes only. The reader must recognise
// this header as well as the current boundsHeader. In a file with one header, it must not read a row whose checksum was
// computed with the other header.
func TestEarlierBounds(t *testing.T) {
	row := func(header, text string) string {
		return string(checksum.Seed(0).AppendCSV([]byte(header), []byte(text))) + "\n"
	}
	const text = "5,1,1,1,0.9,0.5,0.8,0.95,4"
	for name, tt := range map[string]struct {
		data   string
		header string
		rows   int
	}{
		"earlier":               {certifiedHeader + "\n" + row(certifiedHeader, text), certifiedHeader, 1},
		"now":                   {boundsHeader + "\n" + row(boundsHeader, text+",0,0.001"), boundsHeader, 1},
		"earlier, a row of now": {certifiedHeader + "\n" + row(boundsHeader, text+",0,0.001"), certifiedHeader, 0},
		"now, an earlier row":   {boundsHeader + "\n" + row(certifiedHeader, text), boundsHeader, 0},
	} {
		path := filepath.Join(t.TempDir(), BoundsFile)
		if err := os.WriteFile(path, []byte(tt.data), 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := Run{}.readBounds(path)
		if err != nil || c.header != tt.header || len(c.values) != tt.rows {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
		if len(c.values) == 1 && c.values[0].boundRow != (boundRow{5, 0.5, tt.header == certifiedHeader}) {
			t.Errorf("%s: %+v", name, c.values[0])
		}
	}
}

// A last line without its newline is incomplete. If further bytes follow the complete checksum of the last line, the
// line was not cut off: its newline was changed.
func TestTornLines(t *testing.T) {
	sealed, err := encodeLine(0, map[string]int{"index": 3})
	if err != nil {
		t.Fatal(err)
	}
	whole := string(bytes.TrimSpace(sealed))
	row := string(checksum.Seed(0).AppendCSV([]byte(boundsHeader), []byte("1,2,3")))
	for _, tt := range []struct {
		text   string
		sealed *regexp.Regexp
		want   error
	}{
		{whole, sealedJSON, errTorn}, {whole[:len(whole)-1], sealedJSON, errTorn}, {"", sealedJSON, errTorn},
		{whole + "\v", sealedJSON, errChanged}, {whole + `{"index":4`, sealedJSON, errChanged},
		{row, sealedCSV, errTorn}, {row[:len(row)-3], sealedCSV, errTorn}, {row + "\v", sealedCSV, errChanged}, {row + "*4,5,6", sealedCSV, errChanged},
	} {
		if got := tornLine([]byte(tt.text), tt.sealed); got != tt.want {
			t.Errorf("%q: %v, want %v", tt.text, got, tt.want)
		}
	}
}

// The field 'tail' of the damage must be true if no intact line follows the damage. It must also be true if the damaged
// line contains NUL bytes (0x00). A power cut can leave NUL bytes anywhere in a file. The reader must not read the
// lines after them.
func TestDamage(t *testing.T) {
	line := func(i int) string {
		l, err := encodeLine(0, map[string]int{"index": i})
		if err != nil {
			t.Fatal(err)
		}
		return string(l)
	}
	rows := strings.SplitAfter(string(appendBounds([]byte(boundsHeader+"\n"), 0, record(3).Bounds, 4, law.L2)), "\n")
	type index struct {
		Index int `json:"index"`
	}
	format := fileFormat[index]{keys: []string{"index"}, sealed: true, own: true, valid: func(index) error { return nil }}
	for _, tt := range []struct {
		name string
		// A, B and C stand for intact lines. C- stands for C without its newline. Each 0 stands for two NUL bytes.
		data       string
		values     int
		line       int // line of the damage; 0: no damage
		tail       bool
		intact     bool
		repairable bool
	}{
		{"whole", "ABC", 3, 0, false, true, true},
		{"blank lines", "A\n\nB", 2, 0, false, true, true},
		{"torn", "ABC-", 2, 3, true, true, true},
		{"not a line", "AB?\n", 2, 3, true, false, true},
		{"two not lines", "A?\n?\n", 1, 2, true, false, true},
		{"in the middle", "A?\nC", 1, 2, false, false, false},
		{"in the middle, then not a line", "A?\nC?\n", 1, 2, false, false, false},
		{"not a line, whole, torn", "A?\nBC-", 1, 2, false, false, false},
		{"zeros", "A0\n", 1, 2, true, false, true},
		{"zeros, then a line", "A0\nC", 1, 2, true, false, true},
		{"not a line, then zeros", "A?\n0\n", 1, 2, true, false, true},
	} {
		for kind, text := range map[string][3]string{"json": {line(0), line(1), line(2)}, "csv": {rows[0] + rows[1], rows[2], rows[3]}} {
			data := strings.NewReplacer("A", text[0], "B", text[1], "C-", strings.TrimSuffix(text[2], "\n"), "C", text[2], "0", "\x00\x00").Replace(tt.data)
			var d *damage
			var values int
			var intact, repairable error
			more := 0
			if kind == "json" {
				c, err := newValueReader(strings.NewReader(data), format.decoder()).collect()
				if err != nil {
					t.Fatal(err)
				}
				d, values, intact, repairable = c.damage, len(c.values), c.intact("f"), c.repairable("f")
			} else {
				path := filepath.Join(t.TempDir(), BoundsFile)
				if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
					t.Fatal(err)
				}
				c, err := Run{}.readBounds(path)
				if err != nil {
					t.Fatal(err)
				}
				d, values, intact, repairable = c.damage, len(c.values), c.intact("f"), c.repairable("f")
				more = 1 // the header is one more line
			}
			name := fmt.Sprintf("%s, %s", tt.name, kind)
			if values != tt.values || (d != nil) != (tt.line > 0) || (intact == nil) != tt.intact || (repairable == nil) != tt.repairable {
				t.Errorf("%s: %d values, damage %+v, intact: %v, repairable: %v", name, values, d, intact, repairable)
				continue
			}
			if d != nil && (d.line != tt.line+more || d.tail != tt.tail) {
				t.Errorf("%s: damage %+v, want in line %d, tail %v", name, d, tt.line+more, tt.tail)
			}
			if intact != nil && !strings.HasPrefix(intact.Error(), fmt.Sprintf("f:%d: ", tt.line+more)) {
				t.Errorf("%s: error %v", name, intact)
			}
		}
	}
}

// A row without a checksum is damaged. A row whose checksum was computed with another header does not belong to the
// file.
func TestRowsNeedTheirChecksum(t *testing.T) {
	good := string(appendBounds(nil, 0, record(1).Bounds, 4, law.L2))
	bare := good[:strings.LastIndex(good, ",")] + "\n"
	other := string(checksum.Seed(0).AppendCSV([]byte("a,b"), boundsRow(record(1).Bounds[0], 4, law.L2))) + "\n"
	for data, want := range map[string]error{
		boundsHeader + "\n" + good: nil, boundsHeader + "\n" + bare: errUnsealed, boundsHeader + "\n" + other: errChanged,
		boundsHeader + "\n" + good[:len(good)-1]: errTorn,
		boundsHeader + "\n" + string(checksum.Seed(0).AppendCSV([]byte(boundsHeader), []byte("1,2,3,4,5"))) + "\n": errChanged,
	} {
		path := filepath.Join(t.TempDir(), BoundsFile)
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := Run{}.readBounds(path)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil && c.damage != nil || want != nil && (c.damage == nil || c.damage.err != want) {
			t.Errorf("%q: damage %+v, want %v", data[len(boundsHeader)+1:], c.damage, want)
		}
	}
	lines := func(sealed bool) fileFormat[votesLine] {
		return fileFormat[votesLine]{keys: []string{"index"}, sealed: sealed, valid: func(votesLine) error { return nil }}
	}
	if c, err := newValueReader(strings.NewReader(`{"index":1}`+"\n"), lines(true).decoder()).collect(); err != nil || len(c.values) != 0 || c.damage == nil || c.damage.err != errUnsealed {
		t.Errorf("a line without a checksum where there must be one: %+v, %v", c, err)
	}
	if c, err := newValueReader(strings.NewReader(`{"index":1}`+"\n"), lines(false).decoder()).collect(); err != nil || len(c.values) != 1 || c.damage != nil {
		t.Errorf("a line without a checksum: %+v, %v", c, err)
	}
	if got := string(boundsRow(certify.ConfidenceBound{Index: 1, Label: certify.UnknownLabel, Prediction: 2, Radius: 0.5, Lower: 0.25, Upper: 1, Confidence: 0.75, Certified: true, Alpha: 0.01}, 9, law.L2)); got != "1,-1,2,,0.75,0.5,0.25,1,9,1,0.01" {
		t.Errorf("a row without a label is %q", got)
	}
}

// A file of bounds that is not in a run folder must name the norm of its radii, unless the norm is L2.
func TestBoundsNameTheirNorm(t *testing.T) {
	for norm, want := range map[law.Norm][2]string{law.L2: {boundsHeader, ""}, law.L1: {normedHeader, ",l1,"}} {
		var b bytes.Buffer
		if err := WriteBounds(&b, record(1).Bounds, 4, norm); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(b.String(), "\n")
		if lines[0] != want[0] || !strings.Contains(lines[1], want[1]+"crc32c:") && want[1] != "" || strings.Contains(lines[1], ",l2,") {
			t.Errorf("%v: %q", norm, lines[:2])
		}
	}
}

// Under Laplace noise with a small scale, the lattice of the noise is finer than the lattice of bytes. The Step of the
// Target must then be the step of the lattice of bytes.
func TestStepsAreOfTheInputs(t *testing.T) {
	run := testRun
	run.Parameters.Law, run.Parameters.Sigma = law.Of(law.Laplace), 0.02
	run.Noise.Step, run.Noise.Inputs, run.Noise.Eta = "1/1530", dataset.Lattice{Kind: dataset.ByteLattice, Step: big.NewRat(1, 255)}.String(), 1e-30
	if got := run.Target(0.001).Step; got == nil || got.Cmp(big.NewRat(1, 255)) != 0 {
		t.Errorf("steps of %v, want 1/255", got)
	}
	run.Noise.Quantised = true
	if got := run.Target(0.001).Step; got != nil {
		t.Errorf("rounded inputs: steps of %v, want none", got)
	}
}

func TestCheckKeys(t *testing.T) {
	keys := []string{"index", "n"}
	for text, want := range map[string]string{
		`{"index":1,"n":2}`:                          "",
		`{"n":[1,{"a":1,"b":[]}],"index":"x","z":0}`: "",
		`{"index":1}`:                                "n is missing",
		`{}`:                                         "index is missing",
		`{"INDEX":1,"n":2}`:                          "index is missing",
		`{"index":1,"n":2,"N":3}`:                    `"N" appears twice`,
		`{"index":1,"n":2,"index":1}`:                `"index" appears twice`,
		`{"index":1,"n":{"a":1,"A":2}}`:              `"n": "A" appears twice`,
		`{"index":1,"n":[{"a":1,"a":2}]}`:            `"n": "a" appears twice`,
		`{"index":1,"n":null}`:                       `"n": is null`,
		`{"index":1,"n":[1,[null]]}`:                 `"n": is null`,
		`{"index":1,"n":{"a":null}}`:                 `"n": "a": is null`,
		`{"index":1,"n":2} {}`:                       "text behind",
		`{"index":1,"n":2}]`:                         "text behind",
		`[1]`:                                        "not a JSON object",
		`7`:                                          "not a JSON object",
		`{"index":1,"n":2`:                           "not complete",
		`{"index":1,"n":[2`:                          "not complete",
		``:                                           "not complete",
		`{"index":1,,}`:                              "invalid character",
	} {
		if err := checkKeys([]byte(text), keys); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if err := jsonError(fmt.Errorf("json: %s", strings.Repeat("é", 200))); len(err.Error()) > 130 || strings.HasPrefix(err.Error(), "json") {
		t.Errorf("a long error is %q", err)
	}
}

// The method 'Sampled' must accept the user's alpha if it is at least the run's alpha. It must accept the user's number
// of examples if this number is at least the run's number.
func TestSampled(t *testing.T) {
	some := func(x float64) *float64 { return &x }
	run, elsewhere := Bounds{Alpha: 0.01, Examples: 100}, Bounds{}
	for _, tt := range []struct {
		b        Bounds
		alpha    *float64
		examples int
		want     string
		a        float64
		n        int
	}{
		{run, nil, 0, "", 0.01, 100}, {run, some(0.01), 100, "", 0.01, 100}, {run, some(0.02), 150, "", 0.02, 150},
		{run, some(0.0099), 0, "the run's bounds fail with probability up to 0.01", 0, 0}, {run, nil, 99, "the run has sampled 100", 0, 0},
		{run, some(0), 0, "between 0 and 1", 0, 0}, {run, some(1), 0, "between 0 and 1", 0, 0}, {run, some(math.NaN()), 0, "between", 0, 0},
		{run, nil, -1, "at least 1", 0, 0},
		{elsewhere, nil, 5, "", 0, 5}, {elsewhere, some(0.1), 5, "", 0.1, 5}, {elsewhere, some(0.1), 0, "", 0.1, 0},
	} {
		a, n, err := tt.b.Sampled(tt.alpha, tt.examples)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && (a != tt.a || n != tt.n) {
			t.Errorf("%+v: alpha %v, %d examples, %v; want %v, %d, %q", tt, a, n, err, tt.a, tt.n, tt.want)
		}
	}
}

// When the samples of a run are certified again, the target must have the conditions of the run. A condition that the
// user gives must replace the condition of the run. The exception is σ: a given σ must equal the run's σ. If the run's
// noise is on a lattice, the target's level must be computed from the given alpha.
func TestGivenConditions(t *testing.T) {
	r := drawn()
	own := &Evidence{Path: "run", Run: &r}
	foreign := &Evidence{Path: "votes.jsonl"}
	some := func(x float64) *float64 { return &x }
	class, first, second := certify.Predicted, certify.FirstMargin, certify.SecondMargin
	with := func(change func(*certify.Target)) certify.Target {
		target := r.Target(0.001)
		change(&target)
		return target
	}
	for _, tt := range []struct {
		name  string
		e     *Evidence
		given Given
		want  certify.Target
		err   string
	}{
		{"nothing", own, Given{}, r.Target(0.001), ""},
		{"alpha", own, Given{Alpha: some(0.1)}, r.Target(0.1), ""},
		{"class", own, Given{Class: &class}, with(func(t *certify.Target) { t.Class = class }), ""},
		{"the same margin", own, Given{Margin: &first}, r.Target(0.001), ""},
		{"another margin", own, Given{Margin: &second}, with(func(t *certify.Target) { t.Margin, t.Lipschitz = second, 0 }), ""},
		{"lipschitz", own, Given{Lipschitz: some(5)}, with(func(t *certify.Target) { t.Lipschitz = 5 }), ""},
		{"the run's sigma", own, Given{Sigma: some(0.25)}, r.Target(0.001), ""},
		{"another sigma", own, Given{Sigma: some(0.5)}, certify.Target{}, "the run's noise has σ = 0.25"},
		{"a file", foreign, Given{Sigma: some(0.5)}, certify.Target{Alpha: 0.001, Sigma: 0.5}, ""},
		{"a file, all given", foreign, Given{Alpha: some(0.1), Sigma: some(0.5), Lipschitz: some(3), Class: &class, Margin: &first},
			certify.Target{Alpha: 0.1, Sigma: 0.5, Lipschitz: 3, Class: class, Margin: first}, ""},
		{"a file without sigma", foreign, Given{}, certify.Target{}, "sigma is missing"},
		{"sigma 0", foreign, Given{Sigma: some(0)}, certify.Target{}, "want a number above 0"},
		{"sigma ∞", foreign, Given{Sigma: some(math.Inf(1))}, certify.Target{}, "want a number above 0"},
	} {
		got, err := tt.e.Target(tt.given)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || err == nil && !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, %v; want %+v, %q", tt.name, got, err, tt.want, tt.err)
		}
	}
	// If the run also bounds the confidence, the certificates of classes may use only half of the run's alpha. If the
	// user gives an alpha, the certificates of classes may use all of it.
	bounded := *own.Run
	bounded.Parameters.ConfidenceRadii = []float64{0.5}
	for _, tt := range []struct {
		radii []float64
		given Given
		want  certify.Target
	}{
		{[]float64{0.5}, Given{}, r.Target(0.001).ClassOnly()}, {[]float64{0.5}, Given{Alpha: some(0.1)}, r.Target(0.1)}, {nil, Given{}, r.Target(0.001)},
	} {
		bounded.Parameters.ConfidenceRadii = tt.radii
		got, err := (&Evidence{Path: own.Path, Run: &bounded}).ClassTarget(tt.given)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("class of radii %v: %+v, %v; want %+v", tt.radii, got, err, tt.want)
		}
	}
	r.Parameters.Combine = certify.Projected
	taylor := certify.Taylor
	if own.Combine(nil) != certify.Projected || own.Combine(&taylor) != taylor || foreign.Combine(nil) != "" || foreign.Combine(&taylor) != taylor {
		t.Error("the combination is not the one given, else the run's")
	}
}

// Earlier versions wrote fewer columns to bounds.csv. If a resumed run finds such a file, it must resample every
// example that has rows in the file. The reason is that rows with more columns cannot be appended to the file.
func TestResumeEarlierBounds(t *testing.T) {
	dir := wholeRun(t)
	want := contents(t, dir)
	var earlier strings.Builder
	fmt.Fprintln(&earlier, certifiedHeader)
	for _, row := range strings.Split(strings.TrimSpace(want[BoundsFile]), "\n")[1:] {
		fields := strings.Split(row, ",")
		if fields[certifiedField] == "1" {
			fmt.Fprintln(&earlier, string(testRun.Seed().AppendCSV([]byte(certifiedHeader), []byte(strings.Join(fields[:certifiedField], ",")))))
		}
	}
	if err := os.WriteFile(filepath.Join(dir, BoundsFile), []byte(earlier.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	e, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := e.Bounds(); err != nil || b.AllExamples {
		t.Fatalf("the earlier bounds are read as %+v, %v", b, err)
	}
	f, err := Resume(dir, testRun)
	if err != nil {
		t.Fatal(err)
	}
	if n := f.Done(); n > 1 { // example 0 may count as done, because it has no rows
		t.Errorf("%d examples are done", n)
	}
	fill(t, f, f.Done(), 4)
	if err := errors.Join(f.Finish(), f.Close()); err != nil {
		t.Fatal(err)
	}
	for name, data := range contents(t, dir) {
		if data != want[name] {
			t.Errorf("%s differs:\n%s", name, data)
		}
	}
}

// The bounds of a run must state the number of examples and the number of missing examples. If a certificate is not
// sound, the method Bounds must return an error.
func TestBoundsOfARun(t *testing.T) {
	begin := func(change func(*Run), records ...Record) *Evidence {
		t.Helper()
		r := testRun
		change(&r)
		dir := filepath.Join(t.TempDir(), "run")
		f, err := Create(dir, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range records {
			if err := f.Append(rec); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		e, err := Find(dir)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	same := func(*Run) {}
	for _, tt := range []struct {
		change func(*Run)
		n      int
		want   Bounds
	}{
		{same, 4, Bounds{Alpha: 0.001, Examples: 4, Arithmetic: certify.Exact}},
		{same, 3, Bounds{Alpha: 0.001, Examples: 4, Unfinished: 1, Arithmetic: certify.Exact}},
		{func(r *Run) { r.Parameters.Class = certify.Label }, 1, Bounds{Alpha: 0.001, Examples: 4, Unfinished: 3, Label: true, Arithmetic: certify.Exact}},
	} {
		e := begin(tt.change, record(0), record(1), record(2), record(3))
		if tt.n < 4 {
			e = begin(tt.change, []Record{record(0), record(1), record(2)}[:tt.n]...)
		}
		got, err := e.Bounds()
		tt.want.File, tt.want.AllExamples, tt.want.ByVotes = filepath.Join(e.Path, BoundsFile), true, true
		if err != nil || got != tt.want {
			t.Errorf("%+v, %v; want %+v", got, err, tt.want)
		}
	}
	unsound := record(1)
	unsound.Certificate.Sound = false
	for want, e := range map[string]*Evidence{
		"example 1 was certified by margin, which is not sound": begin(same, record(0), unsound),
		"the run has no bounds on the confidence":               begin(func(r *Run) { r.Parameters.ConfidenceRadii = nil }, record(0)),
		"the rows of example 2 are not those of its certificate": begin(same, record(0), record(1), func() Record {
			r := record(2)
			r.Bounds = r.Bounds[:1]
			return r
		}()),
	} {
		if _, err := e.Bounds(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	e := begin(same, record(0))
	if other, err := Find(filepath.Join(e.Path, VotesFile)); err != nil {
		t.Fatal(err)
	} else if _, err := other.Bounds(); err == nil || !strings.Contains(err.Error(), "this command reads another file of the run") {
		t.Errorf("bounds of votes.jsonl: %v", err)
	}
	if byRun, err := Find(filepath.Join(e.Path, RunFile)); err != nil {
		t.Fatal(err)
	} else if b, err := byRun.Bounds(); err != nil || b.Unfinished != 3 {
		t.Errorf("bounds by run.json: %+v, %v", b, err)
	}
}

// If the votes and the certificate of a record have different indices, labels or numbers of samples, readers must
// refuse the record.
func TestRecordsFitTogether(t *testing.T) {
	if err := checkPair(record(1).Votes, record(1).Certificate); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*certify.Certificate){
		"index": func(c *certify.Certificate) { c.Index = 7 }, "label": func(c *certify.Certificate) { c.Label = 0 }, "n": func(c *certify.Certificate) { c.N = 9 },
	} {
		dir := filepath.Join(t.TempDir(), "run")
		f, err := Create(dir, testRun)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			r := record(i)
			if i == 1 {
				change(&r.Certificate)
			}
			if err := f.Append(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		visited := 0
		_, err = testRun.readExamples(dir, 3, func(Done) error { visited++; return nil })
		if want := filepath.Join(dir, CertificatesFile) + ":2: is of example "; err == nil || !strings.HasPrefix(err.Error(), want) || visited != 1 {
			t.Errorf("another %s: %v after %d examples, want %s", name, err, visited, want)
		}
	}
}

// In a run that may stop early, an example may have fewer than n votes, but never more. Votes for an example beyond the
// last example of the run must be refused.
func TestCheckVotes(t *testing.T) {
	stop, err := certify.ParseStop("radius>=1")
	if err != nil {
		t.Fatal(err)
	}
	votes := func(n int64, s certify.StopRule) certify.Votes {
		return certify.Votes{Index: 0, N0: 5, Counts0: []int64{5, 0}, N: n, Counts: []int64{n, 0}, Stop: s}
	}
	for _, tt := range []struct {
		stop certify.StopRule
		n    int64
		turn int
		want string
	}{
		{certify.StopRule{}, 10, 0, ""}, {certify.StopRule{}, 9, 0, "n is 9, the run's 10"}, {certify.StopRule{}, 11, 0, "n is 11"},
		{stop, 10, 0, ""}, {stop, 9, 0, ""}, {stop, 11, 0, "n is 11, the run's 10"}, {stop, 9, 1, "the run has 1 examples, and this is one more"},
	} {
		r := testRun
		r.Parameters.Stop = tt.stop
		err := r.checkVotes(votes(tt.n, tt.stop), tt.turn, []int{0})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("n = %d, turn %d: %v, want %q", tt.n, tt.turn, err, tt.want)
		}
	}
}

// A run.json with values that no run can have must be rejected, even if its checksum is valid.
func TestRunsThatAreNone(t *testing.T) {
	for name, change := range map[string]func(*Run){
		"examples": func(r *Run) { r.Data.Examples = 0 }, "selected": func(r *Run) { r.Data.Selected = 0 }, "classes": func(r *Run) { r.Model.Classes = 1 },
		"n": func(r *Run) { r.Parameters.N = 0 }, "n0": func(r *Run) { r.Parameters.N0 = -1 }, "skip": func(r *Run) { r.Parameters.Skip = 0 },
		"max": func(r *Run) { r.Parameters.Max = -1 }, "nothing": func(*Run) {},
		"no table": func(r *Run) { r.Noise.Table = "" }, "no entries": func(r *Run) { r.Noise.Entries = 0 },
		"a loss below 0": func(r *Run) { r.Noise.Eta = -1 },
	} {
		r := testRun
		change(&r)
		dir := t.TempDir()
		if err := r.write(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); (err == nil) != (name == "nothing") {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := testRun
	other := r
	other.Noise.Eta = 1
	if err := r.compatible("dir", other); err == nil || !strings.Contains(err.Error(), "the table of the noise") {
		t.Errorf("another table: %v", err)
	}
	other = r
	other.Model.Changes = []string{"columns 'a', 'b' joined"}
	if err := r.compatible("dir", other); err == nil || !strings.Contains(err.Error(), "the model's adaptation was not given, now columns 'a', 'b' joined") {
		t.Errorf("another edit of the model: %v", err)
	}
	other = r
	other.Runtime.Provider = "cuda"
	if err := r.compatible("dir", other); err == nil || !strings.Contains(err.Error(), "the provider was cpu, now cuda") {
		t.Errorf("another provider: %v", err)
	}
	if err := r.compatible("dir", r); err != nil {
		t.Error(err)
	}
	r.Parameters.Noise, r.Noise = spec.Float, Noise{}
	if err := r.validate(); err != nil {
		t.Errorf("noise in floats needs no table: %v", err)
	}
}

// The last bits of scores may depend on where the noise is made and on the number of samples in a call. The votes do
// not depend on these two conditions.
func TestConditionsOfScores(t *testing.T) {
	for _, scores := range []bool{false, true} {
		r := testRun
		r.Parameters.Scores = scores
		r.Runtime.NoiseOn, r.Runtime.Call = "host", 32
		device, call := r, r
		device.Runtime.NoiseOn, call.Runtime.Call = "device", 9
		for want, other := range map[string]Run{
			"--noise-on was host, now device": device,
			"the samples a call (batch), on which the last bits of scores may depend, were 32, now 9": call,
		} {
			err := r.compatible("dir", other)
			if scores && (err == nil || !strings.Contains(err.Error(), want)) || !scores && err != nil {
				t.Errorf("scores %v: %v, want %q", scores, err, want)
			}
		}
		if diff := r.Differences(device); (len(diff) == 1) != scores || scores && diff[0] != (Difference{"--noise-on", "host", "device", OfComputation}) {
			t.Errorf("scores %v: %v", scores, diff)
		}
		if diff := r.Differences(call); len(diff) != 0 { // shards may differ in Call: each example is in only one shard
			t.Errorf("scores %v: %v", scores, diff)
		}
		device.Runtime.NoiseOn, call.Runtime.Call = "", 0 // runs of older versions lack these values
		if err := errors.Join(r.compatible("dir", device), r.compatible("dir", call)); err != nil {
			t.Errorf("not recorded: %v", err)
		}
	}
}

// If Read would refuse the run.json of a Run, Create and Resume must refuse this Run, too.
func TestCreateValidates(t *testing.T) {
	for name, change := range map[string]func(*Run){
		"no example":  func(r *Run) { r.Data.Selected = 0 },
		"one class":   func(r *Run) { r.Model.Classes = 1 },
		"no samples":  func(r *Run) { r.Parameters.N = 0 },
		"no noise":    func(r *Run) { r.Noise = Noise{} },
		"shard of 0":  func(r *Run) { r.Parameters.Shard.K = 0 },
		"twice there": func(r *Run) { r.Data.Shards = []spec.Shard{spec.Whole, {I: 1, K: 2}} },
	} {
		run, dir := testRun, t.TempDir()
		change(&run)
		if _, err := Create(dir, run); err == nil {
			t.Errorf("%s: a folder is begun", name)
		}
		f, err := Create(dir, testRun)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Resume(dir, run); err == nil {
			t.Errorf("%s: a folder is resumed", name)
		}
	}
}

// Space must give a range for values that are clamped, and for the bytes of an image. It must give no range for the
// values of a table, even if each value is k/255 for an integer k, as in an image.
func TestSpace(t *testing.T) {
	r := drawn()
	r.Noise.Quantised = false
	r.Noise.Inputs = "values are bytes k/255"
	if s := r.Space(); s != (certify.Space{Dim: 60, Span: 1}) {
		t.Errorf("images: %+v", s)
	}
	r.Data.Shape = []int{60}
	if s := r.Space(); s != (certify.Space{Dim: 60}) {
		t.Errorf("a table: %+v", s)
	}
	r.Noise.Quantised, r.Noise.Low, r.Noise.High = true, -1, 3
	if s := r.Space(); s != (certify.Space{Dim: 60, Span: 4}) {
		t.Errorf("clamped: %+v", s)
	}
}
