package conformalfile

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/conformal"
	"github.com/rscert/rscert/internal/law"
)

// Set is the prediction set of one input: a line of sets.jsonl.
type Set struct {
	Index int    `json:"index"`
	Label *int   `json:"label,omitempty"` // absent for data without labels
	Group string `json:"group,omitempty"`
	// Set lists the classes in ascending order, and Size counts them.
	Set  []int `json:"set"`
	Size int   `json:"size"`
	// Counts holds, for each class, how many of its scores reach the class's threshold. Each class has as many scores
	// as there are draws (Draws).
	Counts []int64 `json:"counts"`
	Draws  int64   `json:"draws"`
	// CertifiedCounts holds, for each class, how many of its scores in M draws reach the class's threshold. The
	// certified size is computed from these counts. They are absent if no certified size was requested.
	CertifiedCounts []int64 `json:"certified_counts,omitempty"`
	Moved           float64 `json:"moved,omitempty"` // distance by which rounding to the lattice moved the input, rounded up

	Conditions
}

// Conditions lists what the guarantee of a set depends on.
type Conditions struct {
	Predictor string         `json:"predictor"` // ID of the predictor's file
	Rule      conformal.Rule `json:"rule"`
	Law       law.Name       `json:"law,omitempty"`
	Scale     float64        `json:"sigma,omitempty"` // scale of the noise; absent without noise
	Norm      law.Norm       `json:"norm"`
	Radius    float64        `json:"radius"` // the guarantee holds for perturbations up to this length
	Poison    float64        `json:"poison_radius,omitempty"`
	Poisoned  int            `json:"poisoned,omitempty"`
	Queries   int64          `json:"queries,omitempty"`
	Shift     float64        `json:"rho"`
	Miss      float64        `json:"miss"`

	Guarantee conformal.Guarantee `json:"guarantee"`
	Delta     float64             `json:"delta,omitempty"`
	// Sound is false if the set has no guarantee. If the reason is repeated noise, Seed is the seed of this noise.
	Sound      bool               `json:"sound"`
	Seed       *uint64            `json:"replayed_seed,omitempty"`
	Arithmetic certify.Arithmetic `json:"arithmetic"`

	// OwnRange means that the classifier clamps inputs to the range of the calibration data. This lowers the rank of
	// each threshold by two (see conformal.Design.OwnRange).
	OwnRange bool `json:"own_range,omitempty"`
	// M and QueryM are numbers of draws. T and QueryT are numbers of scores that must reach the threshold (see
	// conformal.Design for all four). N is the number of calibration examples for the set's threshold, and K is the
	// rank of this threshold. If each class has its own threshold, N and K describe the threshold of the label's class.
	M      int64 `json:"m"`
	T      int64 `json:"t"`
	QueryM int64 `json:"query_m"`
	QueryT int64 `json:"query_t"`
	N      int64 `json:"n"`
	K      int64 `json:"k"`
}

