package report

import (
	"bytes"
	"testing"
)

func TestMarkup(t *testing.T) {
	table := Table{Columns: []Column{TextColumn("a|b"), {Name: "σ_1 %", Align: Right, Round: Down, Decimals: 1, Percent: true}}}
	table.AddRow(Text("*x* <y> [z]"), Number(0.57))
	table.AddRow(Text(`back\slash {50 & #1}`))
	for name, test := range map[string]struct {
		write func(*bytes.Buffer) error
		want  string
	}{
		"markdown": {func(b *bytes.Buffer) error { return table.WriteMarkdown(b) },
			"| a\\|b | σ\\_1 % |\n| --- | ---: |\n| \\*x\\* &lt;y> \\[z] | 57.0 |\n| back\\\\slash {50 & #1} | – |\n"},
		"latex": {func(b *bytes.Buffer) error { return table.WriteLaTeX(b) },
			"\\begin{tabular}{lr}\n\\toprule\na|b & $\\sigma$\\_1 \\% \\\\\n\\midrule\n*x* $<$y$>$ {[}z{]} & 57.0 \\\\\n" +
				"back\\textbackslash{}slash \\{50 \\& \\#1\\} & -- \\\\\n\\bottomrule\n\\end{tabular}\n"},
	} {
		var b bytes.Buffer
		if err := test.write(&b); err != nil || b.String() != test.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, &b, test.want)
		}
	}
	bare := Table{Columns: []Column{TextColumn("")}}
	bare.AddRow(Text("x"))
	var b bytes.Buffer
	if err := bare.WriteMarkdown(&b); err != nil || b.String() != "|  |\n| --- |\n| x |\n" {
		t.Errorf("%v %q", err, &b)
	}
}
