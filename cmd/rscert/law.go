package main

import (
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/law"
)

// lawFlag adds --law. It is hidden while there is but one law to name.
func lawFlag(f *pflag.FlagSet, to *law.Name) {
	describe := func(l law.Law) string { return l.Words().Noise + ", radii in " + l.Norm().Title() }
	f.TextVar(to, "law", law.Name(""), "law of the noise, by default "+law.Names()[0]+"; "+law.Each(describe))
	choices(f, "law", law.Names()...)
	if len(law.Laws) == 1 {
		_ = f.MarkHidden("law") // the flag is there
	}
}

// scaleWords say what --sigma is, as in "standard deviation σ of the noise".
func scaleWords() string {
	return law.Each(func(l law.Law) string { return l.Words().Title() }) + " of the noise"
}
