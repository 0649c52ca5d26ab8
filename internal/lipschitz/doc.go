// Package lipschitz bounds the Lipschitz constant of an ONNX model from its weights, from L2 to L2. The bounds are
// about the function that the model computes in real numbers. They are rounded up, so that rounding errors of this
// package do not make them false.
//
// Of bounds a model. SpectralNorm bounds the norm of a matrix, and Convolution.Norm that of a convolution.
package lipschitz
