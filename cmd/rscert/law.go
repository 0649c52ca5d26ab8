package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/spec"
)

const lawUsage = "law (distribution) of the noise: "

// lawFlag adds --law, hidden while only one law exists.
func lawFlag(f *pflag.FlagSet, to *law.Name) {
	choiceVar(f, to, "law", law.Name(""), law.Choices(), lawUsage+law.Choices().Described())
	if len(law.Laws) == 1 {
		_ = f.MarkHidden("law") // fails only for an unknown flag
	}
}

// randomLawFlag adds --law to a command that draws random noise. Help and shell completion offer only the laws whose
// noise is random. The flag parses every law, so that the command can say why it refuses one.
func randomLawFlag(f *pflag.FlagSet, to *law.Name) {
	lawFlag(f, to)
	f.Lookup("law").Usage = lawUsage + law.RandomChoices().Described()
	choices(f, "law", described(law.RandomChoices())...)
}

// normsFlag adds --norms.
func normsFlag(f *pflag.FlagSet, to *[]law.Norm) {
	choiceListVar(f, to, "norms", nil, law.Norms,
		"also print the certified accuracy by radius in these `norms`: "+law.Norms.String()+" (the number of changed values); rscert derives the radii in these norms from the certified radii")
}

// scaleFlags adds the flags that give each column or channel its own scale of the noise.
func scaleFlags(f *pflag.FlagSet, s *spec.Scales) {
	f.StringVar(&s.File, "sigma-columns", "", "CSV or JSON `file` with the scale σ of the noise for every column of a table, in the units of the column; a column with σ = 0 gets no noise (docs/columns.md)")
	f.Float64SliceVar(&s.Channels, "sigma-channels", nil, "`values` of the scale σ of the noise, one for each colour channel, such as 0.25,0.5,0.25; a channel with σ = 0 gets no noise")
	choiceVar(f, &s.Kind, "sigma-scale", spec.ScaleKind(""), spec.ScaleKinds, "how to compute the scale of the noise in each column of a table; the only value, std, multiplies --sigma by the column's standard deviation in --scale-data; constant columns and columns of whole numbers get no noise")
	f.StringVar(&s.Data, "scale-data", "", "`path` of the data from which --sigma-scale computes the standard deviations, such as the training data")
	f.StringSliceVar(&s.Noisy, "noisy-columns", nil, "with --sigma-scale, `names` of columns that get noise although they hold whole numbers")
}

// scaleWords returns the words that describe --sigma if --law offers all laws.
func scaleWords() string { return scaleOf(law.Laws) }

// scaleOf returns the words that describe --sigma if --law offers the given laws.
func scaleOf[L law.Law](laws []L) string {
	var titles []string
	names := map[string][]string{} // names of the laws, by the title of their scale
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
