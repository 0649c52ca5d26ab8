package table

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/sbinet/npyio/npz"
)

func readString(s string, opt Options) (*Table, error) {
	opt.Input = strings.NewReader(s)
	return Read(context.Background(), Stdin, opt)
}

func TestReadText(t *testing.T) {
	wanted := Options{Required: []string{"score", "label"}, Optional: []string{"weight"}}
	tests := []struct {
		name, in string
		score    []float64
		label    []float64
		lines    []int
	}{
		{"csv", "score,label\n0.25,1\n1,0\n", []float64{.25, 1}, []float64{1, 0}, []int{2, 3}},
		{"any order, text beside", "name,label,score\nx,1,0.5\n\"a, b\",0,1e-3\n", []float64{.5, 1e-3}, []float64{1, 0}, []int{2, 3}},
		{"crlf, blank lines, no last newline, mark", "\xef\xbb\xbfscore,label\r\n\r\n0.5,1\r\n\r\n\r\n0.75,0", []float64{.5, .75}, []float64{1, 0}, []int{3, 6}},
		{"spaces", " score , label \n 0.5 , 1 \n", []float64{.5}, []float64{1}, []int{2}},
		{"tabs", "score\tlabel\n0.5\t1\n", []float64{.5}, []float64{1}, []int{2}},
		{"booleans", "score,label\n0.5,true\n0.5,False\n", []float64{.5, .5}, []float64{1, 0}, []int{2, 3}},
		{"quoted numbers", "\"score\",\"label\"\n\"0.5\",\"1\"\n", []float64{.5}, []float64{1}, []int{2}},
		{"json lines", `{"score":0.5,"label":1}` + "\n\n" + `{"label":false,"score":1e-2}`, []float64{.5, .01}, []float64{1, 0}, []int{1, 3}},
		{"json beside", `{"id":"a,\"b","score":0.5,"nested":{"score":3},"label":1,"x":null}`, []float64{.5}, []float64{1}, []int{1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, compressed := range []bool{false, true} {
				in := tt.in
				if compressed {
					var b bytes.Buffer
					w := gzip.NewWriter(&b)
					fmt.Fprint(w, in)
					w.Close()
					in = b.String()
				}
				tab, err := readString(in, wanted)
				if err != nil {
					t.Fatal(err)
				}
				score, _ := tab.Column("score")
				label, _ := tab.Column("label")
				if !slices.Equal(score, tt.score) || !slices.Equal(label, tt.label) {
					t.Errorf("got %v %v", score, label)
				}
				if _, ok := tab.Column("weight"); ok {
					t.Error("weight appeared")
				}
				for i, want := range tt.lines {
					if got := tab.Line(i); got != want {
						t.Errorf("row %d on line %d, want %d", i, got, want)
					}
				}
			}
		})
	}
}

