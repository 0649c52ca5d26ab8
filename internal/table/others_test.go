package table

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sbinet/npyio/npz"
)

func TestOthers(t *testing.T) {
	keep := Options{Required: []string{"score"}, KeepOthers: true}
	for name, c := range map[string]struct {
		in   string
		opt  Options
		want []TextColumn
	}{
		"csv":               {"sex,score,note\nf,0.5, a\nm,1,\n", keep, []TextColumn{{"sex", []string{"f", "m"}}, {"note", []string{" a", ""}}}},
		"quotes":            {"Score;note\n0.5;\"a;\"\"b\"\n0.25;1,5\n", keep, []TextColumn{{"note", []string{`a;"b`, "1,5"}}}},
		"twice and unnamed": {"score,a,,a\n1,2,3,4\n", keep, []TextColumn{{"a", []string{"2"}}, {"", []string{"3"}}, {"a", []string{"4"}}}},
		"a user's check":    {"score,check\n1,ok\n", keep, []TextColumn{{"check", []string{"ok"}}}},
		"nothing else":      {"score\n1\n", keep, nil},
		"not kept":          {"score,a\n1,2\n", Options{Required: []string{"score"}}, nil},
		"checksums":         {checkedCSV(), Options{Required: []string{"lower"}, KeepOthers: true}, nil},
		"json": {`{"sex":"f\n\"x\"","score":1,"on":true}` + "\n" + `{"score":0,"late":[1, 2],"on":null}` + "\n" + `{"score":0}`, keep,
			[]TextColumn{{"sex", []string{`f "x"`, "", ""}}, {"on", []string{"true", "", ""}}, {"late", []string{"", "[1, 2]", ""}}}},
		"json, key twice": {`{"score":1,"a":1,"a":2}`, keep, []TextColumn{{"a", []string{"1"}}}},
		"json checksums":  {checkedJSON(), Options{Required: []string{"lower"}, KeepOthers: true}, nil},
	} {
		tab, err := readString(c.in, c.opt)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.Contains(name, "checksums") { // Others must not return the checksums
			for _, other := range tab.Others() {
				if other.Name == "check" || len(other.Values) != tab.N {
					t.Errorf("%s: %q", name, other)
				}
			}
			if len(tab.Others()) == 0 || len(tab.Select([]int{0}).Others()) != len(tab.Others()) {
				t.Errorf("%s: %d others", name, len(tab.Others()))
			}
			continue
		}
		if got := tab.Others(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestOthersOfSelection(t *testing.T) {
	tab, err := readString("sex,score\nf,0.5\nm,1\nd,0\n", Options{Required: []string{"score"}, KeepOthers: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tab.Select([]int{2, 0}).Others(), []TextColumn{{"sex", []string{"d", "f"}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// From an npz archive, Read must keep the lists that hold one number for each row. From a Parquet file, it must keep
// the flat columns.
func TestOthersOfBinaryFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npz")
	err := npz.Write(path, map[string]any{"score": []float32{0.5, 0.25}, "age": []int64{40, 50}, "short": []float64{1},
		"wide": [2][2]float64{{1, 2}, {3, 4}}})
	if err != nil {
		t.Fatal(err)
	}
	tab, err := Read(t.Context(), path, Options{Required: []string{"score"}, KeepOthers: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tab.Others(), []TextColumn{{"age", []string{"40", "50"}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("npz: got %q, want %q", got, want)
	}
	weight := 0.1
	path = writeParquet(t, []parquetRow{{"x", 0.5, 0.25, 1, true, 7, nil, []int64{1}}, {"y\nz", 1, 0.1, 0, false, 8, &weight, nil}})
	if tab, err = Read(t.Context(), path, Options{Required: []string{"score"}, Optional: []string{"index"}, KeepOthers: true}); err != nil {
		t.Fatal(err)
	}
	want := []TextColumn{{"name", []string{"x", "y z"}}, {"small", []string{"0.25", "0.1"}}, {"label", []string{"1", "0"}},
		{"right", []string{"true", "false"}}, {"weight", []string{"", "0.1"}}}
	if got := tab.Others(); !reflect.DeepEqual(got, want) {
		t.Errorf("Parquet: got %q, want %q", got, want)
	}
}

// The texts of the kept columns must count towards the memory limit.
func TestMemoryOfOthersIsBounded(t *testing.T) {
	in := "a,b\n" + strings.Repeat("1,"+strings.Repeat("x", 800)+"\n", 10_000)
	options := Options{Required: []string{"a"}, KeepOthers: true}
	if err := limited(t, 8_500_000, in, options); err != nil {
		t.Error(err)
	}
	if err := limited(t, 7_500_000, in, options); err == nil || !strings.Contains(err.Error(), "of memory") {
		t.Errorf("error %v", err)
	}
	// memory for each row: 8 bytes for the wanted column, and 16 bytes for each of the 3 kept columns
	in = `{"a":1,"b":1,"c":2,"d":3}` + strings.Repeat("\n{\"a\":1}", 10_000)
	if err := limited(t, 600_000, in, options); err != nil {
		t.Error(err)
	}
	if err := limited(t, 500_000, in, options); err == nil || !strings.Contains(err.Error(), "of memory") {
		t.Errorf("JSON: error %v", err)
	}
}
