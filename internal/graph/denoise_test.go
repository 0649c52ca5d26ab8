package graph

import (
	"fmt"
	"testing"
)

func TestDenoiserKind(t *testing.T) {
	for _, want := range []DenoiserKind{DenoisedImage, PredictedNoise, PredictedImage} {
		var got DenoiserKind
		if err := got.UnmarshalText([]byte(want)); err != nil || got != want {
			t.Error(got, err)
		}
		if got.Diffusion() != (want != DenoisedImage) {
			t.Error(fmt.Sprint(got), "is a diffusion model?")
		}
	}
	var k DenoiserKind
	if err := k.UnmarshalText(nil); err == nil {
		t.Error("none is a kind")
	}
}
