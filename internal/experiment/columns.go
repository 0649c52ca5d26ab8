package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// columns are the parts of an input for which the noise can have different scales: the values of a flat example, or the
// colour channels of an image.
type columns struct {
	names []string
	of    []int // column of each value of the model's input
	image bool
}

// splitColumns divides the model's input into columns. For images, the columns are the channels. The columns are also
// channels if three conditions hold: the data are flat, the model takes images, and the argument 'channels' is true.
func (e *Experiment) splitColumns(a graph.Arrangement, channels bool) (columns, error) {
	shape, d := e.data.Shape(), e.model.InputLen()
	c := columns{of: make([]int, d), image: len(shape) > 1 || channels && a.Channels > 1}
	if channels && !c.image {
		return c, hint.Add(spec.BadInputf("%s: the data have columns, not channels", param.SigmaChannels),
			"name the columns in a file for %s", param.SigmaColumns)
	}
	if len(shape) > 3 {
		return c, spec.BadInputf("%s: inputs of shape %v have neither columns nor channels", param.SigmaColumns, shape)
	}
	if c.image {
		for i := range a.Channels {
			c.names = append(c.names, fmt.Sprintf("channel %d", i))
		}
		for j := range c.of {
			c.of[j] = a.Channel(j)
		}
		return c, nil
	}
	c.names = e.data.Columns()
	seen := map[string]bool{}
	for i := range d {
		if len(c.names) <= i {
			c.names = append(c.names, fmt.Sprintf("column %d", i))
		}
		if seen[c.names[i]] {
			return c, spec.BadInputf("%s: two columns are called %q", e.Spec.Data, c.names[i])
		}
		seen[c.names[i]] = true
	}
	for j := range c.of {
		c.of[j] = j
		if a.Perm != nil {
			c.of[j] = a.Perm[j]
		}
	}
	return c, nil
}

// scaleColumns sets the spec's SigmaColumns. If the spec has no separate scales for columns, or no noise, it does
// nothing.
func (e *Experiment) scaleColumns(ctx context.Context, a graph.Arrangement) error {
	s := &e.Spec
	if s.Noise == spec.NoNoise || !s.Scales.Given() && !s.Scaled() {
		return nil
	}
	channels := len(s.Scales.Channels) > 0 ||
		!s.Scales.Given() && len(s.SigmaColumns) == a.Channels && len(s.SigmaColumns) != e.model.InputLen()
	c, err := e.splitColumns(a, channels)
	if err != nil {
		return err
	}
	switch e.columns = c; {
	case !s.Scales.Given():
		return c.checkRecorded(s.SigmaColumns, s.Data)
	case s.Scales.Kind != "":
		err = e.scaleByData(ctx, a)
	case len(s.Scales.Channels) > 0:
		if n := len(s.Scales.Channels); n != len(c.names) {
			return spec.BadInputf("%s has %d values; the model's input has %d channels", param.SigmaChannels, n, len(c.names))
		}
		err = e.setScales(s.Scales.Channels)
	default:
		var scales []float64
		if scales, err = readScales(s.Scales.File, c.names); err == nil {
			err = e.setScales(scales)
		}
	}
	if err != nil {
		return spec.BadInput(err)
	}
	e.noteFrozen()
	return nil
}

// checkRecorded compares the columns c of the data with the recorded columns of a run. It returns an error unless both
// have the same names in the same order.
func (c columns) checkRecorded(of []spec.SigmaColumn, data string) error {
	if len(of) != len(c.names) {
		return spec.BadInputf("%s: has %d columns, and the run has a σ for %d", data, len(c.names), len(of))
	}
	for i, column := range of {
		if column.Name != c.names[i] {
			return spec.BadInputf("%s: its column %d is %q, and that of the run %q", data, i, c.names[i], column.Name)
		}
	}
	return nil
}

// setScales sets the scales of the columns.
func (e *Experiment) setScales(scales []float64) error {
	e.Spec.Sigma, e.Spec.SigmaColumns = 1, nil
	for i, v := range scales {
		e.Spec.SigmaColumns = append(e.Spec.SigmaColumns, spec.SigmaColumn{Name: e.columns.names[i], Sigma: v})
	}
	if e.Spec.Noisy() == 0 {
		return errors.New("no column has noise: nothing can be certified")
	}
	return nil
}

