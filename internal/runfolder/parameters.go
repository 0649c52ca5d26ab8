package runfolder

import (
	"reflect"
	"strings"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
)

// Parameters are the named parameters that determine the results of a run of 'certify'. run.json lists them in this
// order.
type Parameters struct {
	spec.Smoothing
	Certification
	spec.Conditions
}

// Certification holds the parameters of 'certify' itself: how many samples it takes of each example, and what it
// certifies.
type Certification struct {
	N               int64                    `json:"n"`
	N0              int64                    `json:"n0"`
	Alpha           float64                  `json:"alpha"`
	Method          Method                   `json:"method"`
	Class           certify.Class            `json:"class"`
	Margin          certify.MarginKind       `json:"margin"`
	Lipschitz       float64                  `json:"lipschitz"` // 0 = unknown
	Stop            certify.StopRule         `json:"stop"`      // empty = all n samples
	Scores          bool                     `json:"scores"`
	SaveScores      bool                     `json:"save-scores"`
	Combine         certify.Combine          `json:"combine"` // how scores bound a margin
	ConfidenceRadii []float64                `json:"confidence-radii"`
	Confidence      certify.ConfidenceMethod `json:"confidence"`       // method of the bounds on confidence
	ConfidenceBound certify.MeanBound        `json:"confidence-bound"` // bound on the mean scores
	Band            certify.Band             `json:"band"`             // band for the distribution of scores
	Temperature     float64                  `json:"temperature"`
	// If TopK is not 0, certificates claim only that the class stays among the TopK most probable classes.
	TopK int              `json:"top-k,omitempty"`
	None certify.NoneMode `json:"none,omitempty"` // meaning of samples that vote for no class
	// A sample votes only if its confidence is at least RejectBelow. If RejectBelow is 0, no sample is rejected.
	RejectBelow float64 `json:"reject-below,omitempty"`
}

// Claim returns the claim of the run's certificates.
func (c Certification) Claim() certify.Claim {
	return certify.Claim{TopK: c.TopK, None: c.None, RejectBelow: c.RejectBelow}
}

// TangentSamples returns how many of an example's estimation samples the method 'tangent' uses to compute its function
// (certify.ConfidenceParams.TangentSamples).
func (c Certification) TangentSamples() int64 {
	return certify.ConfidenceParams{Radii: c.ConfidenceRadii, Method: c.Confidence}.TangentSamples(c.N0, c.N)
}

// ParameterDifference is a parameter in which two runs differ.
type ParameterDifference struct {
	Name          param.Name
	First, Second any
}

// Differences returns the differences between p and the argument 'other', in the order of run.json.
func (p Parameters) Differences(other Parameters) (diff []ParameterDifference) {
	first, second := reflect.ValueOf(p), reflect.ValueOf(other)
	for _, field := range reflect.VisibleFields(first.Type()) {
		if field.Anonymous {
			continue
		}
		a, b := first.FieldByIndex(field.Index), second.FieldByIndex(field.Index)
		if a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 || reflect.DeepEqual(a.Interface(), b.Interface()) {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		diff = append(diff, ParameterDifference{param.Name(name), a.Interface(), b.Interface()})
	}
	return diff
}
