package predict

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/conformalfile"
)

// Answer is the answer to one input.
type Answer struct {
	Index int  `json:"index"`
	Label *int `json:"label,omitempty"` // absent for data without labels
	// Class is the answer, or Abstained.
	Class   int     `json:"class"`
	Samples int64   `json:"samples"` // number of votes used
	Votes   []int64 `json:"votes"`   // for each class
	None    int64   `json:"none,omitempty"`
	// Moved is the distance, rounded up, between the input and the lattice point that replaced the input.
	Moved       float64              `json:"moved,omitempty"`
	Certificate *certify.Certificate `json:"certificate,omitempty"`
	Set         *conformalfile.Set   `json:"set,omitempty"` // the prediction set
}

// WriteLines writes answers as JSON lines.
func WriteLines(w io.Writer, answers []Answer) error {
	e := json.NewEncoder(w)
	for _, a := range answers {
		if err := e.Encode(a); err != nil {
			return err
		}
	}
	return nil
}

// row is an answer in a table.
type row struct {
	Index   int64    `parquet:"index"`
	Label   *int64   `parquet:"label,optional"`
	Class   int64    `parquet:"class"`
	Samples int64    `parquet:"samples"`
	Votes   int64    `parquet:"votes"` // votes for the answer; without an answer, the largest number of votes for a class
	None    int64    `parquet:"none"`
	Moved   float64  `parquet:"moved"`
	Radius  *float64 `parquet:"radius,optional"`
	// These columns hold the certificate's class, the norm of the radius, and the claim, for example "answer" or "right
	// or silent". These columns are nil without a certificate.
	CertifiedClass *int64  `parquet:"certified_class,optional"`
	Norm           *string `parquet:"norm,optional"`
	Claim          *string `parquet:"claim,optional"`
	Set            *string `parquet:"set,optional"` // classes of the prediction set, with spaces between them
}

func (a Answer) row() row {
	r := row{Index: int64(a.Index), Class: int64(a.Class), Samples: a.Samples, None: a.None, Moved: a.Moved}
	for _, v := range a.Votes {
		r.Votes = max(r.Votes, v)
	}
	if a.Class >= 0 {
		r.Votes = a.Votes[a.Class]
	}
	if a.Label != nil {
		label := int64(*a.Label)
		r.Label = &label
	}
	if c := a.Certificate; c != nil && c.Prediction != certify.Abstained {
		class, norm, claim := int64(c.Prediction), c.Norm.String(), c.Claim.Short()
		if c.Scaled {
			norm = "scaled-" + norm
		}
		r.Radius, r.CertifiedClass, r.Norm, r.Claim = &c.Radius, &class, &norm, &claim
	}
	if a.Set != nil {
		classes := a.Set.Classes()
		r.Set = &classes
	}
	return r
}

// WriteCSV writes answers as CSV with a header. Missing labels and the columns of missing certificates are empty. The
// table has a column for prediction sets only if the answers have sets.
func WriteCSV(w io.Writer, answers []Answer) error {
	c := csv.NewWriter(w)
	lines := [][]string{{"index", "label", "class", "samples", "votes", "none", "moved", "radius", "certified_class", "norm", "claim"}}
	sets := len(answers) > 0 && answers[0].Set != nil
	if sets {
		lines[0] = append(lines[0], "set")
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, a := range answers {
		r := a.row()
		label, certificate := "", make([]string, 4)
		if r.Label != nil {
			label = strconv.FormatInt(*r.Label, 10)
		}
		if r.Radius != nil {
			certificate = []string{number(*r.Radius), strconv.FormatInt(*r.CertifiedClass, 10), *r.Norm, *r.Claim}
		}
		line := []string{label}
		for _, v := range []int64{r.Class, r.Samples, r.Votes, r.None} {
			line = append(line, strconv.FormatInt(v, 10))
		}
		line = append(append([]string{strconv.FormatInt(r.Index, 10)}, line...), append([]string{number(r.Moved)}, certificate...)...)
		if sets {
			line = append(line, *r.Set)
		}
		lines = append(lines, line)
	}
	return c.WriteAll(lines)
}

// WriteParquet writes answers as a Parquet file. The file has the columns of WriteCSV, and always has the column for
// prediction sets.
func WriteParquet(w io.Writer, answers []Answer) error {
	p := parquet.NewGenericWriter[row](w)
	rows := make([]row, len(answers))
	for i, a := range answers {
		rows[i] = a.row()
	}
	if _, err := p.Write(rows); err != nil {
		return err
	}
	return p.Close()
}
