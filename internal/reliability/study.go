package reliability

import (
	"fmt"

	"github.com/rscert/rscert/internal/acce"
)

// maxDiagrams is the maximum number of radii drawn. If there are more radii, the first, the last and some between them
// are drawn.
const maxDiagrams = 5

// OfStudy returns the picture of a study's results. The picture has the diagrams at some radii, and two measures by
// radius: the certified calibration error (CCE) and the certified Brier score (CBS). Each measure has at most two
// curves. The first curve holds if every bound of the table holds. The second curve holds with probability 1 − δ, and
// is left out if no result has the field Certified. OfStudy sets neither the title nor the size.
func OfStudy(study *acce.Study, results []acce.Result) (Attack, error) {
	attack := Attack{Measures: measures(results)}
	for _, k := range drawn(len(results)) {
		clean, attacked, err := study.Bins(k)
		if err != nil {
			return Attack{}, err
		}
		title := fmt.Sprintf("%d certified", results[k].N)
		if r := results[k].Radius; r != nil {
			title = fmt.Sprintf("radius %v: ", *r) + title
		}
		attack.Diagrams = append(attack.Diagrams, AttackDiagram{Title: title, Clean: clean, Attacked: attacked})
	}
	return attack, nil
}

// The function 'drawn' chooses the radii to draw, and returns their indices. The argument n is the number of radii.
// There are at most maxDiagrams indices, evenly spread from 0 to n−1.
func drawn(n int) (indices []int) {
	for i := range min(n, maxDiagrams) {
		k := i
		if n > maxDiagrams {
			k = i * (n - 1) / (maxDiagrams - 1)
		}
		indices = append(indices, k)
	}
	return indices
}

// The function 'measures' returns CBS and CCE by radius. Each measure has at most two versions. The first version holds
// if every bound of the table holds. The second version holds for the whole dataset with the probability stated in its
// name, and is left out if no result has the field Certified.
func measures(results []acce.Result) []Measure {
	level := ""
	if c := results[0].Certified; c != nil {
		level = fmt.Sprintf(", for all at %g %%", 100*(1-c.Delta))
	}
	all := []struct {
		Measure
		value func(r acce.Result) *float64
	}{
		{Measure{Name: "CCE"}, func(r acce.Result) *float64 { return r.CCE }},
		{Measure{Name: "CCE" + level, ForAll: true}, func(r acce.Result) *float64 {
			if r.Certified == nil {
				return nil
			}
			return r.Certified.CCE
		}},
		{Measure{Name: "CBS", Brier: true}, func(r acce.Result) *float64 { return &r.CBS }},
		{Measure{Name: "CBS" + level, Brier: true, ForAll: true}, func(r acce.Result) *float64 {
			if r.Certified == nil {
				return nil
			}
			return &r.Certified.CBS
		}},
	}
	var out []Measure
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
