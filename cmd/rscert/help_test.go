package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// --help lists the described choices of a flag one below the other, and it names the default once.
func TestHelpListsChoices(t *testing.T) {
	root := newRoot(streams{}, new(bool))
	certify, _, err := root.Find([]string{"certify"})
	if err != nil {
		t.Fatal(err)
	}
	got := flagUsages(certify)
	for _, want := range []string{
		"law (distribution) of the noise:\n                                - gaussian   (default) Gaussian noise",
		"\n                                - laplace    Laplace noise of scale b; radii in L1\n",
		"which examples --max keeps (default: 'spread' for data sorted by class, otherwise 'first'):\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("certify --help lacks %q", want)
		}
	}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		for line := range strings.Lines(flagUsages(c)) {
			if defaults := strings.Count(line, "(default ") + strings.Count(line, "efault: "); defaults > 1 || strings.Contains(line, "(default )") {
				t.Errorf("%s --help: %q", c.Name(), line)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
}
