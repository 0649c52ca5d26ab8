// Package page turns summaries of runs into one HTML file: tables, curves, a table of all examples with their pictures,
// the parameters, and a sentence on the meaning of each number. The file needs no network and no other file. A content
// security policy forbids the use of the network and of other files. It allows only the page's own style, script and
// embedded pictures.
//
// All outside text (names of runs, files and classes) passes through html/template, or the script sets it as text.
package page

import (
	"context"
	"crypto/sha256"
	_ "embed" // embeds the assets
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"io"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/report/summary"
)

// Page holds the content of a page. The page shows one run, or several runs side by side.
type Page struct {
	Runs []Run
	// Requirements holds the outcomes of the requirements on the runs. Comparisons holds the comparisons with a
	// baseline.
	Requirements []gate.Outcome
	Comparisons  []gate.Comparison
	// ClassNames are the names of the classes. The slice may be empty or lack the names of the last classes.
	ClassNames []string
}

// Run is a run and the pictures of its examples.
type Run struct {
	summary.Summary
	// Draw returns two pictures of the example with this index in the dataset: the input and the noisy input. All
	// pictures have the same size. Draw is nil if there are no pictures.
	Draw func(index int) (input, noisy image.Image, err error)
	// Pictures is the number of examples that have pictures. These examples are the first ones of the run.
	Pictures int
}

var (
	//go:embed assets/page.html
	markup string
	//go:embed assets/page.css
	style string
	//go:embed assets/page.js
	script string
	//go:embed uplot/uPlot.iife.min.js
	chartScript string
	//go:embed uplot/LICENSE
	chartLicence string
	//go:embed uplot/uPlot.min.css
	chartStyle string
)

var layout = template.Must(template.New("page").Funcs(template.FuncMap{"table": newTable}).Parse(markup))

// table is a group of measures, together with the names of the group's columns.
type table struct {
	group
	Names []string
}

// Columns returns the number of columns: one for the names of the measures, and one for each entry of Names.
func (t table) Columns() int { return len(t.Names) + 1 }

func newTable(g group, names []string) table { return table{g, names} }

// view is the template's input.
type view struct {
	Title, Lead, Policy string
	Cautions            []string
	Names               []string // names of the runs
	Measures            []group
	Requirements        *requirements
	Comparisons         []comparison
	Charts              []chart
	Classes             []classTable
	Groups              []groupTables
	Parameters          group
	Legend              string
	Assumptions         []assumption
	Examples            int // largest number of examples in a run
	Pictured            bool
	Data                data
	Style               template.CSS
	Script              template.JS
}

// data holds the input of the page's script.
type data struct {
	Charts     []chart    `json:"charts"`
	Runs       []examples `json:"runs"`
	ClassNames []string   `json:"classNames"`
}

// Write writes the page. Pages with equal content have equal bytes.
func (p Page) Write(ctx context.Context, w io.Writer) error {
	p.Runs = slices.Clone(p.Runs)
	for k := range p.Runs { // a name must not change the direction of other text
		p.Runs[k].Name = quote.Line(p.Runs[k].Name)
	}
	v := view{
		Title: p.title(), Lead: p.lead(), Cautions: p.cautions(),
		Measures: p.measures(), Requirements: p.requirements(), Comparisons: p.comparisons(), Charts: p.charts(), Classes: p.classTables(), Groups: p.groupTables(),
		Parameters:  group{Caption: "Parameters of the run", Rows: p.parameters(), Plain: true},
		Legend:      p.legend(),
		Assumptions: p.assumptions(),
		Style:       template.CSS(chartStyle + style),
		Script:      template.JS("/*!\n" + chartLicence + "*/\n" + chartScript + script),
	}
	v.Policy = policy(string(v.Style), string(v.Script))
	v.Data = data{Charts: v.Charts, ClassNames: []string{}}
	for _, name := range p.ClassNames {
		v.Data.ClassNames = append(v.Data.ClassNames, quote.Line(name))
	}
	for _, r := range p.Runs {
		rows, err := r.examples(ctx)
		if err != nil {
			return err
		}
		v.Names = append(v.Names, r.Name)
		v.Examples = max(v.Examples, len(r.Rows))
		v.Pictured = v.Pictured || len(rows.Sheets) > 0
		v.Data.Runs = append(v.Data.Runs, rows)
	}
	return layout.Execute(w, v)
}

// policy returns a content security policy that allows only the page's own style, script and embedded pictures.
func policy(style, script string) string {
	return fmt.Sprintf("default-src 'none'; img-src blob:; style-src %s; script-src %s; base-uri 'none'; "+
		"form-action 'none'",
		source(style), source(script))
}

// source returns the part of a content security policy that allows this text: the SHA-256 of the text.
func source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (p Page) title() string {
	if len(p.Runs) == 1 {
		return "Certified robustness: " + p.Runs[0].Name
	}
	return fmt.Sprintf("Certified robustness of %d runs", len(p.Runs))
}

func (p Page) lead() string {
	var parts []string
	for _, r := range p.Runs {
		s := r.Name + ": " + counted(r.Examples)
		if sigma := r.Conditions.Sigma; r.Conditions.Scaled {
			s += fmt.Sprintf(", noise with a %s for each column", r.Conditions.Law.Law().Words().Symbol)
		} else if sigma != nil {
			s += fmt.Sprintf(", noise of %s = %v", r.Conditions.Law.Law().Words().Symbol, *sigma)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ") + "."
}

// summaries returns the summaries of the runs.
func (p Page) summaries() []summary.Summary {
	all := make([]summary.Summary, len(p.Runs))
	for i, r := range p.Runs {
		all[i] = r.Summary
	}
	return all
}

// className returns a class number with its name.
func (p Page) className(label int) string {
	if label < 0 || label >= len(p.ClassNames) || p.ClassNames[label] == fmt.Sprint(label) {
		return fmt.Sprint(label)
	}
	return fmt.Sprintf("%d %s", label, quote.Line(p.ClassNames[label]))
}
