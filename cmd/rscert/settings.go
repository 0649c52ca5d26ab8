package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/quote"
)

// settings are values of flags that come from a source other than the command line: a config file, a recorded run or a
// preset. If several sources give a value for a flag, the first in settingFlags wins. The command line wins over all.
type settings struct {
	source string
	values map[string][]string // the values of each flag, by the name of the flag
}

// settingFlags are the flags that name a source of settings, from the strongest to the weakest. The value of each of
// these flags is a settingSource.
var settingFlags = []string{"config", "from", "preset"}

// settingSource is the value of a flag that names a source of settings.
type settingSource interface {
	pflag.Value
	// settings returns the values for the command. Before this call, the command line and the sources of higher
	// precedence (see settingFlags) have already set their flags.
	settings(cmd *cobra.Command) (settings, error)
	// took tells the source which flags have got a value from the source.
	took(flags []string)
}

// takeSettings reads the command's sources of settings, and sets flags to the values that it finds there. A flag that
// is on the command line keeps its value. Unless the user gave --quiet, the function prints the flags that it has set.
// It does not print flags whose new value is their default.
func takeSettings(cmd *cobra.Command, s streams) error {
	for _, name := range settingFlags {
		f := cmd.Flags().Lookup(name)
		if f == nil || f.Value.String() == "" {
			continue
		}
		source, ok := f.Value.(settingSource)
		if !ok {
			continue
		}
		given, err := source.settings(cmd)
		if err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
		taken, err := given.apply(cmd)
		if err != nil {
			return err
		}
		source.took(taken)
		if line := given.line(cmd, taken); line != "" && !isQuiet(cmd) {
			fmt.Fprintf(s.err, "from %s: %s\n", quote.Line(given.source), quote.Line(line))
		}
	}
	return nil
}

// isQuiet reports whether the user gave --quiet.
func isQuiet(cmd *cobra.Command) bool {
	quiet, err := cmd.Flags().GetBool("quiet")
	return err == nil && quiet
}

// apply sets the flags that are not set yet, and returns their names in ascending order.
func (s settings) apply(cmd *cobra.Command) (taken []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		f := cmd.Flags().Lookup(name)
		if f == nil {
			return nil, fmt.Errorf("%s: %s has no --%s", s.source, cmd.CommandPath(), name)
		}
		if f.Changed {
			continue
		}
		values := s.of(f)
		if len(values) > 1 && !repeats(f) {
			return nil, fmt.Errorf("%s: %s takes one value", s.source, name)
		}
		for _, value := range values {
			if err := cmd.Flags().Set(name, value); err != nil {
				return nil, fmt.Errorf("%s: %w", s.source, explainFlag(cmd, err))
			}
		}
		taken = append(taken, name)
		if err := cmd.Flags().SetAnnotation(name, settingKey, []string{s.source}); err != nil {
			return nil, err
		}
	}
	return taken, nil
}

// The method 'of' returns the values of a flag. If a list of values makes a sweep, the result is one value: the list
// joined by commas.
func (s settings) of(f *pflag.Flag) []string {
	values := s.values[f.Name]
	if len(values) > 1 && takesList(f) {
		return []string{strings.Join(values, ",")}
	}
	return values
}

// settingKey is the key of the annotation that marks a flag whose value comes from a source of settings.
const settingKey = "rscert_setting"

// fromSettings reports whether a source of settings, not the command line, has set a flag.
func fromSettings(cmd *cobra.Command, flag string) bool {
	return cmd.Flags().Lookup(flag).Annotations[settingKey] != nil
}

// isDefault reports whether the value is the default of the flag.
func isDefault(f *pflag.Flag, value string) bool {
	return value == f.DefValue || "["+value+"]" == f.DefValue
}

// repeats reports whether a flag takes several values, one each time that the user gives the flag.
func repeats(f *pflag.Flag) bool {
	switch inner(f).(type) {
	case pflag.SliceValue, requirementList, models:
		return true
	}
	return f.Value.Type() == listType
}

// line returns the settings of the flags in the form of a command line. It omits default values.
func (s settings) line(cmd *cobra.Command, flags []string) string {
	var words []string
	for _, name := range flags {
		f := cmd.Flags().Lookup(name)
		for _, value := range s.of(f) {
			if !isDefault(f, value) {
				words = append(words, "--"+name+" "+quote.Shell(value))
			}
		}
	}
	return strings.Join(words, " ")
}
