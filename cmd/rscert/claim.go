package main

import (
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/certify"
)

// claimFlags adds --top-k and --none. These flags determine what a certificate from votes claims.
func claimFlags(f *pflag.FlagSet, topK *int, none *certify.NoneMode) {
	integerVar(f, topK, "top-k", 1, "certify that the class stays among the `K` classes that the model answers most often under noise")
	choiceVar(f, none, "none", certify.NoneAnswer, certify.NoneModes, "what a certificate claims if samples can vote for \"no class\"; the smoothed classifier is silent if \"no class\" gets the most votes (docs/reject.md): "+certify.NoneModes.Described())
}
