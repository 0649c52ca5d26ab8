package runfolder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/table"
)

// boundsHeader names the columns of bounds.csv. The column 'examples' holds the number of sampled examples, and the
// column 'alpha' holds the failure probability of a row. A reader of the file needs these two numbers to bound the
// number of wrong rows. The column 'certified' is 0 in a row whose class is not certified within the radius. In such a
// row, the columns 'lower' and 'upper' hold bounds on the label's score. An example without a label therefore has no
// such row. The column 'check' holds the row's checksum.
const boundsHeader = "index,label,prediction,correct,confidence,radius,lower,upper,examples,certified,alpha,check"

// normedHeader is used outside run folders: it is the header of a bounds.csv whose radii are in a norm other than L2.
// The column 'norm' names the norm. Files in run folders do not need this column, because run.json determines the norm.
const normedHeader = "index,label,prediction,correct,confidence,radius,lower,upper,examples,certified,alpha,norm,check"

// headerOf returns the header of a bounds.csv whose radii are in the norm n.
func headerOf(n law.Norm) string {
	if n == law.L2 {
		return boundsHeader
	}
	return normedHeader
}

// These are the indices of some columns of bounds.csv. Files from earlier versions (certifiedHeader) lack the columns
// 'certified' and 'alpha'.
const (
	labelField      = 1
	predictionField = 2
	correctField    = 3
	radiusField     = 5
	lowerField      = 6
	upperField      = 7
	examplesField   = 8
	certifiedField  = 9
	alphaField      = 10
)

// certifiedHeader is the header of files from earlier versions. In every row of such a file, the class is certified
// within the radius.
const certifiedHeader = "index,label,prediction,correct,confidence,radius,lower,upper,examples,check"

// WriteBounds writes bounds.csv, the bounds on the confidence under attack, with one row per example and radius. The
// argument 'examples' is the number of sampled examples, and n is the norm of the radii. The checksums of the rows
// start from the zero seed, so they do not identify a run.
func WriteBounds(w io.Writer, rows []certify.ConfidenceBound, examples int, n law.Norm) error {
	_, err := w.Write(appendBounds([]byte(headerOf(n)+"\n"), 0, rows, examples, n))
	return err
}

// WriteBounds writes the bounds.csv of the run.
func (r Run) WriteBounds(w io.Writer, rows []certify.ConfidenceBound) error {
	_, err := w.Write(appendBounds([]byte(boundsHeader+"\n"), r.Seed(), rows, r.Data.Selected, law.L2))
	return err
}

func appendBounds(b []byte, seed checksum.Seed, rows []certify.ConfidenceBound, examples int, n law.Norm) []byte {
	for _, r := range rows {
		b = append(append(b, seed.AppendCSV([]byte(headerOf(n)), boundsRow(r, examples, n))...), '\n')
	}
	return b
}

// boundsRow returns a row without its checksum.
func boundsRow(r certify.ConfidenceBound, examples int, n law.Norm) []byte {
	var b bytes.Buffer
	w := table.NewWriter(&b)
	w.Int(r.Index)
	w.Int(r.Label)
	w.Int(r.Prediction)
	if r.Label == certify.UnknownLabel { // without a label, the prediction is neither right nor wrong
		w.Empty()
	} else {
		w.Bool(r.Correct)
	}
	for _, x := range []float64{r.Confidence, r.Radius, r.Lower, r.Upper} {
		w.Float(x)
	}
	w.Int(examples)
	w.Bool(r.Certified)
	w.Float(r.Alpha)
	if n != law.L2 {
		w.Text(n.String())
	}
	w.EndRow()
	_ = w.Flush() // writing to a Buffer cannot fail
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// boundRow identifies a row of bounds.csv.
type boundRow struct {
	index     int
	radius    float64
	certified bool
}

// ownRow holds the contents of a row of bounds.csv.
type ownRow struct {
	boundRow
	label, prediction int
	alpha             float64 // 0 in a file from an earlier version, which has the header certifiedHeader
	absurd            bool    // [lower, upper] is no interval in [0,1], or 'correct' contradicts 'prediction' and 'label'
}

// agrees reports whether the row agrees with the certificate and with the parameters.
func (r ownRow) agrees(c certify.Certificate, p Parameters) bool {
	return !r.absurd && r.label == c.Label && (c.Prediction == certify.Abstained || r.prediction == c.Prediction) &&
		(r.alpha == 0 || r.alpha == p.Alpha)
}

// ownBounds holds the rows of a bounds.csv.
type ownBounds struct {
	content[ownRow]
	header string
}

// readBounds reads all rows of the bounds.csv in a run folder.
func (r Run) readBounds(path string) (ownBounds, error) {
	rows, err := r.openBounds(path)
	if err != nil {
		return ownBounds{}, err
	}
	c, err := rows.collect()
	return ownBounds{c, rows.header}, err
}

// boundsReader reads the rows of a bounds.csv one at a time.
type boundsReader struct {
	*valueReader[ownRow]
	header string
	text   []byte // text of the row that was read last
}

// openBounds opens the bounds.csv in a run folder and reads the header.
func (r Run) openBounds(path string) (*boundsReader, error) {
	b, seed := &boundsReader{header: boundsHeader}, r.Seed()
	var err error
	b.valueReader, err = openValues(path, func(l line) (row ownRow, held int, err error) {
		row, err = decodeBound(l, b.header, seed)
		b.text = append(b.text[:0], l.text...)
		return row, 0, err
	})
	if err == nil {
		err = b.readHeader()
	}
	if err != nil {
		b.close()
	}
	return b, err
}

// readHeader reads the first line.
func (b *boundsReader) readHeader() error {
	l, err := b.lines.next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return b.named(err)
	}
	if string(l.text) == certifiedHeader {
		b.header = certifiedHeader
	}
	_, err = decodeBound(l, b.header, 0)
	b.measure(l, err == nil)
	if err != nil {
		return b.endDamaged(l, err)
	}
	return nil
}

