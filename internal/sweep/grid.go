// Package sweep describes sweeps. A sweep is a set of runs of 'certify' that differ in a few parameters. A Grid lists
// the values of these parameters, and Grid.Points returns one Point for each run. A sweep has a folder, which holds the
// run folders of all points and a Record of the sweep.
package sweep

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
)

// Axis is a parameter with the values that it takes in a sweep.
type Axis struct {
	Parameter param.Name `json:"parameter"`
	Values    []string   `json:"values"` // each value as run.json spells it, without repetitions
}

// Grid lists the axes of a sweep. The sweep has a run for each combination of the axes' values.
type Grid []Axis

// Point is a run of a sweep.
type Point struct {
	// Name is the name of the point's run folder, such as law-laplace-sigma-0.5.
	Name string `json:"name"`
	// Settings holds the value of each axis, by the name of the axis.
	Settings map[param.Name]string `json:"settings"`
}

// maxPoints limits the number of runs of a sweep, because each run has a folder and a row in the table.
const maxPoints = 1000

// maxName limits the length of a folder's name. File systems allow at least 255 bytes.
const maxName = 200

// NewGrid returns the grid of the axes. It sorts the axes by the names of their parameters, so the order of the flags
// on the command line does not matter.
func NewGrid(axes ...Axis) (Grid, error) {
	g := Grid(slices.Clone(axes))
	slices.SortFunc(g, func(a, b Axis) int { return strings.Compare(string(a.Parameter), string(b.Parameter)) })
	points := 1
	for _, a := range g {
		points *= len(a.Values)
		if points > maxPoints {
			return nil, hint.Add(spec.BadInputf("the sweep has more than %d points", maxPoints), "give fewer values, or split the sweep into several commands")
		}
	}
	return g, nil
}

// Points returns all combinations of the values. The value of the last axis changes fastest.
func (g Grid) Points() []Point {
	points := []Point{{Settings: map[param.Name]string{}}}
	for _, axis := range g {
		names := shortNames(axis.Values)
		var longer []Point
		for _, p := range points {
			for k, value := range axis.Values {
				q := Point{Name: string(axis.Parameter) + "-" + names[k], Settings: map[param.Name]string{axis.Parameter: value}}
				if p.Name != "" {
					q.Name = p.Name + "-" + q.Name
				}
				for name, v := range p.Settings {
					q.Settings[name] = v
				}
				longer = append(longer, q)
			}
		}
		points = longer
	}
	shorten(points)
	return points
}

// Find returns the index of the point that has the given name, and whether there is such a point.
func Find(points []Point, name string) (int, bool) {
	k := slices.IndexFunc(points, func(p Point) bool { return p.Name == name })
	return k, k >= 0
}

// shortNames returns a name for each value. These names can be parts of a folder's name. The name of a value is the
// text after its last slash, without the extension .onnx. For the path of a model, this is the last part of the path.
// If two of these names are equal or one is empty, every name is the full text of its value instead. If two full texts
// are equal or one is empty, every name is the full text followed by the index of the value.
func shortNames(values []string) []string {
	for _, name := range []func(string) string{lastPart, fullText} {
		names := make([]string, len(values))
		for k, v := range values {
			names[k] = name(v)
		}
		if distinct(names) {
			return names
		}
	}
	names := make([]string, len(values))
	for k, v := range values {
		names[k] = fmt.Sprintf("%s-%d", fullText(v), k)
	}
	return names
}

func lastPart(value string) string { return plain(strings.TrimSuffix(path.Base(value), ".onnx")) }

func fullText(value string) string { return plain(strings.TrimSuffix(value, ".onnx")) }

// The function 'plain' replaces the characters that a shell or a file system could misread, such as spaces and slashes.
func plain(text string) string {
	safe := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._+-", r) {
			return r
		}
		return '-'
	}, text)
	for strings.Contains(safe, "--") {
		safe = strings.ReplaceAll(safe, "--", "-")
	}
	return strings.Trim(safe, "-")
}

// distinct reports whether all names differ from each other and none is empty. It ignores the case of letters, as some
// file systems do.
func distinct(names []string) bool {
	seen := map[string]bool{}
	for _, name := range names {
		if lower := strings.ToLower(name); name == "" || seen[lower] {
			return false
		}
		seen[strings.ToLower(name)] = true
	}
	return true
}

// shorten renames all points to 'point-0', 'point-1' and so on, if one of the names is too long for a folder, or if two
// names are equal.
func shorten(points []Point) {
	var names []string
	long := false
	for _, p := range points {
		names = append(names, p.Name)
		long = long || len(p.Name) > maxName
	}
	if !long && distinct(names) {
		return
	}
	for k := range points {
		points[k].Name = fmt.Sprintf("point-%d", k)
	}
}
