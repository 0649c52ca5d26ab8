package dataset

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/quote"
)

// classNames holds the names of a model's classes in the model's order.
type classNames struct {
	source string // the source of the names, for messages
	sum    string // SHA-256 of the file, in hex; "" if the names are Options.ModelClasses
	count  int
	byName map[string]int // class of each name; −1 for a name that several classes share
}

// maxNames is the maximum size of a file of names, in bytes.
const maxNames = pieceSize

// readClassNames reads a file of class names. It returns nil for the path "".
func readClassNames(path string) (*classNames, error) {
	if path == "" {
		return nil, nil
	}
	text, classes, err := readAliases(path)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	c := newClassNames(path, classes)
	c.sum = hex.EncodeToString(sum[:])
	return c, nil
}

// ReadClassNames reads a file of class names and returns one name for each class. If a class has several names, it
// returns the last name. In ImageNet's lists this is the readable name.
func ReadClassNames(path string) ([]string, error) {
	_, classes, err := readAliases(path)
	var names []string
	for _, aliases := range classes {
		names = append(names, aliases[len(aliases)-1])
	}
	return names, quote.Error(err)
}

// readAliases returns the text of a file of class names, and all names of every class.
func readAliases(path string) (text []byte, classes [][]string, err error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if size > maxNames {
		return nil, nil, fmt.Errorf("%s: %d bytes; a file of class names has at most %d", path, size, maxNames)
	}
	if text, err = io.ReadAll(io.LimitReader(f, size)); err != nil {
		return nil, nil, fileError(err)
	}
	if bytes.HasPrefix(text, []byte(pickleMagic)) {
		var names []string
		if names, err = readPickledNames(context.Background(), path, pieces{text}, ""); err != nil {
			return nil, nil, err
		}
		for _, name := range names {
			classes = append(classes, []string{name})
		}
		err = checkDistinct(classes)
	} else {
		classes, err = parseClassNames(text)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return text, classes, nil
}

// newClassNames indexes the classes by all their aliases.
func newClassNames(source string, classes [][]string) *classNames {
	c := &classNames{source: source, count: len(classes), byName: map[string]int{}}
	for label, aliases := range classes {
		for _, name := range aliases {
			if before, ok := c.byName[name]; ok && before != label {
				c.byName[name] = -1
			} else {
				c.byName[name] = label
			}
		}
	}
	return c
}

// modelNames returns the names in Options.ModelClasses. It returns nil if ModelClasses is empty. It also returns nil if
// ClassNames or FirstLabel determines the numbers of the classes.
func (o Options) modelNames() *classNames {
	if o.ClassNames != "" || o.FirstLabel != 0 || len(o.ModelClasses) == 0 {
		return nil
	}
	var classes [][]string
	for _, label := range o.ModelClasses {
		classes = append(classes, []string{label})
	}
	return newClassNames("the model", classes)
}

// If the labels of d are numbers, renumber looks up each label in Options.ModelClasses. It replaces the label by the
// number of the model's class whose name is this label. If this fails for any label, renumber changes nothing.
func (d *Dataset) renumber(opt Options) {
	names := opt.modelNames()
	if names == nil || d.names != nil || d.folders > 0 {
		return
	}
	classes := make([]int, len(d.labels))
	for i, label := range d.labels {
		class, err := names.label(strconv.Itoa(label))
		if err != nil {
			return
		}
		classes[i] = class
	}
	d.labels, d.names, d.byName = classes, names, true
	d.addNote("classes in the order of the model")
}

// ByModel reports whether Options.ModelClasses determined the class of each label.
func (d *Dataset) ByModel(opt Options) bool { return d.byName && opt.modelNames() != nil }

// label returns the class with this name. It returns an error if several classes share the name, for example "crane" in
// ImageNet.
func (c *classNames) label(name string) (int, error) {
	switch label, ok := c.byName[strings.TrimSpace(name)]; {
	case !ok:
		return 0, fmt.Errorf("%s is not among the %d class names of %s", quote.Field(name), c.count, c.source)
	case label < 0:
		return 0, fmt.Errorf("%s is the name of several classes in %s", quote.Field(name), c.source)
	default:
		return label, nil
	}
}

// synset matches the lines of ImageNet's lists: "n01440764 tench, Tinca tinca".
var synset = regexp.MustCompile(`^(n\d{8})(?:[\s,:]+(.*))?$`)

// parseClassNames returns the aliases of every class. The text is either JSON or has one class on each line, with or
// without a synset number. The JSON is ImageNet's common class index ({"0": ["n01440764", "tench"], …}), the mapping
// id2label of the library transformers, or a list.
func parseClassNames(text []byte) ([][]string, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		return parseJSONNames(trimmed)
	}
	var classes [][]string
	for n, line := range strings.Split(strings.TrimRight(string(text), "\r\n \t"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			return nil, fmt.Errorf("line %d: empty; a line is a class's name, in the model's order", n+1)
		}
		aliases := []string{line}
		if m := synset.FindStringSubmatch(line); m != nil {
			aliases = append(aliases, m[1])
			if m[2] != "" {
				aliases = append(aliases, strings.TrimSpace(m[2]))
			}
		}
		classes = append(classes, aliases)
	}
	if err := checkDistinct(classes); err != nil {
		return nil, err
	}
	return classes, nil
}

func parseJSONNames(text []byte) ([][]string, error) {
	var list []json.RawMessage
	if text[0] == '{' {
		var byNumber map[string]json.RawMessage
		if err := json.Unmarshal(text, &byNumber); err != nil {
			return nil, fmt.Errorf("not a JSON object of class names: %w", err)
		}
		for k := range len(byNumber) {
			name, ok := byNumber[strconv.Itoa(k)]
			if !ok {
				return nil, fmt.Errorf("a JSON object of class names has the keys \"0\" to \"%d\", and this one lacks \"%d\"", len(byNumber)-1, k)
			}
			list = append(list, name)
		}
	} else if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("not a JSON list of class names: %w", err)
	}
	var classes [][]string
	for k, item := range list {
		var name string
		var aliases []string
		if json.Unmarshal(item, &name) == nil {
			aliases = []string{name}
		} else if json.Unmarshal(item, &aliases) != nil || len(aliases) == 0 {
			return nil, fmt.Errorf("class %d: %s is neither a name nor a list of names", k, quote.Field([]byte(item)))
		}
		for i := range aliases {
			aliases[i] = strings.TrimSpace(aliases[i])
		}
		classes = append(classes, aliases)
	}
	if err := checkDistinct(classes); err != nil {
		return nil, err
	}
	return classes, nil
}

// checkDistinct refuses lists with fewer than 2 classes. It also refuses lists that give two classes the same first
// alias, because one of the two must be a mistake. Classes may share their other aliases.
func checkDistinct(classes [][]string) error {
	if len(classes) < 2 {
		return errors.New("fewer than 2 class names")
	}
	seen := map[string]int{}
	for k, aliases := range classes {
		if first, ok := seen[aliases[0]]; ok {
			return fmt.Errorf("classes %d and %d are both %s", first, k, quote.Field(aliases[0]))
		}
		seen[aliases[0]] = k
	}
	return nil
}
