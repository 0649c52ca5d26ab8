package main

import (
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/certify"
)

// claimFlags adds the flags that say what certificates from votes claim.
func claimFlags(f *pflag.FlagSet, topK *int, none *certify.NoneMode) {
	integerVar(f, topK, "top-k", 1, "certify that the class stays among the first `K` classes")
	choiceVar(f, none, "none", certify.NoneAnswer, certify.NoneModes, "what samples that vote for no class mean: "+certify.NoneModes.Described())
}
