package certify

import "github.com/rscert/rscert/internal/law"

// The oracles of the tests use the functions below for the scale and the distribution of Gaussian noise.

func scaleOf(m MarginKind) scale { return Target{Margin: m}.scale() }

func normalCDF(z float64) (p, relErr float64) { return law.Gaussian.CDF(z) }

func quantileNear(p float64) float64 { return law.Gaussian.Quantile(p) }

func quantileHigh(p float64) float64 { return law.High(law.Gaussian, p) }
