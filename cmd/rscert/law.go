package main

import (
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/law"
)

// lawFlag adds --law. It is hidden while there is but one law to name.
func lawFlag(f *pflag.FlagSet, to *law.Name) {
	choiceVar(f, to, "law", law.Name(""), law.Choices(), "law of the noise: "+law.Choices().Described())
	if len(law.Laws) == 1 {
		_ = f.MarkHidden("law") // the flag is there
	}
}

// scaleWords say what --sigma is, as in "standard deviation σ of the noise".
func scaleWords() string {
	return law.Each(func(l law.Law) string { return l.Words().Title() }) + " of the noise"
}
