package page

import (
	_ "embed" // embeds the template
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"strings"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/conformal"
	"github.com/rscert/rscert/internal/conformalfile"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/gate"
)

// Sets holds the content of a page about prediction sets. The page shows one file of sets, or several side by side.
type Sets struct {
	Files        []*conformalfile.Evaluated
	Level        float64 // confidence level of the intervals
	Requirements []gate.Outcome
	Figures      []Figure
	// ClassNames are the names of the classes. The slice may be empty or lack the names of the last classes.
	ClassNames []string
}

// Figure is a drawing for a page.
type Figure struct {
	Title, Meaning string
	SVG            []byte
}

//go:embed assets/sets.html
var setsMarkup string

// setsLayout is the template of the page about prediction sets. It shares the templates for tables with the page about
// runs.
var setsLayout = template.Must(template.Must(layout.Clone()).New("sets").Parse(setsMarkup))

// setsView is the template's input.
type setsView struct {
	Title, Lead, Policy string
	Cautions            []string
	Names               []string
	Measures            group
	Requirements        *requirements
	Figures             []figureView
	Strata              []stratumTable
	Parameters          group
	Assumptions         []assumption
	Style               template.CSS
}

type figureView struct {
	Title, Meaning string
	Source         template.URL
}

// stratumTable shows the coverage of the sets in one file, with a row for each size, class or group.
type stratumTable struct {
	Caption, Of string
	Rows        []stratumRow
}

type stratumRow struct {
	Name  string
	Cells []string
}

// Write writes the page. Pages with equal content have equal bytes.
func (p Sets) Write(w io.Writer) error {
	v := setsView{
		Title: "Prediction sets: " + p.name(p.Files[0]), Lead: p.lead(), Cautions: p.cautions(),
		Measures:     group{Caption: "Coverage and size", Rows: p.measures()},
		Requirements: Page{Requirements: p.Requirements}.requirements(),
		Strata:       p.strata(), Parameters: group{Caption: "Conditions of the promise", Rows: p.parameters(), Plain: true},
		Assumptions: p.assumptions(), Style: template.CSS(style),
	}
	if len(p.Files) > 1 {
		v.Title = fmt.Sprintf("Prediction sets of %d files", len(p.Files))
	}
	for _, e := range p.Files {
		v.Names = append(v.Names, p.name(e))
	}
	for _, f := range p.Figures {
		source := "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(f.SVG)
		v.Figures = append(v.Figures, figureView{f.Title, f.Meaning, template.URL(source)})
	}
	v.Policy = fmt.Sprintf("default-src 'none'; img-src data:; style-src %s; base-uri 'none'; form-action 'none'",
		source(string(v.Style)))
	return setsLayout.Execute(w, v)
}

// name returns the name of a file of sets.
func (p Sets) name(e *conformalfile.Evaluated) string { return quote.Line(filepath.Base(e.File)) }

func (p Sets) lead() string {
	var parts []string
	for _, e := range p.Files {
		parts = append(parts, fmt.Sprintf("%s: %d sets of the rule %s, miss %.4g, %s radius %v", p.name(e), e.Sets,
			e.Rule, e.Miss, e.Norm.Title(), e.Radius))
	}
	return strings.Join(parts, "; ") + "."
}

// cautions returns up to three cautions for each file: some sets promise nothing under attack, the sets are for
// idealised noise and not for the floats that were run, or some sets have no label.
func (p Sets) cautions() (all []string) {
	for _, e := range p.Files {
		if !e.Sound {
			all = append(all, fmt.Sprintf("%s: %d of %d sets promise nothing under attack: %s.", p.name(e), e.Unsound,
				e.Sets, e.WhyUnsound()))
		}
		if e.Arithmetic != certify.Exact {
			all = append(all, p.name(e)+": these sets are for idealised noise, not for the floats that were run.")
		}
		if e.Labelled < e.Sets {
			all = append(all, fmt.Sprintf("%s: the coverage is that of the %d labelled sets of %d.", p.name(e), e.Labelled,
				e.Sets))
		}
	}
	return all
}

// single returns a measure with a single line, which has one cell for each file.
func (p Sets) single(name, meaning string, of func(*conformalfile.Evaluated) cell) measure {
	l := line{}
	for _, e := range p.Files {
		l.Cells = append(l.Cells, of(e))
	}
	return measure{name, meaning, []line{l}}
}

// labelled returns a measure with a cell for each file. The measure uses only the sets with a label. The cell of a file
// without labels shows a dash.
func (p Sets) labelled(name, meaning string, of func(*conformal.Evaluation) cell) measure {
	return p.single(name, meaning, func(e *conformalfile.Evaluated) cell {
		if e.Evaluation == nil {
			return none
		}
		return of(e.Evaluation)
	})
}

