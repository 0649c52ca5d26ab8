package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/spec"
)

// lawFlags adds --sigma and --law. Help and shell completion offer the given laws. The flag --law parses every law, so
// that the command can say why it refuses one. The flag --law is hidden while only one law exists.
func lawFlags[L law.Law](f *pflag.FlagSet, sigma *float64, to *law.Name, laws []L) {
	offered := law.ChoicesOf(laws)
	f.Float64Var(sigma, "sigma", 0, scaleOf(laws))
	choiceVar(f, to, "law", law.Name(""), law.Choices(), "law (distribution) of the noise: "+offered.Described())
	choices(f, "law", described(offered)...)
	if len(law.Laws) == 1 {
		_ = f.MarkHidden("law") // fails only for an unknown flag
	}
}

// normsFlag adds --norms.
func normsFlag(f *pflag.FlagSet, to *[]law.Norm) {
	choiceListVar(f, to, "norms", nil, law.Norms,
		"also print the certified accuracy in each of these `norms`: "+law.Norms.String()+" (the number of changed values); the radii in these norms follow from the certified radii")
}

// scaleFlags adds the flags that give each column or channel its own scale of the noise.
func scaleFlags(f *pflag.FlagSet, s *spec.Scales) {
	f.StringVar(&s.File, "sigma-columns", "", "CSV or JSON `file` with the noise scale σ of each table column, in the units of the column; σ = 0 means no noise (docs/columns.md)")
	f.Float64SliceVar(&s.Channels, "sigma-channels", nil, "`values` of the noise scale σ, one per colour channel, such as 0.25,0.5,0.25; σ = 0 means no noise in the channel")
	choiceVar(f, &s.Kind, "sigma-scale", spec.ScaleKind(""), spec.ScaleKinds, "rule for the noise scale of each table column; the only rule, 'std', is --sigma times the column's standard deviation in --scale-data; constant and whole-number columns get no noise")
	f.StringVar(&s.Data, "scale-data", "", "`path` of the data whose standard deviations --sigma-scale uses, such as the training data")
	f.StringSliceVar(&s.Noisy, "noisy-columns", nil, "with --sigma-scale, `names` of the whole-number columns that also get noise")
}

// scaleOf returns the words that describe --sigma if --law offers the given laws.
func scaleOf[L law.Law](laws []L) string {
	var titles []string
	names := map[string][]string{} // maps the title of a scale to the names of the laws whose scale has this title
	for _, l := range laws {
		title := l.Words().Title()
		if names[title] == nil {
			titles = append(titles, title)
		}
		names[title] = append(names[title], l.Name())
	}
	for i, title := range titles {
		titles[i] = "for " + strings.Join(names[title], " and ") + ": the " + title
	}
	return "scale of the noise, in the units of the data; for --law " + strings.TrimPrefix(strings.Join(titles, "; "), "for ")
}
