package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/calib"
)

func TestGiven(t *testing.T) {
	for _, test := range []struct {
		args []string
		want *int
	}{
		{nil, nil},
		{[]string{"--k", "5"}, new(int)}, // equal to the default, but given on the command line
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

func TestInteger(t *testing.T) {
	const most = 1<<64 - 1
	for _, test := range []struct {
		text  string
		int   int64
		uint  uint64
		fails string // types whose flag must refuse the text: int, uint or both
	}{
		{"0", 0, 0, ""},
		{"100000", 1e5, 1e5, ""},
		{"100_000", 1e5, 1e5, ""},
		{"1e5", 1e5, 1e5, ""},
		{"1E5", 1e5, 1e5, ""},
		{"2.5e3", 2500, 2500, ""},
		{"-3", -3, 0, "uint"},
		{"-1e3", -1000, 0, "uint"},
		{"9223372036854775807", 1<<63 - 1, 1<<63 - 1, ""},
		{"9223372036854775808", 0, 1 << 63, "int"},
		{"18446744073709551615", 0, most, "int"},
		{"18446744073709551616", 0, 0, "int uint"},
		{"9007199254740992.0", 1 << 53, 1 << 53, ""},
		{"1e16", 0, 0, "int uint"}, // above 2⁵³, a float64 cannot hold every whole number
		{"1.5", 0, 0, "int uint"},
		{"1e-1", 0, 0, "int uint"},
		{"1e400", 0, 0, "int uint"},
		{"inf", 0, 0, "int uint"},
		{"nan", 0, 0, "int uint"},
		{"", 0, 0, "int uint"},
		{"x", 0, 0, "int uint"},
	} {
		signed, unsigned := int64(77), uint64(77)
		errInt, errUint := integer[int64]{&signed}.Set(test.text), integer[uint64]{&unsigned}.Set(test.text)
		if fails := strings.Fields(test.fails); (errInt != nil) != slices.Contains(fails, "int") || (errUint != nil) != slices.Contains(fails, "uint") {
			t.Errorf("%q: errors %v and %v, want %q", test.text, errInt, errUint, test.fails)
		}
		if errInt == nil && signed != test.int || errUint == nil && unsigned != test.uint {
			t.Errorf("%q: %d and %d, want %d and %d", test.text, signed, unsigned, test.int, test.uint)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"model", "data", "sigma", "out", "n", "n0", "margin", "max", "scores", "save-scores", "class", "class-names", "clopper-pearson"}
	for typed, want := range map[string]string{
		"modle": "model", "model": "model", "Sigma": "sigma", "N": "n", "n_0": "n0", "class_names": "class-names",
		"save-score": "save-scores", "marg": "margin", "clopper": "clopper-pearson", "ma": "max",
		"noise_sd": "sigma", "samples": "n", "quux": "", "zz": "", "x": "", "": "", "confidence": "",
	} {
		if got := nearest(typed, names, flagsElsewhere); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
	if got := nearest("gpu", []string{"model"}, flagsElsewhere); got != "" { // the command has no flag --device
		t.Errorf("gpu: %q is no flag of the command", got)
	}
}

// Names from other programs map to existing commands, flags and values of flags.
func TestElsewhereNames(t *testing.T) {
	root := newRoot(streams{}, new(bool))
	commands, flags, values := []string{"--version"}, []string{"help"}, []string{}
	for _, cmd := range root.Commands() {
		commands = append(commands, cmd.Name())
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			flags = append(flags, f.Name)
			values = append(values, choicesOf(f)...)
		})
	}
	for _, test := range []struct {
		elsewhere map[string]string
		known     []string
	}{{commandsElsewhere, commands}, {flagsElsewhere, flags}, {valuesElsewhere, values}} {
		for typed, name := range test.elsewhere {
			if !slices.Contains(test.known, name) {
				t.Errorf("%s: there is no %s", typed, name)
			}
		}
	}
}

// A flag accepts each of its choices, and its default is one of them.
func TestChoicesParse(t *testing.T) {
	for _, cmd := range leaves(newRoot(streams{}, new(bool))) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			known := choicesOf(f)
			if known == nil {
				return
			}
			initial := strings.Trim(f.Value.String(), "[]")
			for part := range strings.SplitSeq(initial, ",") {
				if part != "" && !slices.Contains(known, part) {
					t.Errorf("%s --%s: the default %q is none of %q", cmd.Name(), f.Name, part, known)
				}
			}
			for _, name := range known {
				fresh, _, err := newRoot(streams{}, new(bool)).Find(strings.Fields(cmd.CommandPath())[1:])
				if err != nil {
					t.Fatal(err)
				}
				if err := fresh.ParseFlags([]string{"--" + f.Name, name}); err != nil {
					t.Errorf("%s --%s %s: %v", cmd.Name(), f.Name, name, err)
				}
			}
		})
	}
}

func TestWithoutEscapes(t *testing.T) {
	for _, test := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"TERM": "xterm-256color"}, false},
		{map[string]string{"TERM": "dumb"}, true},
		{map[string]string{"NO_COLOR": "1"}, true},
		{map[string]string{"NO_COLOR": ""}, false},
	} {
		if got := withoutEscapes(func(name string) string { return test.env[name] }); got != test.want {
			t.Errorf("%v: %v, want %v", test.env, got, test.want)
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
		{[]string{"--k", "x"}, nil, `--k: "x": want a number`},
	} {
		var edges []calib.Edge
		cmd := &cobra.Command{Use: "x"}
		choiceListVar(cmd.Flags(), &edges, "edges", []calib.Edge{calib.UpperClosed}, calib.Edges, "")
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
