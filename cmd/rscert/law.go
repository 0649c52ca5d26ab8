package main

import (
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/spec"
)

// lawFlag adds --law, hidden while only one law exists.
func lawFlag(f *pflag.FlagSet, to *law.Name) {
	choiceVar(f, to, "law", law.Name(""), law.Choices(), "law of the noise: "+law.Choices().Described())
	if len(law.Laws) == 1 {
		_ = f.MarkHidden("law") // fails only for an unknown flag
	}
}

// normsFlag adds --norms.
func normsFlag(f *pflag.FlagSet, to *[]law.Norm) {
	choiceListVar(f, to, "norms", nil, law.Norms,
		"also print certified accuracy by the radii that the certificates imply in these `norms`: "+law.Norms.String()+" (changed values)")
}

// scaleFlags adds the flags that give each column or channel its own scale of the noise.
func scaleFlags(f *pflag.FlagSet, s *spec.Scales) {
	f.StringVar(&s.File, "sigma-columns", "", "CSV or JSON `file` that gives every column of a table its σ, in the column's own units; 0 freezes the column (docs/columns.md)")
	f.Float64SliceVar(&s.Channels, "sigma-channels", nil, "σ of each colour channel, as in 0.25,0.5,0.25; 0 freezes the channel")
	choiceVar(f, &s.Kind, "sigma-scale", spec.ScaleKind(""), spec.ScaleKinds, "std: --sigma is in standard deviations of each column of --scale-data; constant columns and columns of whole numbers are frozen")
	f.StringVar(&s.Data, "scale-data", "", "with --sigma-scale: `path` of the data set of the standard deviations, such as the training data")
	f.StringSliceVar(&s.Noisy, "noisy-columns", nil, "with --sigma-scale: `names` of columns of whole numbers that get noise")
}

// scaleWords describes --sigma, as in "standard deviation σ of the noise".
func scaleWords() string {
	return law.Each(func(l law.Law) string { return l.Words().Title() }) + " of the noise"
}