// noteFrozen tells the user which columns have no noise.
func (e *Experiment) noteFrozen() {
	var frozen []string
	for _, c := range e.Spec.SigmaColumns {
		if c.Sigma == 0 {
			frozen = append(frozen, c.Name)
		}
	}
	e.console.Notef("%d of %d columns have noise; radii are in units of each column's %s", e.Spec.Noisy(), len(e.Spec.SigmaColumns), e.Spec.Law.Law().Words().Symbol)
	if len(frozen) > 0 {
		e.console.Notef("frozen, so that certificates hold for inputs with the same values there: %s", strings.Join(frozen, ", "))
	}
}

// scaleByData sets each scale to Sigma times the standard deviation of the column in a data set. Columns that are
// constant in this data set get the scale 0, which means no noise. A column of whole numbers also gets the scale 0,
// unless it is a channel of images or the user named it.
func (e *Experiment) scaleByData(ctx context.Context, a graph.Arrangement) (err error) {
	s := e.Spec.Scales
	data, err := dataset.Open(ctx, s.Data, e.scaleOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	data.FitChannels(imageChannels(e.file))
	if err := e.sameColumns(data); err != nil {
		return err
	}
	stats, err := e.columns.measure(ctx, data, a)
	if err != nil {
		return err
	}
	noisy := make([]bool, len(e.columns.names))
	for _, name := range s.Noisy {
		i := e.columns.find(name)
		if i < 0 {
			return hint.Add(param.Errorf("%s %s: no column has this name", param.NoisyColumns, name), "the columns are %s", list(e.columns.names))
		}
		if noisy[i] = true; !(stats[i].deviation() > 0) {
			return param.Errorf("%s %s: the column is constant in %s, so its standard deviation is 0", param.NoisyColumns, name, s.Data)
		}
	}
	scales := make([]float64, len(stats))
	for i, st := range stats {
		if st.deviation() > 0 && (noisy[i] || e.columns.image || !st.whole) {
			scales[i] = e.Spec.Sigma * st.deviation()
		}
	}
	e.scale = &runfolder.ScaleData{File: s.Data, SHA256: data.SHA256(), Kind: s.Kind.String(), Sigma: e.Spec.Sigma}
	if err := e.setScales(scales); err != nil {
		return hint.Add(err, "%s NAME,… gives columns of whole numbers noise", param.NoisyColumns)
	}
	e.noteReasons(stats, noisy)
	if data.SHA256() == e.data.SHA256() {
		e.console.Warnf(warning.ScalesFromResults, "%s %s: these are the data to certify; take the training data, so that the scales do not depend on the results' examples", param.ScaleData, s.Data)
	}
	return nil
}

// scaleOptions returns the options for reading the data set that determines the scales. This data set needs no labels
// file.
func (e *Experiment) scaleOptions() dataset.Options {
	o := e.Spec.DataOptions
	if o.Labels != "" {
		o.Labels = "none"
	}
	return o
}

// sameColumns returns an error unless the data set 'other' has the same columns as the experiment's data.
func (e *Experiment) sameColumns(other *dataset.Dataset) error {
	if a, b := e.data.Shape(), other.Shape(); !slices.Equal(a, b) {
		return param.Errorf("%s %s: inputs of shape %v, and %v in %s", param.ScaleData, e.Spec.Scales.Data, b, a, e.Spec.Data)
	}
	if a, b := e.data.Columns(), other.Columns(); !slices.Equal(a, b) {
		return param.Errorf("%s %s: its columns are %s, and those of %s are %s", param.ScaleData, e.Spec.Scales.Data, list(b), e.Spec.Data, list(a))
	}
	return nil
}

// noteReasons tells the user why some columns have no noise.
func (e *Experiment) noteReasons(stats []columnStats, noisy []bool) {
	var constant, whole, groups []string
	grouped := make([]bool, len(stats))
	for _, g := range oneHotGroups(stats) {
		for i := g[0]; i < g[1]; i++ {
			grouped[i] = true
		}
		groups = append(groups, strings.Join(e.columns.names[g[0]:g[1]], " + "))
	}
	for i, st := range stats {
		switch {
		case !(st.deviation() > 0):
			constant = append(constant, e.columns.names[i])
		case st.whole && !noisy[i] && !grouped[i] && !e.columns.image:
			whole = append(whole, e.columns.names[i])
		}
	}
	say := func(what string, names []string) {
		if len(names) > 0 {
			e.console.Notef("%s: %s", what, strings.Join(names, ", "))
		}
	}
	say("constant in the scale data", constant)
	say("whole numbers in the scale data", whole)
	say("categories, coded by columns of 0 and 1 that sum to 1", groups)
	if len(whole)+len(groups) > 0 && !e.columns.image {
		e.console.Notef("columns of whole numbers get noise only by %s", param.NoisyColumns)
	}
}

// find returns the index of the column with this name or number, or −1 if there is none.
func (c columns) find(name string) int {
	if i := slices.Index(c.names, name); i >= 0 {
		return i
	}
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(c.names) && c.numbered() {
		return i
	}
	return -1
}

// The method 'numbered' reports whether the columns have no names of their own, so that their numbers serve as names.
func (c columns) numbered() bool {
	return c.names[0] == "column 0" || c.names[0] == "channel 0"
}

// list joins names for an error. If there are many names, it returns only the first names and the number of further
// names.
func list(names []string) string {
	const most = 8
	if len(names) == 0 {
		return "without names"
	}
	if n := len(names); n > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	return strings.Join(names, ", ")
}

// columnStats describes the values of a column.
type columnStats struct {
	n         float64
	mean, m2  float64 // m2 is Σ(x − mean)²
	low, high float32
	whole     bool  // all values are whole numbers
	binary    bool  // all values are 0 or 1
	ones      []int // rows in which the column is 1; nil unless the column is binary
}

// deviation returns the population standard deviation.
func (s columnStats) deviation() float64 {
	if s.low == s.high {
		return 0
	}
	return math.Sqrt(s.m2 / s.n)
}

// The method 'add' adds a value to the statistics (Welford 1962).
func (s *columnStats) add(x float32, row int) {
	if s.n == 0 {
		*s = columnStats{low: x, high: x, whole: true, binary: true}
	}
	s.n++
	v := float64(x)
	delta := v - s.mean
	s.mean += delta / s.n
	s.m2 += float64(delta * (v - s.mean))
	s.low, s.high = min(s.low, x), max(s.high, x)
	s.whole = s.whole && v == math.Trunc(v)
	if s.binary = s.binary && (x == 0 || x == 1); !s.binary {
		s.ones = nil
	} else if x == 1 {
		s.ones = append(s.ones, row)
	}
}

// measure reads all values of the data and returns the statistics of each column.
func (c columns) measure(ctx context.Context, data *dataset.Dataset, a graph.Arrangement) ([]columnStats, error) {
	stats := make([]columnStats, len(c.names))
	arranged := make([]float32, len(c.of))
	for i := range data.Len() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		example, err := data.Example(i)
		if err != nil {
			return nil, err
		}
		a.Arrange(arranged, example.Values)
		for j, x := range arranged {
			stats[c.of[j]].add(x, i)
		}
	}
	return stats, nil
}

// oneHotGroups returns ranges [first, end) of neighbouring binary columns. In every row, exactly one column of such a
// range is 1.
func oneHotGroups(stats []columnStats) (groups [][2]int) {
	for i := 0; i < len(stats); i++ {
		rows := map[int]bool{}
		for j := i; j < len(stats) && stats[j].binary && disjoint(rows, stats[j].ones); j++ {
			for _, row := range stats[j].ones {
				rows[row] = true
			}
			if float64(len(rows)) == stats[i].n && j > i {
				groups = append(groups, [2]int{i, j + 1})
				i = j
				break
			}
		}
	}
	return groups
}

func disjoint(rows map[int]bool, other []int) bool {
	return !slices.ContainsFunc(other, func(row int) bool { return rows[row] })
}
