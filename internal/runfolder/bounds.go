package runfolder

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/certify"
)

// boundsHeader names the columns of bounds.csv. examples is the number of
// examples that were sampled, those included that have no row because their class
// is not certified: whoever counts failures among the rows has to know it.
const boundsHeader = "index,label,prediction,correct,confidence,radius,lower,upper,examples\n"

// WriteBounds writes bounds.csv: bounds on the confidence under attack, a row
// an example and radius, from so many examples.
func WriteBounds(w io.Writer, rows []certify.ConfidenceBound, examples int) error {
	_, err := w.Write(appendBounds([]byte(boundsHeader), rows, examples))
	return err
}

func appendBounds(b []byte, rows []certify.ConfidenceBound, examples int) []byte {
	for _, r := range rows {
		for _, v := range []int{r.Index, r.Label, r.Prediction} {
			b = strconv.AppendInt(b, int64(v), 10)
			b = append(b, ',')
		}
		switch {
		case r.Label == certify.UnknownLabel: // neither right nor wrong
		case r.Correct:
			b = append(b, '1')
		default:
			b = append(b, '0')
		}
		b = append(b, ',')
		for _, v := range []float64{r.Confidence, r.Radius, r.Lower, r.Upper} {
			b = strconv.AppendFloat(b, v, 'g', -1, 64)
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(examples), 10)
		b = append(b, '\n')
	}
	return b
}

// boundsSize is the length of the rows up to those of the last of the examples
// done in a run folder's own bounds.csv, 0 if there is none. All rows of these
// examples must be there: one a radius at which the class is certified.
func boundsSize(path string, done []certify.Certificate, radii []float64) (int64, error) {
	want := 0
	for _, c := range done {
		for _, r := range radii {
			if c.Prediction != certify.Abstained && r <= c.Radius {
				want++
			}
		}
	}
	size, rows, err := wholeRows(path, done[len(done)-1].Index)
	if err == nil && rows != want {
		err = fmt.Errorf("%s: has %d rows for the examples done, want %d: it has been changed", path, rows, want)
	}
	return size, err
}

// wholeRows returns the length and the number of the rows up to those of
// example last.
func wholeRows(path string, last int) (size int64, rows int, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for line := 1; ; line++ {
		text, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return size, rows, nil // what has no newline is torn
		}
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w", path, err)
		}
		if line == 1 {
			if text != boundsHeader {
				return 0, 0, fmt.Errorf("%s:1: columns are %q, want %q", path, strings.TrimSpace(text), strings.TrimSpace(boundsHeader))
			}
		} else {
			field, _, _ := strings.Cut(text, ",")
			index, err := strconv.Atoi(field)
			if err != nil {
				return 0, 0, fmt.Errorf("%s:%d: index %q is not a number", path, line, field)
			}
			if index > last {
				return size, rows, nil
			}
			rows++
		}
		size += int64(len(text))
	}
}
