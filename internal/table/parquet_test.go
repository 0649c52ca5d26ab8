package table

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// parquetRow is a row of the test files. It has columns of every supported type and of some other types.
type parquetRow struct {
	Name   string   `parquet:"name"`
	Score  float64  `parquet:"Score"`
	Small  float32  `parquet:"small"`
	Label  int64    `parquet:"label"`
	Right  bool     `parquet:"right"`
	Index  int32    `parquet:"index"`
	Weight *float64 `parquet:"weight,optional"`
	List   []int64  `parquet:"list"`
}

func writeParquet(t *testing.T, rows []parquetRow) string {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[parquetRow](&b, parquet.MaxRowsPerRowGroup(1000), parquet.PageBufferSize(2000))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.parquet")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestParquet(t *testing.T) {
	var rows []parquetRow
	for i := range 3500 { // enough rows for several row groups, each with several pages
		w := float64(i) / 2
		rows = append(rows, parquetRow{"x", float64(i) / 7, float32(i) / 4, int64(i % 3), i%2 == 0, int32(-i), &w, []int64{1, 2}})
	}
	path := writeParquet(t, rows)
	table, err := Read(t.Context(), path, Options{Required: []string{"score"}, Optional: []string{"small", "label", "right", "index", "weight"}})
	if err != nil {
		t.Fatal(err)
	}
	if table.N != len(rows) || !slices.Equal(table.Names(), []string{"score", "small", "label", "right", "index", "weight"}) ||
		!slices.Contains(table.Header(), "list") {
		t.Fatalf("%d rows, names %v, header %v", table.N, table.Names(), table.Header())
	}
	for i, r := range rows {
		want := []float64{r.Score, float64(r.Small), float64(r.Label), 0, float64(r.Index), *r.Weight}
		if r.Right {
			want[3] = 1
		}
		for k, name := range table.Names() {
			if c, _ := table.Column(name); c[i] != want[k] {
				t.Fatalf("row %d: %s %v, want %v", i, name, c[i], want[k])
			}
		}
	}
	if err := table.Errorf(7, "x"); !strings.HasSuffix(err.Error(), "a.parquet: row 7: x") {
		t.Error(err)
	}
}

func TestParquetErrors(t *testing.T) {
	one := 1.0
	good := parquetRow{Score: 1, Weight: &one}
	infinite := good
	infinite.Score = math.Inf(1)
	for name, test := range map[string]struct {
		rows []parquetRow
		opt  Options
		want string
	}{
		"no column": {[]parquetRow{good}, Options{Required: []string{"x"}}, `no column "x" (columns: `},
		"null":      {[]parquetRow{good, {}}, Options{Optional: []string{"weight"}}, "row 1: weight: empty value"},
		"text":      {[]parquetRow{good}, Options{Optional: []string{"name"}}, "name: want numbers, not BYTE_ARRAY"},
		"list":      {[]parquetRow{good}, Options{Optional: []string{"list"}}, "list: want a column of numbers"},
		"infinite":  {[]parquetRow{infinite}, Options{Optional: []string{"score"}}, "row 0: score: +Inf must be finite"},
		"no rows":   {nil, Options{Optional: []string{"score"}}, "no rows"},
	} {
		if _, err := Read(t.Context(), writeParquet(t, test.rows), test.opt); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	// If a file is cut or changed anywhere, Read must parse it or return an error, without a panic.
	path := writeParquet(t, slices.Repeat([]parquetRow{good}, 50))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for k := range content {
		damaged := slices.Clone(content)
		if damaged[k] ^= 0xff; k%2 == 0 {
			damaged = content[:k]
		}
		if len(damaged) < 4 {
			continue
		}
		if _, err := Read(t.Context(), Stdin, Options{Optional: []string{"score", "label"}, Input: bytes.NewReader(damaged)}); err != nil {
			refused++
		}
	}
	if refused < len(content)/2-4 {
		t.Errorf("%d of %d damaged files were refused", refused, len(content))
	}
}

func TestSeparatorAndCase(t *testing.T) {
	for text, want := range map[string][]float64{
		"a;Score\nx,y;0.5\n":      {0.5},
		"a\tSCORE\nx\t0.5\n":      {0.5},
		" sCore ,b;c\n0.5,1\n":    {0.5},
		"SCORE,score\n0.25,0.5\n": {0.5}, // the exact name wins
	} {
		table, err := Read(t.Context(), Stdin, Options{Required: []string{"score"}, Input: strings.NewReader(text)})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if c, _ := table.Column("score"); !slices.Equal(c, want) {
			t.Errorf("%q: %v, want %v", text, c, want)
		}
	}
	_, err := Read(t.Context(), Stdin, Options{Required: []string{"score"}, Input: strings.NewReader("Score,SCORE\n1,2\n")})
	if err == nil || !strings.Contains(err.Error(), "appears twice") {
		t.Error(err)
	}
	_, err = Read(t.Context(), Stdin, Options{Required: []string{"score"}, Input: strings.NewReader("A;B\n1;2\n")})
	if err == nil || !strings.Contains(err.Error(), "(A, B)") {
		t.Error(err)
	}
}
