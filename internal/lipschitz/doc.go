// Package lipschitz computes a bound on the Lipschitz constant of an ONNX model from the model's weights. Distances
// between inputs and between outputs are in the L2 norm. The bounds hold for the model's function in exact real
// arithmetic. They are rounded up, so that rounding errors of this package do not make them false.
//
// The function lipschitz.Of bounds the Lipschitz constant of a model. SpectralNorm bounds the norm of a matrix, and
// Convolution.Norm bounds the norm of a convolution.
package lipschitz
