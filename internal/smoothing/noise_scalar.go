//go:build !(goexperiment.simd && amd64 && go1.26 && !go1.27)

package smoothing

// lanes is empty: no vector instructions.
type lanes struct{}

func (s Stream) gaussians(b *buffer, counter uint64, n int) {
	s.scalarGaussians(b, counter, n)
}

func perturb(dst, base, scale, noise []float32) {
	scalarPerturb(dst, base, scale, noise)
}
