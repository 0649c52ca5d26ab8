package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/warning"
)

func newExplain(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [CODE]",
		Short: "Explain a warning and say what to do about it",
		Long: `Every warning ends with its code in brackets. This command explains the warnings that
have the given code, and says what to do about them. Without a code, it lists all codes.`,
		Example: `  rscert explain
  rscert explain near-chance`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("want one code")
			}
			return nil
		},
		ValidArgsFunction: completeCode,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listCodes(s)
			}
			return explainCode(s, args[0])
		},
	}
}

// completeCode completes the argument of explain.
func completeCode(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return described(warning.Codes), cobra.ShellCompDirectiveNoFileComp
}

// listCodes prints all codes with their titles.
func listCodes(s streams) error {
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	for _, code := range warning.Codes.Values() {
		fmt.Fprintf(t, "%s\t%s\n", code, code.Title())
	}
	return t.Flush()
}

// explainCode prints the explanation of a code. The user may type the code in square brackets, as warnings print it.
func explainCode(s streams, typed string) error {
	name := strings.Trim(typed, "[]")
	for _, code := range warning.Codes.Values() {
		if code.String() == name {
			fmt.Fprintf(s.out, "%s: %s\n\n%s\n", code, code.Title(), wrap(code.Explanation().Spell(asFlag)))
			return nil
		}
	}
	err := badInputf("no warning has the code %q", name)
	if meant := nearest(name, warning.Codes.Names(), nil); meant != "" {
		return hint.Add(err, "did you mean 'rscert explain %s'?", meant)
	}
	return hint.Add(err, "'rscert explain' lists all codes")
}

// explanationWidth is the number of columns of an explanation.
const explanationWidth = 88

// wrap breaks a text at spaces into lines of at most explanationWidth columns. The text is ASCII.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		switch {
		case column == 0:
		case column+1+len(word) > explanationWidth:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
