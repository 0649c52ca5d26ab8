package report

import (
	"bytes"
	"math"
	"testing"
)

func TestWriteText(t *testing.T) {
	table := Table{Columns: []Column{
		TextColumn("method"), ExactColumn("n"), RoundedColumn("Φ ≥", Down, 2), RoundedColumn("≤", Up, 2),
		{Name: "%", Align: Right, Round: Down, Decimals: 1, Percent: true},
		{Name: "change", Align: Right, Decimals: 1, Sign: true},
	}}
	table.AddRow(Text("tv"), Count(7), Number(0.129), Number(0.121), Number(0.57), Number(0.25))
	table.AddRow(Text("Φ⁻¹ (not sound)"), Count(12), nil, Interval{0.129, 0.121}, OptionalNumber(nil), Number(-1))
	table.AddRow(Text("short"))
	const want = `  method            n   Φ ≥             ≤     %  change
  tv                7  0.12          0.13  57.0    +0.3
  Φ⁻¹ (not sound)  12     –  [0.12, 0.13]     –    -1.0
  short             –     –             –     –       –
`
	var b bytes.Buffer
	if err := table.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", &b, want)
	}
}

// A table without column names must have no header. A table whose field Flush is true must have no margin before the
// first column.
func TestWriteTextBare(t *testing.T) {
	table := Table{Columns: []Column{TextColumn(""), TextColumn("")}, Flush: true}
	table.AddRow(Text("a"), Text(""))
	table.AddRow(Text("bc"), Text("d"))
	var b bytes.Buffer
	if err := table.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if want := "a\nbc  d\n"; b.String() != want {
		t.Errorf("got %q, want %q", &b, want)
	}
}

func TestWriteJSON(t *testing.T) {
	var b bytes.Buffer
	err := WriteJSON(&b, "kind", map[string]any{"a": Number(math.NaN()), "b": Number(math.Inf(-1)), "c": Number(0.1)})
	if err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"schema\": \"rscert/kind/1\",\n  \"a\": null,\n  \"b\": null,\n  \"c\": 0.1\n}\n"; b.String() != want {
		t.Errorf("got %q, want %q", &b, want)
	}
	if err := WriteJSON(&b, "kind", map[string]float64{"a": math.NaN()}); err == nil {
		t.Error("a float64 that is not finite is no JSON, yet no error")
	}
	if err := WriteJSON(&b, "kind", []int{1}); err == nil {
		t.Error("a list has no members, yet no error")
	}
	b.Reset()
	if err := WriteJSON(&b, "kind", struct{}{}); err != nil || b.String() != "{\n  \"schema\": \"rscert/kind/1\"\n}\n" {
		t.Errorf("no members: %q, %v", &b, err)
	}
}
