package onnx

import (
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/quote"
)

// shortageText matches messages of ONNX Runtime and NVIDIA's libraries about too little memory on a device.
var shortageText = regexp.MustCompile(`(?i)out of memory|failed to allocate memory|ALLOC_FAILED|OUT_OF_MEMORY|smaller than requested bytes`)

// isShortage reports whether the error means that a device ran out of memory.
func isShortage(err error) bool { return err != nil && shortageText.MatchString(err.Error()) }

// deviceText matches messages about faults of the device. Such faults say nothing about the model.
var deviceText = regexp.MustCompile(`CUDA (?:failure|error)|CUBLAS failure|CUDNN failure|cudaError|no CUDA-capable device|invalid device ordinal`)

// isDeviceTrouble reports whether the error is due to the device. If so, another device of the same kind may work.
func isDeviceTrouble(err error) bool {
	return isShortage(err) || err != nil && deviceText.MatchString(err.Error())
}

// explainRun adds advice to the error of a call if a device ran out of memory.
func (m *Model) explainRun(err error) error {
	if !isShortage(err) {
		return err
	}
	if m.batch == 0 { // the model is still loading
		return hint.Add(fmt.Errorf("%s has too little memory for the model: %w", describeDevice(m.device), err), "end other programs that use the device, or use another one")
	}
	advice := param.Textf("give a smaller %s, now %d, or end other programs that use the device", param.Batch, m.batch)
	if m.noisy != nil { // with noise in the graph, the device holds the weights twice
		advice = param.Textf("%s; %s host takes less memory, too", advice, param.NoiseOn)
	}
	return hint.Add(fmt.Errorf("%s has too little memory for %d samples a call: %w", describeDevice(m.device), m.tile, err), "%s", advice)
}

// The constant 'printed' limits how many bytes of an ONNX Runtime error are printed. The limit is necessary because the
// error may contain long names from the model.
const printed = 400

// printableText puts an error of ONNX Runtime on one line.
func printableText(text string) string {
	if len(text) <= printed {
		return quote.Line(text)
	}
	n := printed
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return quote.Line(text[:n]) + "…"
}
