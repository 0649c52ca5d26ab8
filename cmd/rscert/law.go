package main

import (
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/spec"
)

// lawFlag adds --law, hidden while only one law exists.
func lawFlag(f *pflag.FlagSet, to *law.Name) {
	choiceVar(f, to, "law", law.Name(""), law.Choices(), "law (distribution) of the noise: "+law.Choices().Described())
	if len(law.Laws) == 1 {
		_ = f.MarkHidden("law") // fails only for an unknown flag
	}
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
	choiceVar(f, &s.Kind, "sigma-scale", spec.ScaleKind(""), spec.ScaleKinds, "with std, the scale of the noise in each column is --sigma times the standard deviation of the column in --scale-data; constant columns and columns of whole numbers get no noise")
	f.StringVar(&s.Data, "scale-data", "", "`path` of the data from which --sigma-scale computes the standard deviations, such as the training data")
	f.StringSliceVar(&s.Noisy, "noisy-columns", nil, "with --sigma-scale, `names` of columns that get noise although they hold whole numbers")
}

// scaleWords returns the words that describe --sigma, such as "scale of the noise (gaussian: standard deviation σ;
// laplace: scale b)".
func scaleWords() string {
	return "scale of the noise (" + law.Each(func(l law.Law) string { return l.Words().Title() }) + ")"
}
