package run

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/rscert/rscert/internal/runfolder"
)

// claim is a certified bound on a confidence: within the radius, the mean score of the class is in [lower, upper].
type claim struct {
	class                int
	radius, lower, upper float64
}

// readClaims returns a run's bounds on the confidence, by the index of the example. It returns nil if the run has no
// such bounds.
func readClaims(e *runfolder.Evidence) (map[int][]claim, error) {
	if len(e.Run.Parameters.ConfidenceRadii) == 0 {
		return nil, nil
	}
	bounds, err := e.Whole().Bounds()
	if err != nil {
		return nil, err
	}
	f, err := os.Open(bounds.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	header, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", bounds.File, err)
	}
	claims := map[int][]claim{}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return claims, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", bounds.File, err)
		}
		index, c, err := parseClaim(header, row)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", bounds.File, err)
		}
		claims[index] = append(claims[index], c)
	}
}

// parseClaim reads a row of bounds.csv. The class of the claim is the prediction if the prediction is certified.
// Otherwise, it is the label.
func parseClaim(header, row []string) (index int, c claim, err error) {
	var failed []error
	number := func(name string) float64 {
		at := slices.Index(header, name)
		if at < 0 || at >= len(row) {
			failed = append(failed, fmt.Errorf("column %s is missing", name))
			return 0
		}
		v, err := strconv.ParseFloat(row[at], 64)
		failed = append(failed, err)
		return v
	}
	class := "prediction"
	if slices.Contains(header, "certified") && number("certified") == 0 {
		class = "label"
	}
	c = claim{int(number(class)), number("radius"), number("lower"), number("upper")}
	return int(number("index")), c, errors.Join(failed...)
}
