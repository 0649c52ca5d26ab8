package runfolder

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/tabular"
)

// boundsHeader names the columns of bounds.csv. examples is the number of
// examples that were sampled, those included that have no row because their class
// is not certified: whoever counts failures among the rows has to know it. check is
// the row's checksum.
const boundsHeader = "index,label,prediction,correct,confidence,radius,lower,upper,examples,check"

// WriteBounds writes bounds.csv: bounds on the confidence under attack, a row
// an example and radius, from so many examples.
func WriteBounds(w io.Writer, rows []certify.ConfidenceBound, examples int) error {
	_, err := w.Write(appendBounds([]byte(boundsHeader+"\n"), rows, examples))
	return err
}

func appendBounds(b []byte, rows []certify.ConfidenceBound, examples int) []byte {
	for _, r := range rows {
		b = append(append(b, checksum.AppendCSV([]byte(boundsHeader), boundsRow(r, examples))...), '\n')
	}
	return b
}

// boundsRow is a row but for its checksum.
func boundsRow(r certify.ConfidenceBound, examples int) []byte {
	var b bytes.Buffer
	w := tabular.NewWriter(&b)
	w.Int(r.Index)
	w.Int(r.Label)
	w.Int(r.Prediction)
	if r.Label == certify.UnknownLabel { // neither right nor wrong
		w.Empty()
	} else {
		w.Bool(r.Correct)
	}
	for _, x := range []float64{r.Confidence, r.Radius, r.Lower, r.Upper} {
		w.Float(x)
	}
	w.Int(examples)
	w.EndRow()
	_ = w.Flush() // a Buffer takes everything
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// boundRow is what tells where a row of bounds.csv belongs.
type boundRow struct {
	index  int
	radius float64
}

// readBounds reads a run folder's own bounds.csv.
func readBounds(path string) (content[boundRow], error) {
	f, err := openFile(path)
	if err != nil {
		return content[boundRow]{}, err
	}
	defer f.Close()
	c, err := collect(f, func(l line) (row boundRow, held int, err error) {
		if l.number == 1 {
			held = noValue
		}
		row, err = decodeBound(l)
		return row, held, err
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return c, err
}

func decodeBound(l line) (row boundRow, err error) {
	if l.torn {
		return row, tornLine(l.text, sealedCSV)
	}
	if l.number == 1 {
		if string(l.text) != boundsHeader {
			return row, fmt.Errorf("columns are not %q", boundsHeader)
		}
		return row, nil
	}
	text, state := checksum.VerifyCSV([]byte(boundsHeader), l.text)
	switch state {
	case checksum.Bad:
		return row, errChanged
	case checksum.Absent:
		if strings.Count(string(text), ",")+1 == strings.Count(boundsHeader, ",") { // all but the checksum
			return row, errUnsealed
		}
		return row, errChanged
	}
	fields := strings.Split(string(text), ",")
	if len(fields) < 6 {
		return row, errChanged
	}
	if row.index, err = strconv.Atoi(fields[0]); err == nil {
		row.radius, err = strconv.ParseFloat(fields[5], 64)
	}
	return row, err
}

// boundRadii are the radii at which a certified class has bounds on its confidence.
func (p Parameters) boundRadii(c certify.Certificate) []float64 {
	var radii []float64
	for _, r := range p.ConfidenceRadii {
		if c.Prediction != certify.Abstained && r <= c.Radius {
			radii = append(radii, r)
		}
	}
	return radii
}

// boundsOf returns how many of the certificates have all their rows, one after the
// other from the first row on, and the offset behind the last of these rows.
func (p Parameters) boundsOf(certs []certify.Certificate, rows content[boundRow]) (examples int, end int64) {
	at := 0
	for n, c := range certs {
		radii := p.boundRadii(c)
		if at+len(radii) > len(rows.values) {
			return n, end
		}
		for i, r := range radii {
			if rows.values[at+i] != (boundRow{c.Index, r}) {
				return n, end
			}
		}
		if at += len(radii); at > 0 {
			end = rows.ends[at-1]
		}
	}
	return len(certs), end
}
