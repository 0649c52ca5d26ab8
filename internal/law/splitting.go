package law

import (
	"fmt"
	"math"
	"math/big"
)

// Splitting is the noise of Levine and Feizi 2021, which certifies in the L1 norm without randomness. Let W = 2λ/g,
// where g is the lattice's step. Uniform noise on [−λ, λ] has W values on the lattice. For each example, the model is
// evaluated at W inputs. Over these W inputs, the noise of each coordinate takes each of the W values exactly once. The
// coordinates are not independent, because fixed offsets determine the order of the values. If a coordinate of the
// example moves by s steps, min(s, W) of the W inputs change. So a perturbation of s steps in the L1 norm changes at
// most s of the W evaluations.
var Splitting Law = splitting{}

type splitting struct{}

func (splitting) Name() string { return "splitting" }

func (splitting) Words() Words {
	return Words{Name: "splitting noise", Noise: "splitting noise on [−λ, λ]; this noise is not random, so its certificates need no alpha", Symbol: "λ", Scale: "half width"}
}

func (splitting) Norm() Norm { return L1 }

func (splitting) Ratios() Ratios { return Uniform.Ratios() }

// Width returns W = 2λ/step. The law Splitting needs W evaluations of the model for each example. If W is not whole,
// the error names two values of λ for which W is whole: the nearest below and the nearest above.
func Width(scale float64, step *big.Rat) (int, error) {
	words := Splitting.Words()
	if !(scale > 0) || math.IsInf(scale, 1) || step.Sign() <= 0 {
		return 0, fmt.Errorf("%s = %v on a lattice of step %s: want numbers above 0", words.Symbol, scale, step.RatString())
	}
	room := Splitting.Ratios()
	ratio := new(big.Rat).SetFloat64(scale)
	ratio = room.Round(ratio.Quo(ratio, step))
	width := new(big.Rat).Add(ratio, ratio)
	w, _ := width.Float64()
	if !room.Allow(ratio) {
		return 0, fmt.Errorf("the number of evaluations W = 2%s/step is %.9g for the step %s: want %d to %d", words.Symbol, w, step.RatString(), 2*room.Least, 2*room.Greatest+1)
	}
	if width.IsInt() {
		return int(width.Num().Int64()), nil
	}
	above := ceil(width)
	return 0, fmt.Errorf("the number of evaluations W = 2%s/step is %.9g for the step %s, not a whole number: the nearest are %s = %v (W = %d) and %v (W = %d)",
		words.Symbol, w, step.RatString(), words.Symbol, halfWidth(above-1, step), above-1, halfWidth(above, step), above)
}

// halfWidth returns the float64 nearest to W·step/2.
func halfWidth(w int64, step *big.Rat) float64 {
	half := new(big.Rat).Mul(step, big.NewRat(w, 2))
	f, _ := half.Float64()
	return f
}