// WriteLines writes sets as JSON lines.
func WriteLines(w io.Writer, sets []Set) error {
	e := json.NewEncoder(w)
	for _, s := range sets {
		if err := e.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

// A row is the prediction set of one input, in the form of a table row. The field Set holds the classes with spaces
// between them.
type row struct {
	Index      int64   `parquet:"index"`
	Label      *int64  `parquet:"label,optional"`
	Set        string  `parquet:"set"`
	Size       int64   `parquet:"size"`
	Draws      int64   `parquet:"draws"`
	Moved      float64 `parquet:"moved"`
	Rule       string  `parquet:"rule"`
	Radius     float64 `parquet:"radius"`
	Norm       string  `parquet:"norm"`
	Miss       float64 `parquet:"miss"`
	Guarantee  string  `parquet:"guarantee"`
	Sound      bool    `parquet:"sound"`
	Arithmetic string  `parquet:"arithmetic"`
}

func (s Set) row() row {
	r := row{
		Index: int64(s.Index), Set: s.Classes(), Size: int64(s.Size), Draws: s.Draws, Moved: s.Moved, Rule: s.Rule.String(), Radius: s.Radius,
		Norm: s.Norm.String(), Miss: s.Miss, Guarantee: s.Guarantee.String(), Sound: s.Sound, Arithmetic: s.Arithmetic.String(),
	}
	if s.Label != nil {
		label := int64(*s.Label)
		r.Label = &label
	}
	return r
}

// Classes returns the classes of the set with spaces between them.
func (s Set) Classes() string {
	classes := make([]string, len(s.Set))
	for i, y := range s.Set {
		classes[i] = strconv.Itoa(y)
	}
	return strings.Join(classes, " ")
}

// WriteCSV writes sets as CSV with a header. Missing labels are empty.
func WriteCSV(w io.Writer, sets []Set) error {
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	lines := [][]string{{"index", "label", "set", "size", "draws", "moved", "rule", "radius", "norm", "miss", "guarantee", "sound", "arithmetic"}}
	for _, s := range sets {
		r := s.row()
		label := ""
		if r.Label != nil {
			label = strconv.FormatInt(*r.Label, 10)
		}
		lines = append(lines, []string{
			strconv.FormatInt(r.Index, 10), label, r.Set, strconv.FormatInt(r.Size, 10), strconv.FormatInt(r.Draws, 10), number(r.Moved),
			r.Rule, number(r.Radius), r.Norm, number(r.Miss), r.Guarantee, strconv.FormatBool(r.Sound), r.Arithmetic,
		})
	}
	return csv.NewWriter(w).WriteAll(lines)
}

// WriteParquet writes sets as a Parquet file with the columns of WriteCSV.
func WriteParquet(w io.Writer, sets []Set) error {
	p := parquet.NewGenericWriter[row](w)
	rows := make([]row, len(sets))
	for i, s := range sets {
		rows[i] = s.row()
	}
	if _, err := p.Write(rows); err != nil {
		return err
	}
	return p.Close()
}

// maxLine is the maximum length of a line of sets.jsonl in bytes. A line with the counts of a million classes is
// shorter.
const maxLine = 64 << 20

// ReadSets reads a sets.jsonl file. All sets must come from one predictor, and no index may appear twice.
func ReadSets(path string) ([]Set, error) {
	in, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<16), maxLine)
	var sets []Set
	seen := map[int]bool{}
	cells := map[cell]Conditions{}
	number := 0
	for lines.Scan() {
		number++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var s Set
		err := json.Unmarshal(lines.Bytes(), &s)
		if err == nil {
			err = s.validate()
		}
		switch {
		case err != nil:
		case seen[s.Index]:
			err = fmt.Errorf("index %d appears twice", s.Index)
		case len(sets) > 0:
			err = s.sameConditions(sets[0])
		}
		if err == nil {
			err = s.sameRank(cells)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		seen[s.Index] = true
		sets = append(sets, s)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", path, number+1, err)
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("%s: has no sets", path)
	}
	return sets, nil
}

// validate returns an error if a line contradicts itself.
func (s Set) validate() error {
	classes := len(s.Counts)
	switch {
	case s.Index < 0:
		return fmt.Errorf("index %d: want a number from 0", s.Index)
	case s.Predictor == "" || classes == 0:
		return errors.New("is no line of sets.jsonl: it has no predictor or no counts")
	case s.Size != len(s.Set):
		return fmt.Errorf("size is %d, and the set has %d classes", s.Size, len(s.Set))
	case !slices.IsSorted(s.Set) || len(slices.Compact(slices.Clone(s.Set))) != len(s.Set):
		return errors.New("the classes of the set are not in ascending order")
	case s.Size > 0 && (s.Set[0] < 0 || s.Set[s.Size-1] >= classes):
		return fmt.Errorf("the set has a class outside 0 to %d", classes-1)
	case s.Label != nil && (*s.Label < 0 || *s.Label >= classes):
		return fmt.Errorf("label %d: want 0 to %d", *s.Label, classes-1)
	case !(s.Miss > 0 && s.Miss < 1) || !(s.Radius >= 0) || math.IsInf(s.Radius, 1):
		return fmt.Errorf("miss %v, radius %v: want a miss between 0 and 1 and a radius from 0", s.Miss, s.Radius)
	case s.CertifiedCounts != nil && len(s.CertifiedCounts) != classes:
		return fmt.Errorf("certified_counts has %d classes, and counts has %d", len(s.CertifiedCounts), classes)
	}
	if err := s.checkCounts(); err != nil {
		return err
	}
	return s.Conditions.validate()
}

// checkCounts returns an error in three cases: a count is impossible, the counts leave it open whether a class belongs
// to the set, or the set that follows from the counts differs from the field Set.
func (s Set) checkCounts() error {
	p := &conformal.Predictor{Labels: len(s.Counts)}
	p.QueryM, p.QueryT = s.QueryM, s.QueryT
	for y, count := range s.Counts {
		if count < 0 || count > s.Draws {
			return fmt.Errorf("class %d has %d of %d draws", y, count, s.Draws)
		}
	}
	switch decided, err := p.Set(s.Counts, s.Draws); {
	case err != nil:
		return fmt.Errorf("its counts decide no set: %w", err)
	case !slices.Equal(decided, s.Set):
		return fmt.Errorf("the set is %v, and the counts decide for %v", s.Set, decided)
	}
	for y, count := range s.CertifiedCounts {
		if count < 0 || count > s.M {
			return fmt.Errorf("class %d has %d of %d draws in certified_counts", y, count, s.M)
		}
	}
	return nil
}

// maxDraws is the maximum number of draws that a line may state.
const maxDraws = 1_000_000

// validate returns an error if no predictor can have these conditions.
func (c Conditions) validate() error {
	l, err := c.Law.Additive()
	if err != nil {
		return err
	}
	switch {
	case c.Norm != l.Norm():
		return fmt.Errorf("its radius is in %s, and its noise certifies in %s", c.Norm.Title(), l.Norm().Title())
	case c.Sound && !(c.Radius+c.Poison <= c.Shift*c.Scale*(1+1e-12)):
		return fmt.Errorf("radius %v is above rho·sigma = %v", c.Radius+c.Poison, c.Shift*c.Scale)
	case c.Sound && c.Rule == conformal.Clean && c.Shift > 0:
		return fmt.Errorf("rule %s is sound without an attack only, and rho is %v", c.Rule, c.Shift)
	case c.Sound && c.Seed != nil:
		return fmt.Errorf("is sound, but repeats the noise of seed %d", *c.Seed)
	case c.M < 1 || c.M > maxDraws || c.QueryM < 1 || c.QueryM > maxDraws:
		return fmt.Errorf("m is %d and query_m %d: want 1 to %d", c.M, c.QueryM, maxDraws)
	case c.T < 0 || c.T > c.M+1 || c.QueryT < 0 || c.QueryT > c.QueryM:
		return fmt.Errorf("t is %d and query_t %d, of %d and %d draws", c.T, c.QueryT, c.M, c.QueryM)
	case c.N < 0 || c.K < 0 || c.K > c.N:
		return fmt.Errorf("k is %d of n = %d calibration examples", c.K, c.N)
	case c.OwnRange && c.K > max(0, c.N-conformal.RangeRanks):
		return fmt.Errorf("k is %d of n = %d calibration examples, and the range of the data costs %d ranks", c.K, c.N, conformal.RangeRanks)
	case !(c.Shift >= 0) || math.IsInf(c.Shift, 1) || !(c.Scale >= 0) || math.IsInf(c.Scale, 1):
		return fmt.Errorf("rho is %v and sigma %v: want numbers from 0", c.Shift, c.Scale)
	}
	return nil
}

// sameConditions returns an error unless both sets come from one predictor.
func (s Set) sameConditions(first Set) error {
	switch {
	case s.Predictor != first.Predictor:
		return fmt.Errorf("is a set of predictor %.40q, and the first line is of %.40q: evaluate them in files of their own", s.Predictor, first.Predictor)
	case len(s.Counts) != len(first.Counts):
		return fmt.Errorf("counts has %d classes, and the first line has %d", len(s.Counts), len(first.Counts))
	}
	here, there := s.Conditions.fixed(), first.Conditions.fixed()
	for i, c := range here {
		if c != there[i] {
			return fmt.Errorf("%s is %v, and the first line has %v", c.name, c.value, there[i].value)
		}
	}
	return nil
}

// condition is the name and the value of one field of Conditions.
type condition struct {
	name  string
	value any
}

// The method 'fixed' returns the conditions that all sets of a predictor share. Other conditions, such as the radius,
// can differ between sets. There are two reasons: rounding may move an input, and a file may join the sets of several
// calls.
func (c Conditions) fixed() []condition {
	return []condition{
		{"rule", c.Rule}, {"law", c.Law.String()}, {"sigma", c.Scale}, {"norm", c.Norm}, {"poison_radius", c.Poison}, {"poisoned", c.Poisoned},
		{"queries", c.Queries}, {"rho", c.Shift}, {"miss", c.Miss}, {"guarantee", c.Guarantee}, {"delta", c.Delta}, {"arithmetic", c.Arithmetic},
		{"own_range", c.OwnRange}, {"m", c.M}, {"t", c.T}, {"query_m", c.QueryM}, {"query_t", c.QueryT},
	}
}

// sameRank returns an error if an earlier line with the same threshold has another rank or another number of examples.
func (s Set) sameRank(cells map[cell]Conditions) error {
	at, known := s.cell()
	if !known {
		return nil
	}
	switch first, ok := cells[at]; {
	case !ok:
		cells[at] = s.Conditions
	case first.N != s.N || first.K != s.K:
		return fmt.Errorf("k is %d of n = %d, and an earlier line of the same threshold has %d of %d", s.K, s.N, first.K, first.N)
	}
	return nil
}
