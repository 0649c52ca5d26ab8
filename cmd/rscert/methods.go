package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/rscert/rscert/internal/certify"
)

// names lists methods for the help of a flag: betting (default), hoeffding, ….
func names[M ~string](rows []certify.Row[M]) string {
	var all []string
	for _, r := range rows {
		name := string(r.Name)
		if !r.Sound {
			name += " (not sound)"
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}

// described is names with what each method does.
func described[M ~string](rows []certify.Row[M]) string {
	var all []string
	for _, r := range rows {
		all = append(all, fmt.Sprintf("%s (%s)", r.Name, r.What))
	}
	return strings.Join(all, " or ")
}

// listed is one line a method, for the help of a command.
func listed[M ~string](rows []certify.Row[M]) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintf(t, "  %s\t%s\n", r.Name, r.What)
	}
	_ = t.Flush() // a Builder takes everything
	return b.String()
}
