package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// Writer writes a float64 as text. From this text, Read must get exactly the same float64.
func TestWriterRoundTrip(t *testing.T) {
	values := []float64{0.1, 1.0 / 3, 5e-324, -1e300, 0, math.MaxFloat64}
	var b bytes.Buffer
	w := NewWriter(&b)
	w.Header("a,b", "index", "right", "nothing")
	for i, x := range values {
		w.Float(x)
		w.Int(-i)
		w.Bool(i%2 == 0)
		w.Empty()
		w.EndRow()
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := "\"a,b\",index,right,nothing\n0.1,0,1,\n0.3333333333333333,-1,0,\n"; !strings.HasPrefix(b.String(), want) {
		t.Errorf("got %q, want it to begin with %q", &b, want)
	}
	table, err := Read(t.Context(), Stdin, Options{Input: &b, Required: []string{"a,b", "index", "right"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := table.Column("a,b"); !slices.Equal(got, values) {
		t.Errorf("got %v, want %v", got, values)
	}
	if got, _ := table.Column("right"); !slices.Equal(got, []float64{1, 0, 1, 0, 1, 0}) {
		t.Errorf("right is %v", got)
	}
}

type full struct{}

var errFull = errors.New("disk full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriterText(t *testing.T) {
	var b strings.Builder
	w := NewWriter(&b)
	w.Header("name", "x")
	for _, name := range []string{"plain", "a,b", `say "hi"`, ""} {
		w.Text(name)
		w.Int(1)
		w.EndRow()
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := "name,x\nplain,1\n\"a,b\",1\n\"say \"\"hi\"\"\",1\n,1\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestWriterErrors(t *testing.T) {
	for _, test := range []struct {
		name  string
		write func(w *Writer)
		want  string
	}{
		{"too few", func(w *Writer) { w.Header("a", "b"); w.Int(1); w.EndRow() }, "a row of 1 fields for 2 columns"},
		{"too many", func(w *Writer) { w.Header("a"); w.Int(1); w.Int(2); w.EndRow() }, "a row of 2 fields for 1 columns"},
		{"no header", func(w *Writer) { w.Int(1); w.EndRow(); w.Int(1); w.Int(2); w.EndRow() }, "a row of 2 fields for 1 columns"},
		{"nothing", func(w *Writer) { w.EndRow() }, "a row of 0 fields"},
		{"no end", func(w *Writer) { w.Int(1) }, "no end"},
	} {
		w := NewWriter(&bytes.Buffer{})
		test.write(w)
		if err := w.Flush(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		}
	}
	w := NewWriter(full{})
	w.Header("a")
	if err := w.Flush(); !errors.Is(err, errFull) {
		t.Errorf("error %v, want %v", err, errFull)
	}
}

func TestGroupAndSelect(t *testing.T) {
	const file = "radius,x\n\n0.5,1\n0,2\n-0,3\n0.25,4\n0.5,5\n"
	table, err := Read(t.Context(), Stdin, Options{Input: strings.NewReader(file), Required: []string{"radius", "x"}})
	if err != nil {
		t.Fatal(err)
	}
	groups := table.GroupRows("radius")
	want := []Group{{Value: 0, Rows: []int{1, 2}}, {Value: 0.25, Rows: []int{3}}, {Value: 0.5, Rows: []int{0, 4}}}
	if len(groups) != len(want) || math.Signbit(groups[0].Value) {
		t.Fatalf("groups %v, want %v", groups, want)
	}
	for k, g := range groups {
		if g.Value != want[k].Value || !slices.Equal(g.Rows, want[k].Rows) {
			t.Errorf("group %v, want %v", g, want[k])
		}
	}
	if table.GroupRows("y") != nil {
		t.Error("groups by a column that is not there")
	}
	chosen := table.Select(groups[2].Rows)
	if x, _ := chosen.Column("x"); chosen.N != 2 || !slices.Equal(x, []float64{1, 5}) {
		t.Errorf("selected %v", x)
	}
	if got := chosen.Errorf(1, "bad").Error(); got != "stdin:7: bad" {
		t.Errorf("error %q, want stdin:7: bad", got)
	}
}

// A column listed in Options.Texts may hold text. If every value is a number, GroupRows must group the rows by number.
// Otherwise it must group them by text.
func TestGroupText(t *testing.T) {
	for _, tt := range []struct{ name, file, column, want string }{
		{"numbers", "x,g\n1,10\n2,9\n3,10.0\n", "g", `[9 [1]] [10 [0 2]]`},
		{"text", "x,g\n1,b\n2,\" a, c\"\n3,b\n", "g", `["a, c" [1]] ["b" [0 2]]`},
		{"mixed", "x,g\n1,2\n2,old\n3,2.0\n4,new\n5,10\n", "g", `["10" [4]] ["2" [0 2]] ["new" [3]] ["old" [1]]`},
		{"lines", `{"x":1,"g":"ü"}` + "\n" + `{"x":2,"g":3}` + "\n", "g", `["3" [1]] ["ü" [0]]`},
		{"selected twice", "x,g\n1,2\n2,old\n3,2\n4,5\n", "", `["2" [1]] ["5" [2]] ["old" [0]]`},
		{"only numbers selected", "x,g\n1,2\n2,3\n3,old\n", "numbers", `[2 [0]] [3 [1]]`},
	} {
		table, err := Read(t.Context(), Stdin, Options{Input: strings.NewReader(tt.file), Required: []string{"x"}, Texts: []string{"g"}})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		switch tt.column {
		case "":
			table = table.Select([]int{0, 1, 2, 3}).Select([]int{1, 2, 3})
		case "numbers":
			table = table.Select([]int{0, 1})
		}
		var got []string
		for _, g := range table.GroupRows("g") {
			value, err := json.Marshal(g)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Trim(string(value), `"`); g.Name() != want {
				t.Errorf("%s: name %q, want %q", tt.name, g.Name(), want)
			}
			got = append(got, fmt.Sprintf("[%s %v]", value, g.Rows))
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, s, tt.want)
		}
	}
	for file, want := range map[string]string{
		"x,g\n1,a\n2,\n":        "stdin:3: g: empty value",
		"x,g\na,b\n":            `stdin:2: x: "a" is not a number`,
		`{"x":1,"g":""}` + "\n": "stdin:1: g: empty value",
	} {
		_, err := Read(t.Context(), Stdin, Options{Input: strings.NewReader(file), Required: []string{"x"}, Texts: []string{"g"}})
		if err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", file, err, want)
		}
	}
}

// After Select, an error about a row must state the row's number in the archive. This must also hold after a second
// Select. A matrix must keep the values of the chosen rows.
func TestSelectFromArchive(t *testing.T) {
	table := &Table{Path: "a.npz", N: 3, binary: true, index: map[string]*column{}}
	table.add(&column{name: "x", Matrix: Matrix{3, 1, []float64{7, 8, 9}}})
	table.add(&column{name: "p", Matrix: Matrix{3, 2, []float64{1, 2, 3, 4, 5, 6}}, matrix: true})
	chosen := table.Select([]int{1, 2}).Select([]int{1})
	if got := chosen.Errorf(0, "bad").Error(); got != "a.npz: row 2: bad" {
		t.Errorf("error %q, want a.npz: row 2: bad", got)
	}
	if m, _ := chosen.Matrix("p"); m.Rows != 1 || !slices.Equal(m.Data, []float64{5, 6}) {
		t.Errorf("matrix %v", m)
	}
}
