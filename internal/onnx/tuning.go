package onnx

import (
	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
)

// Tuning says how CUDA chooses its kernels. Different kernels use different orders of summation, so the last bits of
// the scores depend on Tuning.
type Tuning struct {
	PreferNHWC bool // prefer convolutions that have the channels last
	ConvSearch ConvSearch
}

// ConvSearch says how cuDNN chooses an algorithm for a convolution.
type ConvSearch uint8

// These are the ways to choose the algorithm of a convolution. The texts of ConvSearches explain them.
const (
	HeuristicSearch ConvSearch = iota
	ExhaustiveSearch
	DefaultSearch
)

// ConvSearches lists all values of ConvSearch.
var ConvSearches = choice.Of("search", HeuristicSearch, ExhaustiveSearch, DefaultSearch).Describe(func(s ConvSearch) string {
	return [...]string{
		HeuristicSearch:  "by cuDNN's rules; the choice is the same in every run",
		ExhaustiveSearch: "by timing all algorithms; the choice may change from run to run",
		DefaultSearch:    "without a search; the algorithm is always the same (ONNX Runtime's setting DEFAULT)",
	}[s]
})

func (s ConvSearch) String() string { return [...]string{"heuristic", "exhaustive", "default"}[s] }

// MarshalText returns the text of String.
func (s ConvSearch) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the output of MarshalText.
func (s *ConvSearch) UnmarshalText(text []byte) error { return ConvSearches.Unmarshal(text, s) }

// checkTuning refuses settings that the provider does not have.
func (p *provider) checkTuning(t Tuning) error {
	if t == (Tuning{}) || p.tunable {
		return nil
	}
	setting := param.PreferNHWC
	if !t.PreferNHWC {
		setting = param.ConvSearch
	}
	return hint.Add(param.Errorf("device %s has no %s", p.device, setting), "only NVIDIA's GPUs have it: use %s cuda, or omit it", param.Device)
}

// Check refuses a precision or settings that the device does not support. If the device is not chosen yet, Check
// refuses nothing.
func (d Device) Check(precision Precision, t Tuning) error {
	if d.provider == nil {
		return nil
	}
	if err := d.provider.checkPrecision(precision); err != nil {
		return err
	}
	return d.provider.checkTuning(t)
}
