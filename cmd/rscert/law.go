package main

import (
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/law"
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

// scaleWords describes --sigma, as in "standard deviation σ of the noise".
func scaleWords() string {
	return law.Each(func(l law.Law) string { return l.Words().Title() }) + " of the noise"
}