func TestErrorsSayWhere(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"empty", "", "stdin: empty file"},
		{"only header", "score,label\n", "stdin: no rows"},
		{"missing column", "score,y\n1,1\n", `stdin:1: no column "label" in the header (score, y)`},
		{"picture", "\x1b[2J\xff,b\n1,1\n", `stdin:1: no column "score" in the header (\x1b[2J\xff, b)`},
		{"few fields", "score,label\n1,1\n1\n", "stdin:3: 1 fields, the header has 2"},
		{"many fields", "score,label\n1,1,1\n", "stdin:2: 3 fields, the header has 2"},
		{"many quoted fields", "score,label\n1,1,\"1\"\n", "stdin:2: 3 fields, the header has 2"},
		{"text", "score,label\n1,1\n\n1,cat\n", `stdin:4: label: "cat" is not a number`},
		{"empty value", "score,label\n,1\n", "stdin:2: score: empty value"},
		{"nan", "score,label\nnan,1\n", "stdin:2: score: nan must be finite"},
		{"overflow", "score,label\n1e999,1\n", "stdin:2: score: 1e999 must be finite"},
		{"hexadecimal", "score,label\n0x1p-2,1\n", `stdin:2: score: "0x1p-2" is not a number`},
		{"column twice", "score,label,score\n1,1,1\n", `stdin:1: column "score" appears twice`},
		{"open quote", "score,label\n\"1,1\n", "stdin:2: extraneous or missing \" in quoted-field"},
		{"json missing key", `{"score":1,"label":1}` + "\n" + `{"score":1}`, `stdin:2: no "label"`},
		{"json first line", `{"score":1}`, `stdin:1: no "label"`},
		{"json late key", `{"score":1,"label":1}` + "\n" + `{"score":1,"label":1,"weight":2}`, "stdin:2: weight is missing in the first line"},
		{"json key twice", `{"score":1,"score":1,"label":1}`, "stdin:1: score appears twice"},
		{"json string", `{"score":"1","label":1}`, `stdin:1: score: "\"1\"" is not a number`},
		{"json null", `{"score":null,"label":1}`, `stdin:1: score: "null" is not a number`},
		{"json cut", `{"score":1,"label":1`, "stdin:1: the JSON object is not complete"},
		{"json tail", `{"score":1,"label":1} 7`, "stdin:1: text after the JSON object"},
		{"json NaN", `{"score":NaN,"label":1}`, "stdin:1: invalid character"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readString(tt.in, Options{Required: []string{"score", "label"}, Optional: []string{"weight"}})
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
	_, err := readString("a\nnan\n-inf\n", Options{Required: []string{"a"}, AllowNonFinite: true})
	if err != nil {
		t.Error(err)
	}
	if _, err := Read(context.Background(), filepath.Join(t.TempDir(), "no.csv"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Read(ctx, Stdin, Options{Input: strings.NewReader("a\n1\n")}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestCancelledWhileWaiting cancels a Read that waits for input. The input never comes.
func TestCancelledWhileWaiting(t *testing.T) {
	silent, writer := io.Pipe()
	defer writer.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = writer.Write([]byte("a\n")) // Write returns when Read has read this text
		cancel()
	}()
	if _, err := Read(ctx, Stdin, Options{Input: silent}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

func TestMatchAndNames(t *testing.T) {
	tab, err := readString("p10,p2,other,label\n0.1,0.9,x,1\n", Options{
		Required: []string{"label"},
		Match:    func(name string) bool { return name[0] == 'p' },
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := tab.Names(); !slices.Equal(got, []string{"p10", "p2", "label"}) {
		t.Errorf("names %v", got)
	}
}

func TestLongLine(t *testing.T) {
	var b strings.Builder
	b.WriteString("label")
	for j := range 40_000 {
		fmt.Fprintf(&b, ",column%d", j)
	}
	b.WriteString("\n1" + strings.Repeat(",0.125", 40_000) + "\n")
	if b.Len() < 2*bufferSize {
		t.Fatal("not long enough to leave the buffer")
	}
	tab, err := readString(b.String(), Options{Required: []string{"label", "column39999"}})
	if err != nil {
		t.Fatal(err)
	}
	if c, _ := tab.Column("column39999"); c[0] != 0.125 {
		t.Error(c)
	}
}

func TestProgressCountsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.csv")
	text := "a\n" + strings.Repeat("0.5\n", 200_000)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen int64
	tab, err := Read(context.Background(), path, Options{Required: []string{"a"}, Progress: func(n int64) { seen += n }})
	if err != nil || tab.N != 200_000 || seen != int64(len(text)) {
		t.Errorf("%v, %d of %d bytes", err, seen, len(text))
	}
}

// TestParseDecimalIsStrconv compares parseDecimal with strconv on decimals of every length.
func TestParseDecimalIsStrconv(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		s := strconv.FormatFloat(rng.NormFloat64()*math.Pow(10, float64(rng.IntN(12)-6)), 'f', rng.IntN(19), 64)
		want, _ := strconv.ParseFloat(s, 64)
		if got, ok := parseDecimal([]byte(s)); ok && math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%s: %v, want %v", s, got, want)
		}
		if got, err := parseValue([]byte(s), false); err != nil || got != want {
			t.Fatalf("%s: %v %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "-", ".", "1.2.3", "1e5", "+1", "--1"} {
		if x, ok := parseDecimal([]byte(s)); ok {
			t.Errorf("%q read as %v", s, x)
		}
	}
}

// The npz files are written by another implementation (sbinet/npyio). For the cases that npyio cannot write, the test
// writes raw headers by hand.
func TestReadNpz(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npz")
	err := npz.Write(path, map[string]any{
		"score":  []float32{0.5, 0.25},
		"label":  []int64{1, 0},
		"flag":   []bool{true, false},
		"small":  []uint8{200, 1},
		"logits": [2][3]float64{{1, 2, 3}, {4, 5, 6}},
	})
	if err != nil {
		t.Fatal(err)
	}
	tab, err := Read(context.Background(), path, Options{
		Required: []string{"score", "label"}, Optional: []string{"flag", "small", "absent"}, Matrices: []string{"logits"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float64{"score": {.5, .25}, "label": {1, 0}, "flag": {1, 0}, "small": {200, 1}} {
		if got, _ := tab.Column(name); !slices.Equal(got, want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	m, ok := tab.Matrix("logits")
	if !ok || m.Cols != 3 || !slices.Equal(m.Row(1), []float64{4, 5, 6}) {
		t.Errorf("logits: %v", m)
	}
	if tab.Line(1) != 0 || tab.Errorf(1, "bad").Error() != path+": row 1: bad" {
		t.Error(tab.Errorf(1, "bad"))
	}
	if _, err := Read(context.Background(), path, Options{Required: []string{"logits"}}); err == nil ||
		err.Error() != path+": logits: is a 2-D array, must be 1-D" {
		t.Error(err)
	}
}

// archive returns an npz file with one array, which has the given NumPy header and data.
func archive(header string, data []byte) string {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, _ := w.Create("a.npy")
	fmt.Fprintf(f, "\x93NUMPY\x01\x00%c%c%s", len(header)&255, len(header)>>8, header)
	f.Write(data)
	w.Close()
	return b.String()
}

func TestNpyHeaders(t *testing.T) {
	opt := Options{Matrices: []string{"a"}, Required: []string{"a"}}
	tests := []struct {
		name, header string
		data         []byte
		want         []float64
		err          string
	}{
		{"big-endian", "{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }\n", []byte{0, 1, 0xff, 0xff}, []float64{1, -1}, ""},
		{"half", "{'descr': '<f2', 'fortran_order': False, 'shape': (1,), }\n", []byte{0, 0x38}, []float64{.5}, ""},
		{"fortran", "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", []byte{1, 4, 2, 5, 3, 6}, []float64{1, 2, 3, 4, 5, 6}, ""},
		{"cut", "{'descr': '|u1', 'fortran_order': False, 'shape': (9,), }\n", []byte{1}, nil, "ends before the data of an array of shape (9,), which needs"},
		{"huge", "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999, 99999999999), }\n", []byte{1}, nil, "out of range"},
		{"large claim", "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999,), }\n", []byte{1}, nil, "ends before the data of an array of shape (99999999999,)"},
		{"text", "{'descr': '<U3', 'fortran_order': False, 'shape': (1,), }\n", nil, nil, "not numeric"},
		{"3-D", "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 1), }\n", nil, nil, "3-D"},
		{"nonsense", "{}\n", nil, nil, "cannot read"},
		{"nan", "{'descr': '<f2', 'fortran_order': False, 'shape': (1,), }\n", []byte{1, 0x7c}, nil, "must be finite"},
		{"no rows", "{'descr': '<f2', 'fortran_order': False, 'shape': (0,), }\n", nil, nil, "no rows"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab, err := readString(archive(tt.header, tt.data), opt)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if m, _ := tab.Matrix("a"); !slices.Equal(m.Data, tt.want) {
				t.Errorf("got %v", m.Data)
			}
		})
	}
}

// checkedCSV and checkedJSON return small files as rscert writes them.
func checkedCSV() string {
	header := "index,lower,upper,check"
	text := header + "\n"
	for i := range 4 {
		row := fmt.Sprintf("%d,0.%d25,0.9", i, i)
		text += string(checksum.Seed(0).AppendCSV([]byte(header), []byte(row))) + "\n"
	}
	return text
}

func checkedJSON() string {
	text := ""
	for i := range 4 {
		line := fmt.Sprintf(`{"index":%d,"lower":0.%d25,"method":"betting","upper":0.9}`, i, i)
		text += string(checksum.Seed(0).AppendJSON([]byte(line))) + "\n"
	}
	return text
}

var boundsOptions = Options{Required: []string{"lower", "upper"}, Optional: []string{"index"}}

func TestChecked(t *testing.T) {
	csv, jsonLines := checkedCSV(), checkedJSON()
	plain := regexp.MustCompile(`,check|,crc32c:\w+`).ReplaceAllString(csv, "")
	plainJSON := regexp.MustCompile(`,"check":"crc32c:\w+"`).ReplaceAllString(jsonLines, "")
	for name, in := range map[string]string{"csv": csv, "json": jsonLines, "plain csv": plain, "plain json": plainJSON,
		"windows": strings.ReplaceAll(csv, "\n", "\r\n"), "blank lines": "\xef\xbb\xbf" + strings.ReplaceAll(jsonLines, "\n", "\n\n")} {
		tab, err := readString(in, boundsOptions)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		lower, _ := tab.Column("lower")
		if !slices.Equal(lower, []float64{.025, .125, .225, .325}) || tab.Checked() == strings.HasPrefix(name, "plain") || len(tab.Names()) != 3 {
			t.Errorf("%s: %v, checked %v", name, lower, tab.Checked())
		}
	}
	// This file has a column called 'check' that does not hold checksums. Read must treat it as an ordinary column.
	if tab, err := readString("lower,upper,check\n0,1,yes\n0,1,\n", boundsOptions); err != nil || tab.Checked() {
		t.Error(err)
	}

	// Read keeps a copy of the header, because the next line overwrites the buffer that held the header.
	long, header := "lower,upper,check\n", []byte("lower,upper,check")
	for i := range 30_000 {
		long += string(checksum.Seed(0).AppendCSV(header, fmt.Appendf(nil, "0.%05d,1", i))) + "\n"
	}
	if tab, err := readString(long, boundsOptions); err != nil || !tab.Checked() || len(long) < 2*bufferSize {
		t.Errorf("%d bytes: %v", len(long), err)
	}

	cut := func(text string, line int, old, new string) string {
		lines := strings.SplitAfter(text, "\n")
		lines[line-1] = strings.Replace(lines[line-1], old, new, 1)
		return strings.Join(lines, "")
	}
	csvCell, jsonCell := regexp.MustCompile(`,crc32c:\w+`).FindAllString(csv, -1), regexp.MustCompile(`,"check":"crc32c:\w+"`).FindAllString(jsonLines, -1)
	for _, c := range []struct{ name, in, want string }{
		{"csv value", cut(csv, 3, "0.125", "0.225"), "stdin:3: line has changed since it was written: its checksum does not match (deleting \"check\""},
		{"csv header", cut(csv, 1, "lower,upper", "upper,lower"), "stdin:2: line has changed"},
		{"csv no name", cut(csv, 1, "check", "note"), "stdin:2: line has changed"},
		{"csv last loses it", cut(csv, 5, csvCell[3], ","), "stdin:5: line has no checksum"},
		{"csv first loses it", cut(csv, 2, csvCell[0], ","), "stdin:3: line has a checksum"},
		{"csv of tabs", strings.ReplaceAll(csv, ",", "\t"), "stdin:2: line has changed"},
		{"json value", cut(jsonLines, 3, "0.225", "0.125"), "stdin:3: line has changed"},
		{"json key", cut(jsonLines, 2, "lower", "upper"), "stdin:2: line has changed"},
		{"json loses it", cut(jsonLines, 4, jsonCell[3], ""), "stdin:4: line has no checksum"},
		{"json first loses it", cut(jsonLines, 1, jsonCell[0], ""), "stdin:2: line has a checksum"},
		{"json key behind it", cut(jsonLines, 1, `"}`, `","x":1}`), "stdin:1: line has changed"},
	} {
		if _, err := readString(c.in, boundsOptions); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// If any bit of a file with checksums is flipped, even in the header or in a newline, Read must return an error.
func TestFlips(t *testing.T) {
	for name, text := range map[string]string{"csv": checkedCSV(), "json": checkedJSON(),
		"one row": "lower,upper,check\n" + string(checksum.Seed(0).AppendCSV([]byte("lower,upper,check"), []byte("0,1"))) + "\n"} {
		for _, opt := range []Options{boundsOptions, {Optional: []string{"index", "lower", "upper"}}} {
			n := 0
			for i := range len(text) * 8 {
				flipped := []byte(text)
				flipped[i/8] ^= 1 << (i % 8)
				if _, err := readString(string(flipped), opt); err != nil {
					n++
				} else {
					t.Errorf("%s: byte %d, bit %d: no error: %q", name, i/8, i%8, flipped)
				}
			}
			t.Logf("%s: %d of %d flips found", name, n, 8*len(text))
		}
	}
}

// FuzzChecked reads changed files with checksums. If Read accepts a changed file and finds checksums in it, every row
// must be a row of the original file.
func FuzzChecked(f *testing.F) {
	csv, jsonLines := checkedCSV(), checkedJSON()
	rows := map[string]bool{}
	for _, text := range []string{csv, jsonLines} {
		f.Add([]byte(text))
		f.Add([]byte(text[:len(text)-20]))
		tab, err := readString(text, boundsOptions)
		if err != nil {
			f.Fatal(err)
		}
		for i := range tab.N {
			rows[rowOf(tab, i)] = true
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		tab, err := readString(string(in), boundsOptions)
		if err != nil || !tab.Checked() {
			return
		}
		for i := range tab.N {
			if !rows[rowOf(tab, i)] {
				t.Errorf("row %d is %s: %q", i, rowOf(tab, i), in)
			}
		}
	})
}

func rowOf(tab *Table, i int) string {
	text := ""
	for _, name := range []string{"index", "lower", "upper"} {
		c, _ := tab.Column(name)
		text += fmt.Sprint(c[i], " ")
	}
	return text
}

// An error prints at most one line of text from the input, without control characters.
func TestErrorsArePrintable(t *testing.T) {
	long := strings.Repeat("\x1b[2J", 10_000)
	odd := filepath.Join(t.TempDir(), "a\x1b[2J\nb.csv")
	if err := os.WriteFile(odd, []byte("x\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	opt := Options{Required: []string{"score"}, Match: func(name string) bool { return strings.HasPrefix(name, "\x1b") }}
	for _, in := range []string{
		long + "\n1\n", "score\n" + long + "\n", "score," + long + "\n1,x\n", "score," + long + "," + long + "\n1,2,3\n",
		`{"score":"` + long + `"}`, `{"` + long + `":1}`, "{" + long, "score\nnan" + long + "\n",
		`{"score":1,"\u001b` + strings.Repeat("x", 10_000) + `":true,"\u001b` + strings.Repeat("x", 10_000) + `":true}`,
	} {
		_, err := readString(in, opt)
		if err == nil || len(err.Error()) > 600 || strings.ContainsFunc(err.Error(), unicode.IsControl) {
			t.Errorf("%.30q: %d bytes: %.300q", in, len(fmt.Sprint(err)), fmt.Sprint(err))
		}
	}
	for _, path := range []string{odd, odd + "x", filepath.Dir(odd)} {
		_, err := Read(context.Background(), path, Options{Required: []string{"score"}})
		if err == nil || strings.ContainsFunc(err.Error(), unicode.IsControl) {
			t.Errorf("%q", err)
		}
	}
}

// limited reads a table while memory.Limit is the given limit. To this end, it sets Go's memory limit to twice the
// given limit.
func limited(t *testing.T, limit int64, in string, opt Options) error {
	t.Helper()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(2 * limit))
	_, err := readString(in, opt)
	return err
}

func TestMemoryIsBounded(t *testing.T) {
	zeros := func(header string, n int) string { return archive(header, make([]byte, n)) }
	rows := strings.Repeat("1\n", 200_000)
	objects := strings.Repeat("{\"a\":1}\n", 200_000)
	matrix := Options{Required: []string{"a"}, Matrices: []string{"a"}}
	for name, c := range map[string]struct {
		in  string
		fit int64 // a memory limit that suffices
	}{
		"csv":         {"a\n" + rows, 1_600_000},
		"json":        {objects, 1_600_008},
		"npz":         {zeros("{'descr': '|u1', 'fortran_order': False, 'shape': (2000000,), }\n", 2_000_000), 16_100_000},
		"npz Fortran": {zeros("{'descr': '|u1', 'fortran_order': True, 'shape': (20, 100000), }\n", 2_000_000), 32_100_000},
	} {
		if err := limited(t, c.fit, c.in, matrix); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := limited(t, c.fit*9/10, c.in, matrix); err == nil || !strings.Contains(err.Error(), "of memory") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	// The archive comes from a reader that never ends.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(8 << 20))
	given := 0
	endless := io.MultiReader(strings.NewReader("PK"), readerFunc(func(p []byte) (int, error) { given += len(p); return len(p), nil }))
	if _, err := Read(context.Background(), Stdin, Options{Input: endless}); err == nil || !strings.Contains(err.Error(), "of memory") {
		t.Errorf("endless archive: %v", err)
	}
	if given > 4<<20 { // Read should give up after about 2 MiB
		t.Errorf("%d bytes were read of an endless archive", given)
	}
	many := strings.Repeat(",", maxColumns)
	for _, in := range []string{many + "\n", "a\n\"" + many + many + "\"\n"} {
		if _, err := readString(in, matrix); err == nil || !strings.Contains(err.Error(), "columns; at most") && !strings.Contains(err.Error(), "fields, the header has 1") {
			t.Errorf("%v", err)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// FuzzRead checks that no input causes a panic, that all columns have the same length, and that the line of every row
// is inside the file.
func FuzzRead(f *testing.F) {
	f.Add([]byte("score,label\n0.5,1\n"))
	f.Add([]byte("label\tscore\r\n\"1\"\t.5\r\n"))
	f.Add([]byte(`{"score":0.5,"label":true}` + "\n\n" + `{"label":0,"score":1,"x":[1]}`))
	f.Add([]byte(archive("{'descr': '<f2', 'fortran_order': True, 'shape': (1,1), }\n", []byte{0, 0x38})))
	f.Fuzz(func(t *testing.T, in []byte) {
		tab, err := readString(string(in), Options{Required: []string{"score"}, Optional: []string{"label"}, Matrices: []string{"a"}})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "stdin:") {
				t.Fatalf("error without a place: %v", err)
			}
			return
		}
		lines := bytes.Count(in, []byte("\n")) + 1
		for _, name := range tab.Names() {
			c, ok := tab.Column(name)
			if ok && len(c) != tab.N {
				t.Fatalf("%s has %d of %d rows", name, len(c), tab.N)
			}
			for i, x := range c {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Fatal("not finite")
				}
				if l := tab.Line(i); !tab.binary && in[0] != 0x1f && (l < 1 || l > lines) {
					t.Fatalf("row %d on line %d of %d", i, l, lines)
				}
			}
		}
	})
}

// FuzzObject checks that flatObject, the fast path, returns what encoding/json returns.
func FuzzObject(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":-2.5e3,"c":true}`))
	f.Add([]byte(`{ "a" : 01 }`))
	f.Add([]byte(`{"a":1,}`))
	f.Add([]byte(`{"a:":1 , "b":"x,y"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if _, ok := flatObject(line); !ok {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatalf("accepted %q: %v", line, err)
		}
		got := map[string]string{}
		if err := object(line, func(k, v []byte) error { got[string(k)] = string(v); return nil }); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %v, want %v", line, got, want)
		}
		for k, v := range want {
			if got[k] != string(v) {
				t.Fatalf("%q: %s is %q, want %q", line, k, got[k], v)
			}
		}
	})
}

func BenchmarkReadCSV(b *testing.B) {
	const rows = 1_000_000
	rng := rand.New(rand.NewPCG(1, 2))
	var text bytes.Buffer
	text.WriteString("score,label\n")
	for range rows {
		text.WriteString(strconv.FormatFloat(rng.Float64(), 'g', -1, 64))
		text.WriteString([]string{",0\n", ",1\n"}[rng.IntN(2)])
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := Read(context.Background(), Stdin, Options{Required: []string{"score", "label"}, Input: bytes.NewReader(text.Bytes())}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}
