package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/choice"
)

// names returns the names of methods for the help of a flag. It marks the methods that are not sound.
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

// markDefault marks the first name of a list as the default.
func markDefault(names string) string { return strings.Replace(names, ",", " (default),", 1) }

// The function 'sound' returns the rows of the sound methods.
func sound[M ~string](rows []certify.Row[M]) []certify.Row[M] {
	return slices.DeleteFunc(slices.Clone(rows), func(r certify.Row[M]) bool { return !r.Sound })
}

// named is a constraint. It allows types whose values are names of methods, such as certify.VoteMethod.
type named interface {
	~string
	fmt.Stringer
}

// The function 'methods' returns the list of the methods that a flag offers for choice. The empty name means that the
// votes or scores determine the method.
func methods[M named](rows []certify.Row[M]) choice.List[M] {
	var all []M
	what := map[M]string{}
	for _, r := range rows {
		all = append(all, r.Name)
		what[r.Name] = r.What
	}
	return choice.Of("method", all...).Optional().Describe(func(m M) string { return what[m] })
}

// The function 'listed' returns a table for a command's help. Each line of the table has a method and its description.
func listed[M ~string](rows []certify.Row[M]) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintf(t, "  %s\t%s\n", r.Name, r.What)
	}
	_ = t.Flush() // a Builder never fails
	return b.String()
}