func decodeBound(l line, header string, seed checksum.Seed) (row ownRow, err error) {
	if l.torn {
		return row, tornLine(l.text, sealedCSV)
	}
	if l.number == 1 {
		if string(l.text) != header {
			return row, fmt.Errorf("columns are not %q", header)
		}
		return row, nil
	}
	text, state := seed.VerifyCSV([]byte(header), l.text)
	fields := strings.Split(string(text), ",")
	switch whole := len(fields) == strings.Count(header, ","); { // 'whole': no field before the checksum is missing
	case state == checksum.Absent && whole:
		return row, errUnsealed
	case state == checksum.Foreign:
		return row, errForeign
	case state != checksum.Good || !whole:
		return row, errChanged
	}
	return parseRow(fields, header)
}

// parseRow converts the fields of a row of bounds.csv to an ownRow.
func parseRow(fields []string, header string) (row ownRow, err error) {
	row.certified = true
	var lower, upper float64
	numbers := map[int]*float64{radiusField: &row.radius, lowerField: &lower, upperField: &upper}
	if header != certifiedHeader {
		row.certified = fields[certifiedField] == "1"
		numbers[alphaField] = &row.alpha
	}
	for at, to := range map[int]*int{0: &row.index, labelField: &row.label, predictionField: &row.prediction} {
		if *to, err = strconv.Atoi(fields[at]); err != nil {
			return row, err
		}
	}
	for at, to := range numbers {
		if *to, err = strconv.ParseFloat(fields[at], 64); err != nil {
			return row, err
		}
	}
	correct := "0"
	switch row.label {
	case certify.UnknownLabel:
		correct = ""
	case row.prediction:
		correct = "1"
	}
	row.absurd = fields[correctField] != correct || !(0 <= lower && lower <= upper && upper <= 1)
	return row, nil
}

// boundRows lists the rows that bounds.csv must have for the example of a certificate. Usually there is one row per
// radius. In two cases, the file has no rows for the radii at which the class is not certified: the example has no
// label, or the file has the header certifiedHeader.
func (p Parameters) boundRows(c certify.Certificate, header string) []boundRow {
	others := header != certifiedHeader && c.Label != certify.UnknownLabel
	var rows []boundRow
	for _, r := range p.ConfidenceRadii {
		if certified := c.Prediction != certify.Abstained && r <= c.Radius; certified || others {
			rows = append(rows, boundRow{c.Index, r, certified})
		}
	}
	return rows
}

// boundsOf compares the rows with the certificates, in order. It counts the certificates that agree with their rows. It
// stops at the first certificate with missing rows or with rows that contradict the certificate. The result 'end' is
// the file offset at which the rows of these certificates end.
func (p Parameters) boundsOf(certs []certify.Certificate, rows ownBounds) (examples int, end int64) {
	at := 0
	for n, c := range certs {
		want := p.boundRows(c, rows.header)
		if at+len(want) > len(rows.values) {
			return n, end
		}
		if !slices.EqualFunc(rows.values[at:at+len(want)], want, func(r ownRow, w boundRow) bool { return r.boundRow == w && r.agrees(c, p) }) {
			return n, end
		}
		if at += len(want); at > 0 {
			end = rows.ends[at-1]
		}
	}
	return len(certs), end
}
