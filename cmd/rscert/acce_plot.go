package main

import (
	"fmt"
	"path/filepath"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/reliability"
)

// mostDiagrams limits the radii drawn: of more, the first, the last and some between.
const mostDiagrams = 5

// draw writes the files of --plot.
func (o acceOptions) draw(formats []picture.Format, study *acce.Study, results []acce.Result, path string) error {
	if len(formats) == 0 {
		return nil
	}
	attack := reliability.Attack{Title: filepath.Base(displayPath(path)) + ": calibration under attack", Measures: measures(results)}
	if o.plotSize != nil {
		attack.Size = *o.plotSize
	}
	for i := range min(len(results), mostDiagrams) {
		k := i
		if len(results) > mostDiagrams {
			k = i * (len(results) - 1) / (mostDiagrams - 1)
		}
		clean, attacked, err := study.Bins(k)
		if err != nil {
			return err
		}
		title := fmt.Sprintf("%d certified", results[k].N)
		if r := results[k].Radius; r != nil {
			title = fmt.Sprintf("radius %v: ", *r) + title
		}
		attack.Diagrams = append(attack.Diagrams, reliability.AttackDiagram{Title: title, Clean: clean, Attacked: attacked})
	}
	return writePictures(o.plots, formats, attack.Draw)
}

// measures returns CBS and CCE by radius, each for one bound and for all together.
func measures(results []acce.Result) []reliability.Measure {
	level := ""
	if c := results[0].Certified; c != nil {
		level = fmt.Sprintf(", for all at %g %%", 100*(1-c.Delta))
	}
	all := []struct {
		reliability.Measure
		value func(r acce.Result) *float64
	}{
		{reliability.Measure{Name: "CCE"}, func(r acce.Result) *float64 { return r.CCE }},
		{reliability.Measure{Name: "CCE" + level, ForAll: true}, func(r acce.Result) *float64 {
			if r.Certified == nil {
				return nil
			}
			return r.Certified.CCE
		}},
		{reliability.Measure{Name: "CBS", Brier: true}, func(r acce.Result) *float64 { return &r.CBS }},
		{reliability.Measure{Name: "CBS" + level, Brier: true, ForAll: true}, func(r acce.Result) *float64 {
			if r.Certified == nil {
				return nil
			}
			return &r.Certified.CBS
		}},
	}
	var out []reliability.Measure
	for _, m := range all {
		for _, r := range results {
			radius := 0.0
			if r.Radius != nil {
				radius = *r.Radius
			}
			if v := m.value(r); v != nil {
				m.Radius, m.Value = append(m.Radius, radius), append(m.Value, *v)
			}
		}
		if len(m.Value) > 0 {
			out = append(out, m.Measure)
		}
	}
	return out
}
