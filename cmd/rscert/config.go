package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
)

// configFile is the value of --config: the path of a YAML file whose keys are names of flags. A key may also be the
// name of a command. The flags under such a key are for this command alone. The path is "" without --config.
type configFile struct{ path *string }

func (c configFile) String() string {
	if c.path == nil { // pflag calls String on a zero value
		return ""
	}
	return *c.path
}

func (c configFile) Set(path string) error {
	*c.path = path
	return nil
}

func (configFile) Type() string { return "string" }

func (configFile) took([]string) {}

// addConfig adds --config to every command with flags that a config file can set.
func addConfig(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		addConfig(c)
	}
	if cmd.HasSubCommands() || !cmd.HasParent() || !configurable(cmd) {
		return
	}
	cmd.Flags().Var(configFile{new(string)}, "config", "YAML `file` that sets further flags; each key is the name of a flag; flags on the command line win (docs/command-line.md)")
	if cmd.Flags().Lookup("model") != nil {
		group(cmd, "How it is run")
	}
}

// configurable reports whether a command takes the flag --config.
func configurable(cmd *cobra.Command) bool {
	switch cmd.Name() {
	case "certify", "radius", "confidence", "acce", "ce", "perturb", "metrics", "temperature", "calibrate", "report", "attack", "audit",
		"predict", "serve", "fit", "apply", "evaluate", "compare", "verify":
		return true
	}
	return false
}

const (
	configSchema  = "rscert/config/1"
	maxConfigSize = 1 << 20 // bytes
)

// settings reads the file.
func (c configFile) settings(cmd *cobra.Command) (settings, error) {
	info, err := os.Stat(*c.path)
	if err == nil && info.Size() > maxConfigSize {
		err = fmt.Errorf("%s: %d bytes; a config file has at most %d", *c.path, info.Size(), maxConfigSize)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(*c.path)
	}
	if err != nil {
		return settings{}, err
	}
	s := settings{*c.path, map[string][]string{}}
	if err := s.parse(cmd, text); err != nil {
		return s, fmt.Errorf("%s: %w", *c.path, err)
	}
	return s, nil
}

// parse reads the text of a config file.
func (s settings) parse(cmd *cobra.Command, text []byte) error {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return err
	}
	if len(document.Content) == 0 {
		return errors.New("is empty; want lines such as 'sigma: 0.25'")
	}
	return s.parseMap(cmd, document.Content[0], true)
}

// parseMap adds the flags of a mapping. On the top level, a mapping under the name of a command holds flags of this
// command.
func (s settings) parseMap(cmd *cobra.Command, node *yaml.Node, top bool) error {
	if node.Kind != yaml.MappingNode {
		return atLine(node, "want lines such as 'sigma: 0.25'")
	}
	var own *yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch {
		case top && value.Kind == yaml.MappingNode && isCommand(cmd, key.Value):
			if key.Value == configName(cmd) {
				own = value
			}
			continue
		case top && key.Value == "schema":
			if value.Value != configSchema {
				return atLine(value, "the schema is %s; want %s", quote.Field(value.Value), configSchema)
			}
			continue
		}
		if err := s.parseFlag(cmd, key, value); err != nil {
			return err
		}
	}
	if own == nil {
		return nil
	}
	return s.parseMap(cmd, own, false) // flags under the command's name override flags on the top level
}

// parseFlag adds the values of one flag to s.values.
func (s settings) parseFlag(cmd *cobra.Command, key, value *yaml.Node) error {
	f := cmd.Flags().Lookup(key.Value)
	if f == nil || key.Value == "config" || key.Value == "help" {
		err := atLine(key, "unknown key %s: want a flag of '%s'", quote.Field(key.Value), cmd.CommandPath())
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if name := nearest(key.Value, known, flagsElsewhere); name != "" {
			return hint.Add(err, "did you mean %s?", name)
		}
		return err
	}
	list := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		list = value.Content
	}
	if len(list) == 0 {
		return atLine(value, "%s is an empty list", key.Value)
	}
	var values []string
	for _, item := range list {
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
			return atLine(item, "%s: want a value, or a list of values", key.Value)
		}
		values = append(values, item.Value)
	}
	s.values[key.Value] = values
	return nil
}

// isCommand reports whether name is the name that config files use for some command.
func isCommand(cmd *cobra.Command, name string) bool {
	found, rest, err := cmd.Root().Find(strings.Fields(name))
	return err == nil && len(rest) == 0 && found.HasParent() && configName(found) == name
}

// configName returns the name that config files use for a command, such as "conformal fit".
func configName(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

func atLine(node *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("line %d: %s", node.Line, fmt.Sprintf(format, args...))
}
