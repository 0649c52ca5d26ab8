package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/choice"
)

// choicesKey is the key of the annotation that lists the possible values of a flag.
const choicesKey = "rscert_choices"

// choices records the values that a flag takes, for shell completion and for hints on mistyped values. Each element of
// the argument 'values' is a name. A tab and a description may follow the name.
func choices(f *pflag.FlagSet, flag string, values ...string) {
	if err := f.SetAnnotation(flag, choicesKey, values); err != nil {
		panic(err)
	}
}

// choicesOf returns the names of the values that a flag takes, or nil if the flag has no choices.
func choicesOf(f *pflag.Flag) []string {
	var known []string
	for _, value := range f.Annotations[choicesKey] {
		name, _, _ := strings.Cut(value, "\t")
		known = append(known, name)
	}
	return known
}

// The function 'described' returns the names of a list with their descriptions, in the form that the function 'choices'
// takes.
func described[T fmt.Stringer](list choice.List[T]) []string {
	all := list.Names()
	for i, v := range list.Values() {
		if what := list.What(v); what != "" {
			all[i] += "\t" + what
		}
	}
	return all
}

// completeValues makes shells complete the values of every flag of a command and of its subcommands. If a flag has
// choices, shells offer the choices. For other flags, the name of the value in the usage text decides: shells offer
// files for "file" and "path", folders for "folder", and nothing for other names.
func completeValues(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, exists := cmd.GetFlagCompletionFunc(f.Name); exists || len(f.Annotations[cobra.BashCompFilenameExt]) > 0 {
			return
		}
		if err := cmd.RegisterFlagCompletionFunc(f.Name, valueCompletion(f)); err != nil {
			panic(err)
		}
	})
	for _, c := range cmd.Commands() {
		completeValues(c)
	}
}

func valueCompletion(f *pflag.Flag) cobra.CompletionFunc {
	if values := f.Annotations[choicesKey]; values != nil {
		list := f.Value.Type() == listType
		return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			if !list {
				return values, cobra.ShellCompDirectiveNoFileComp
			}
			return completeList(values, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
	}
	directive := cobra.ShellCompDirectiveNoFileComp
	switch name, _ := pflag.UnquoteUsage(f); name {
	case "file", "path":
		directive = cobra.ShellCompDirectiveDefault
	case "folder":
		directive = cobra.ShellCompDirectiveFilterDirs
	}
	return cobra.FixedCompletions(nil, directive)
}

// completeList completes the last name in a comma-separated list. It offers only values that the list does not contain
// yet.
func completeList(values []string, typed string) []string {
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	given := strings.Split(before, ",")
	var all []string
	for _, value := range values {
		if name, _, _ := strings.Cut(value, "\t"); !slices.Contains(given, name) {
			all = append(all, before+value)
		}
	}
	return all
}
