package main

import (
	"maps"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/choice"
)

// preset is a name for the settings of a paper. A preset never changes: other settings of the same paper get another
// name.
type preset string

const (
	noPreset   preset = ""
	cohen2019  preset = "cohen2019"
	emde2025   preset = "emde2025"
	presetFlag        = "preset"
)

var presets = choice.Of(presetFlag, cohen2019, emde2025).Optional().Describe(func(p preset) string {
	switch p {
	case cohen2019:
		return "the parameters of the algorithm CERTIFY of Cohen et al. 2019: Clopper–Pearson, n0 = 100, n = 100,000, α = 0.001"
	case emde2025:
		return "the parameters of Emde et al. 2025: those of 'cohen2019', and also bounds on the confidence ('standard', Hoeffding) at the paper's radii for CIFAR-10"
	}
	return ""
})

func (p preset) String() string { return string(p) }

// values returns the flags that a preset sets.
func (p preset) values() map[string][]string {
	flags := map[string][]string{
		"method": {"clopper-pearson"}, "class": {"predicted"}, "n0": {"100"}, "n": {"100000"}, "alpha": {"0.001"},
	}
	if p == emde2025 { // section 5.1, and equation (12) in the appendix
		maps.Copy(flags, map[string][]string{
			"confidence-radii": {"0,0.05,0.1,0.15,0.2,0.25,0.5,0.75,1,1.5,2,2.5"}, "confidence": {"standard"}, "confidence-bound": {"hoeffding"},
		})
	}
	return flags
}

// presetValue is the value of --preset.
type presetValue struct{ choiceValue[preset] }

func (presetValue) took([]string) {}

func (v presetValue) settings(*cobra.Command) (settings, error) {
	return settings{"the preset " + v.String(), v.value.values()}, nil
}