func (p Sets) measures() []measure {
	return []measure{
		p.labelled("Coverage", fmt.Sprintf("The share of the sets that contain the label, with the %s confidence "+
			"interval (Clopper–Pearson).", p.level()),
			func(v *conformal.Evaluation) cell {
				return cell{percent(v.Coverage.Coverage, report.Nearest), fmt.Sprintf("%d of %d, %s", v.Covered, v.N,
					setInterval(v.Coverage))}
			}),
		p.single("Mean size", "The mean number of classes in a set.", func(e *conformalfile.Evaluated) cell {
			return cell{Value: report.Round(float64(e.Classes)/float64(e.Sets), report.Nearest, 0, 3)}
		}),
		p.labelled("Sets of one class", "Sets that answer like a classifier.", func(v *conformal.Evaluation) cell {
			return cell{fmt.Sprint(v.Singletons), fmt.Sprintf("%d hold the label", v.Correct)}
		}),
		p.labelled("Empty sets", "Sets of inputs to which no class conforms.", func(v *conformal.Evaluation) cell {
			return cell{Value: fmt.Sprint(v.Empty)}
		}),
		p.labelled("Draws", "The mean number of noisy copies of an input that its set needed.",
			func(v *conformal.Evaluation) cell {
				return cell{Value: report.Round(v.MeanDraws, report.Nearest, 0, 1)}
			}),
		p.labelled("Mean size under attack", "An upper bound on the mean size under the worst attack within the radius.",
			func(v *conformal.Evaluation) cell {
				if v.CertifiedSize == nil {
					return none
				}
				return cell{Value: "≤\u00a0" + report.Round(v.CertifiedSize.Upper, report.Up, 0, 3)}
			}),
		p.labelled("p", "If the inputs are exchangeable with the calibration examples, and not attacked beyond the radius, "+
			"so many misses or more have at most this probability.", func(v *conformal.Evaluation) cell {
			if p, known := v.TooManyMisses(); known {
				return cell{Value: report.Round(p, report.Nearest, 0, 3)}
			}
			return none
		}),
	}
}

func (p Sets) level() string {
	return report.Round(p.Level, report.Nearest, 2, report.Shortest) + "\u00a0%"
}

func setInterval(c conformal.Coverage) string {
	return fmt.Sprintf("[%s,\u00a0%s]\u00a0%%", report.Round(c.Lower, report.Down, 2, 1), report.Round(c.Upper,
		report.Up, 2, 1))
}

// strata returns up to three tables for each file: the coverage by size, by class and by group.
func (p Sets) strata() (all []stratumTable) {
	for _, e := range p.Files {
		if e.Evaluation == nil {
			continue
		}
		for _, part := range []struct {
			of     string
			strata []conformal.Stratum
		}{{"size", e.Evaluation.BySize}, {"class", e.Evaluation.ByClass}, {"group", e.Evaluation.ByGroup}} {
			if len(part.strata) == 0 {
				continue
			}
			t := stratumTable{Caption: fmt.Sprintf("%s, by %s", p.name(e), part.of), Of: report.Capitalise(part.of)}
			for _, s := range part.strata {
				t.Rows = append(t.Rows, stratumRow{p.stratum(part.of, s.Name), []string{
					fmt.Sprint(s.N), percent(s.Coverage.Coverage, report.Nearest), setInterval(s.Coverage),
					report.Round(s.MeanSize, report.Nearest, 0, 3),
				}})
			}
			all = append(all, t)
		}
	}
	return all
}

// stratum returns the name of a stratum. If the strata are classes, the result also has the name of the class.
func (p Sets) stratum(of, name string) string {
	var label int
	if _, err := fmt.Sscan(name, &label); of == "class" && err == nil {
		return Page{ClassNames: p.ClassNames}.className(label)
	}
	return quote.Line(name)
}

func (p Sets) parameters() []measure {
	text := func(name, meaning string, of func(*conformalfile.Evaluated) string) measure {
		return p.single(name, meaning, func(e *conformalfile.Evaluated) cell { return cell{Value: of(e)} })
	}
	return []measure{
		text("Rule", "The rule that decides which classes a set contains.",
			func(e *conformalfile.Evaluated) string { return e.Rule.String() }),
		text("Radius", "The promise holds for perturbations of at most this norm.", func(e *conformalfile.Evaluated) string {
			return fmt.Sprintf("%v in %s", e.Radius, e.Norm.Title())
		}),
		text("Miss", "The allowed probability that a set misses the label.",
			func(e *conformalfile.Evaluated) string { return fmt.Sprint(e.Miss) }),
		text("Guarantee", "What holds with probability 1 − miss.", func(e *conformalfile.Evaluated) string {
			return fmt.Sprintf("%s: %s", e.Guarantee, conformal.Guarantees.What(e.Guarantee))
		}),
		text("Scale of the noise", "In the units of the "+
			"data.", func(e *conformalfile.Evaluated) string { return fmt.Sprint(e.Scale) }),
		text("Draws", "A class is in the set if this many of the scores reach the threshold.",
			func(e *conformalfile.Evaluated) string {
				return fmt.Sprintf("%d of %d", e.QueryT, e.QueryM)
			}),
		text("Calibration", "Examples, and noisy copies of "+
			"each.", func(e *conformalfile.Evaluated) string { return fmt.Sprintf("%d, %d copies each", e.N, e.M) }),
		text("Predictor", "The ID of the file that made the sets.",
			func(e *conformalfile.Evaluated) string { return quote.Line(e.Predictor) }),
	}
}

func (p Sets) assumptions() (all []assumption) {
	for _, e := range p.Files {
		all = append(all, assumption{Question: "What do the sets of " + p.name(e) + " promise?",
			Answer: report.Capitalise(e.Statement()) + "."})
	}
	return append(all,
		assumption{Question: "What does the coverage show?", Answer: "The promise is about all inputs. The coverage is " +
			"that of these inputs, and its interval is about the population " +
			"that they are drawn from. The coverage of inputs that an attack has changed is the coverage under this attack " +
			"only."},
		assumption{Question: "Why is there no promise by size?", Answer: "The set itself decides which size it has. The " +
			"promise holds by class or group only for the guarantees label and group."},
	)
}
