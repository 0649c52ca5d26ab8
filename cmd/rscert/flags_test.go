package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/calib"
)

func TestGiven(t *testing.T) {
	for _, test := range []struct {
		args []string
		want *int
	}{
		{nil, nil},
		{[]string{"--k", "5"}, new(int)}, // the default, but set
	} {
		var k int
		cmd := &cobra.Command{Use: "x"}
		cmd.Flags().IntVar(&k, "k", 5, "")
		if err := cmd.ParseFlags(test.args); err != nil {
			t.Fatal(err)
		}
		got := given(cmd, "k", &k)
		if (got == nil) != (test.want == nil) || got != nil && *got != 5 {
			t.Errorf("%v: given %v", test.args, got)
		}
	}
}

func TestTextList(t *testing.T) {
	for _, test := range []struct {
		args []string
		want []calib.Edge
		err  string
	}{
		{nil, []calib.Edge{calib.UpperClosed}, ""},
		{[]string{"--edges", "lower"}, []calib.Edge{calib.LowerClosed}, ""},
		{[]string{"--edges", "lower,upper"}, []calib.Edge{calib.LowerClosed, calib.UpperClosed}, ""},
		{[]string{"--edges", "lower", "--edges", "upper"}, []calib.Edge{calib.LowerClosed, calib.UpperClosed}, ""},
		{[]string{"--edges", "lower", "--edges", "lower"}, nil, "--edges: lower is given twice"},
		{[]string{"--edges", "upper,upper"}, nil, "--edges: upper is given twice"},
		{[]string{"--edges", "middle"}, nil, `--edges: "middle": want upper or lower`},
		{[]string{"--edges", ""}, nil, `--edges: "": want upper or lower`},
		{[]string{"--k", "x"}, nil, `invalid argument "x" for "--k" flag`},
	} {
		var edges []calib.Edge
		cmd := &cobra.Command{Use: "x"}
		textListVar(cmd.Flags(), &edges, "edges", []calib.Edge{calib.UpperClosed}, "")
		cmd.Flags().Int("k", 5, "")
		err := cmd.ParseFlags(test.args)
		if test.err != "" {
			if err == nil || !strings.HasPrefix(explainFlag(cmd, err).Error(), test.err) {
				t.Errorf("%v: error %v, want %s", test.args, err, test.err)
			}
			continue
		}
		if err != nil || !slices.Equal(edges, test.want) {
			t.Errorf("%v: %v, error %v, want %v", test.args, edges, err, test.want)
		}
	}
}
