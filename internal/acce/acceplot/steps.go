package acceplot

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/admm"
	"github.com/rscert/rscert/internal/picture"
)

// Steps draws the chart Lagrangian, Constraints or Assignment of a run of ADMM.
func (c Curve) Steps(format picture.Format, run acce.SearchRun, size picture.Size) ([]byte, error) {
	var rows [][]*plot.Plot
	var alt string
	width := 15.0
	switch c {
	case Lagrangian:
		rows, alt = lagrangianRows(run), "The augmented Lagrangian of ADMM and its terms by step"
	case Constraints:
		rows, alt, width = constraintRows(run), "Distances of ADMM's variables from each constraint by step, as a sum and as a maximum", 20
	default:
		rows, alt = assignmentRows(run), "ADMM's assignments of the first predictions to bins at three steps"
	}
	rows[0][0].Title.Text = title(run)
	if size == (picture.Size{}) {
		size = picture.Size{Width: width, Height: 1.5 + 3.4*float64(len(rows))}
	}
	return picture.Draw(format, size, alt+". "+describe(run)+".", func(canvas draw.Canvas) { picture.Panels(canvas, rows) })
}

// title describes the run in few words.
func title(run acce.SearchRun) string {
	at := ""
	if run.Radius != nil {
		at = fmt.Sprintf("radius %v, ", *run.Radius)
	}
	return fmt.Sprintf("%sstart %s, rates %g, %g, ρ × %g", at, run.Start, run.RateZ, run.RateA, run.Growth)
}

// describe returns a description of the run with all its settings.
func describe(run acce.SearchRun) string {
	at := ""
	if run.Radius != nil {
		at = fmt.Sprintf("radius %v, ", *run.Radius)
	}
	return fmt.Sprintf("%s%d predictions, %d bins, start %s, rates %g (z) and %g (a), ρ × %g", at, run.N, run.Bins, run.Start, run.RateZ, run.RateA, run.Growth)
}

// byStep returns a line with a point for each traced step.
func byStep(run acce.SearchRun, name string, style int, value func(admm.Residuals) float64) picture.Line {
	l := picture.Line{Name: name, Style: style}
	for _, r := range run.Steps {
		l.Add(float64(r.Step), value(r))
	}
	return l
}

// panel returns a panel of lines, without a label on the horizontal axis.
func panel(y string, lines ...picture.Line) *plot.Plot {
	p := picture.NewPlot("", "", y)
	p.Add(picture.Grid())
	picture.AddLines(p, lines...)
	p.Y.Tick.Marker = picture.Ticks(4)
	if p.Y.Min == p.Y.Max {
		p.Y.Min, p.Y.Max = p.Y.Min-0.5, p.Y.Max+0.5
	}
	return p
}

// lagrangianRows returns the rows of figure 9 of Emde et al. 2025. They show the Lagrangian, the relaxed and the
// projected calibration error, and the term of each constraint.
func lagrangianRows(run acce.SearchRun) (rows [][]*plot.Plot) {
	errors := []picture.Line{
		byStep(run, "relaxed ECE", 0, func(r admm.Residuals) float64 { return r.SoftECE }),
		byStep(run, "projected ECE", 1, func(r admm.Residuals) float64 { return r.ProjectedECE }),
	}
	if run.Exact != nil {
		errors = append(errors, byStep(run, "CCE, exact", 2, func(admm.Residuals) float64 { return *run.Exact }))
	}
	rows = append(rows,
		[]*plot.Plot{panel("Lagrangian", byStep(run, "", 0, func(r admm.Residuals) float64 { return r.Lagrangian.Value() }))},
		[]*plot.Plot{panel("ECE", errors...)})
	for _, t := range []struct {
		name string
		of   func(admm.Lagrangian) float64
	}{
		{"box", func(l admm.Lagrangian) float64 { return l.Box }},
		{"sphere", func(l admm.Lagrangian) float64 { return l.Sphere }},
		{"confidence", func(l admm.Lagrangian) float64 { return l.Confidence }},
		{"one bin", func(l admm.Lagrangian) float64 { return l.Unique }},
		{"in reach", func(l admm.Lagrangian) float64 { return l.Valid }},
	} {
		rows = append(rows, []*plot.Plot{panel(t.name, byStep(run, "", 0, func(r admm.Residuals) float64 { return t.of(r.Lagrangian) }))})
	}
	rows[len(rows)-1][0].X.Label.Text = "step"
	return rows
}

// constraintRows returns the rows of figure 10 of Emde et al. 2025. They show the distance from each constraint, in the
// 1-norm on the left and in the ∞-norm on the right.
func constraintRows(run acce.SearchRun) (rows [][]*plot.Plot) {
	for _, c := range []struct {
		name string
		of   func(admm.Residuals) admm.Norms
	}{
		{"confidence", func(r admm.Residuals) admm.Norms { return r.Confidence }},
		{"binary", func(r admm.Residuals) admm.Norms { return r.Binary }},
		{"one bin", func(r admm.Residuals) admm.Norms { return r.Unique }},
		{"in reach", func(r admm.Residuals) admm.Norms { return r.Valid }},
	} {
		sum := panel(c.name+", sum", byStep(run, "", 0, func(r admm.Residuals) float64 { return c.of(r).Sum }))
		most := panel(c.name+", max", byStep(run, "", 1, func(r admm.Residuals) float64 { return c.of(r).Max }))
		sum.Y.Min, most.Y.Min = 0, 0
		rows = append(rows, []*plot.Plot{sum, most})
	}
	for _, p := range rows[len(rows)-1] {
		p.X.Label.Text = "step"
	}
	return rows
}

// assignmentRows returns the rows of figure 11 of Emde et al. 2025. They show the assignments of the first predictions
// at step 0, after a sixth of the steps, and at the last step. In the paper, these are the steps 0, 500 and 3,000. At
// step 0, every assignment is 1/M, where M is the number of bins.
func assignmentRows(run acce.SearchRun) (rows [][]*plot.Plot) {
	last := run.Steps[len(run.Steps)-1]
	sixth := run.Steps[0]
	for _, r := range run.Steps {
		if 6*r.Step <= last.Step {
			sixth = r
		}
	}
	start := make([]float64, len(last.Assignment))
	for k := range start {
		start[k] = 1 / float64(run.Bins)
	}
	for k, at := range []struct {
		step int
		a    []float64
	}{{0, start}, {sixth.Step, sixth.Assignment}, {last.Step, last.Assignment}} {
		l := picture.Line{Style: k, Solid: true}
		for i, a := range at.a {
			l.Add(float64(i), a)
		}
		p := panel(fmt.Sprintf("a at step %d", at.step), l)
		p.Y.Min, p.Y.Max = min(-0.05, p.Y.Min), max(1.05, p.Y.Max)
		rows = append(rows, []*plot.Plot{p})
	}
	rows[len(rows)-1][0].X.Label.Text = fmt.Sprintf("element of a: %d bins of each prediction", run.Bins)
	return rows
}
