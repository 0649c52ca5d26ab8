package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/rscert/rscert/internal/choice"
)

// groupKey is the key of the annotation that holds the title of a flag's group in --help.
const groupKey = "rscert_group"

// group puts all ungrouped flags of the command into one group. The argument 'title' is the title of this group in
// --help.
func group(cmd *cobra.Command, title string) {
	f := cmd.Flags()
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.Annotations[groupKey] != nil {
			return
		}
		if err := f.SetAnnotation(flag.Name, groupKey, []string{title}); err != nil {
			panic(err)
		}
	})
}

// otherFlags is the title for flags without a group.
const otherFlags = "Other flags"

// flagUsages lists the flags of a command in their groups.
func flagUsages(cmd *cobra.Command) string {
	var titles []string
	groups := map[string]*pflag.FlagSet{}
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		title := otherFlags
		if own := flag.Annotations[groupKey]; own != nil {
			title = own[0]
		}
		if groups[title] == nil {
			groups[title] = pflag.NewFlagSet(title, pflag.ContinueOnError)
			groups[title].SortFlags = false
			titles = append(titles, title)
		}
		shown := *flag
		if kind := shown.Value.Type(); shownDefault(flag) == "" && (kind == "" || shown.DefValue == "[]" && kind != "stringSlice" && kind != "intSlice") {
			shown.DefValue = "" // pflag itself hides empty and zero defaults of the other types
		}
		listChoices(&shown)
		groups[title].AddFlag(&shown)
	})
	if len(titles) == 1 {
		return "\n\nFlags:\n" + strings.TrimRight(groups[titles[0]].FlagUsagesWrapped(helpWidth()), " \n")
	}
	if i := slices.Index(titles, otherFlags); i >= 0 {
		titles = append(slices.Delete(titles, i, i+1), otherFlags)
	}
	var b strings.Builder
	for _, title := range titles {
		b.WriteString("\n\n" + title + ":\n" + strings.TrimRight(groups[title].FlagUsagesWrapped(helpWidth()), " \n"))
	}
	return b.String()
}

// shownDefault returns the default value that --help and the Python module show. It is empty if the usage text of the
// flag names the default.
func shownDefault(f *pflag.Flag) string {
	if slices.Contains([]string{"", "0", "[]", "false"}, f.DefValue) || strings.Contains(f.Usage, "efault: ") {
		return ""
	}
	return f.DefValue
}

// listChoices makes --help print the described choices of a flag one below the other. In the usage text, the choices
// are one phrase, made by choice.List.Described. listChoices replaces this phrase by one line for each choice, and marks
// the default.
func listChoices(f *pflag.Flag) {
	choices := f.Annotations[choicesKey]
	phrases, lines, width := make([]string, len(choices)), "", 0
	for _, c := range choices {
		name, _, _ := strings.Cut(c, "\t")
		width = max(width, len(name))
	}
	for i, c := range choices {
		name, what, _ := strings.Cut(c, "\t")
		if phrases[i] = name; what != "" {
			phrases[i] = choice.Described(name, what)
		}
		if name == f.DefValue {
			what = strings.TrimSpace("(default) " + what)
		}
		lines += strings.TrimRight(fmt.Sprintf("\n- %-*s  %s", width, name, what), " ")
	}
	before, after, found := strings.Cut(f.Usage, ": "+choice.Or(phrases))
	if !found || slices.Equal(phrases, choicesOf(f)) {
		return
	}
	f.Usage = before + after
	if f.DefValue != "" && !slices.Contains(choicesOf(f), f.DefValue) { // the default of a list of values
		f.Usage += " (default " + f.DefValue + ")"
	}
	f.Usage, f.DefValue = f.Usage+":"+lines, ""
}

// helpWidth returns the terminal's width, at most 120 columns, or 0 (no wrapping) without a terminal.
func helpWidth() int {
	if !term.IsTerminal(int(os.Stdout.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0
	}
	return min(width, 120)
}

// groupFlags changes the help of a command and of its subcommands. The help then lists flags by group.
func groupFlags(root *cobra.Command) {
	const flags = "{{if .HasAvailableLocalFlags}}\n\nFlags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}"
	before, after, found := strings.Cut(root.UsageTemplate(), flags)
	if !found {
		panic("cobra's template of usages has changed")
	}
	cobra.AddTemplateFunc("flagUsages", flagUsages)
	root.SetUsageTemplate(before + "{{if .HasAvailableLocalFlags}}{{flagUsages .}}{{end}}" + after)
}
