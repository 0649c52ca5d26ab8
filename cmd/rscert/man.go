package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan returns a hidden command for packagers. 'make man' calls this command.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write the man pages",
		Long:   "This command writes a man page for every command to a folder. The date in the pages is $SOURCE_DATE_EPOCH or, without\nthis variable, the present time.",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(cmd *cobra.Command, args []string) error { return runMan(cmd.Root(), args[0]) },
	}
}

func runMan(root *cobra.Command, folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return badInput(err)
	}
	manText(root)
	header := doc.GenManHeader{Section: "1", Source: "rscert " + version(), Manual: "rscert"}
	return doc.GenManTree(root, &header, folder)
}

// manText turns the help of a command and of its subcommands into the Markdown that cobra expects. Lists keep their
// layout, and markup characters are escaped.
func manText(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	var b strings.Builder
	listed := false
	for line := range strings.Lines(cmd.Long) {
		list := strings.HasPrefix(line, "  ")
		if list != listed {
			b.WriteByte('\n')
		}
		if listed = list; list {
			line = "    " + line
		} else {
			line = markup.Replace(line)
		}
		b.WriteString(line)
	}
	cmd.Long = b.String()
	for _, c := range cmd.Commands() {
		manText(c)
	}
}

// markup escapes the characters that Markdown would interpret as markup.
var markup = strings.NewReplacer("_", `\_`, "*", `\*`, "<", `\<`, "[", `\[`, "|", `\|`)
