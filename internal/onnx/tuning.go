package onnx

import (
	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
)

// Tuning is how a provider chooses its kernels, of CUDA. Other kernels sum in another order, so the last bits of the
// scores depend on it.
type Tuning struct {
	PreferNHWC bool // convolutions with the channels last
	ConvSearch ConvSearch
}

// ConvSearch is how cuDNN's algorithm for a convolution is chosen.
type ConvSearch uint8

const (
	HeuristicSearch  ConvSearch = iota // by cuDNN's rules: the same on every run
	ExhaustiveSearch                   // by timing all of them: may change from run to run
	DefaultSearch                      // ONNX Runtime's default, without a search
)

// ConvSearches are all there are.
var ConvSearches = choice.Of("search", HeuristicSearch, ExhaustiveSearch, DefaultSearch)

func (s ConvSearch) String() string { return [...]string{"heuristic", "exhaustive", "default"}[s] }

// MarshalText is String.
func (s ConvSearch) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes.
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
	return hint.Add(param.Errorf("device %s has no %s", p.device, setting), "only NVIDIA's GPUs have it: use %s cuda, or leave it away", param.Device)
}

// Check refuses a precision, or settings, that the device does not have. One that is still to be chosen has all.
func (d Device) Check(precision Precision, t Tuning) error {
	if d.provider == nil {
		return nil
	}
	if err := d.provider.checkPrecision(precision); err != nil {
		return err
	}
	return d.provider.checkTuning(t)
}
