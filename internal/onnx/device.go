package onnx

import (
	"fmt"
	"strconv"
	"strings"
)

type deviceKind int

const (
	deviceAuto deviceKind = iota // CUDA where it works, the CPU otherwise
	deviceCPU
	deviceCUDA
)

// Device is where a model runs. The zero value chooses: CUDA where library and
// GPU are there, the CPU otherwise.
type Device struct {
	kind  deviceKind
	index int // of the CUDA device
}

// CPU is the processor.
var CPU = Device{kind: deviceCPU}

// CUDA is the NVIDIA GPU with the given index.
func CUDA(index int) Device { return Device{kind: deviceCUDA, index: index} }

// ParseDevice reads "auto", "cpu", "cuda" (the same as cuda:0) or "cuda:I".
func ParseDevice(s string) (Device, error) {
	switch name, index, indexed := strings.Cut(s, ":"); {
	case s == "auto":
		return Device{}, nil
	case s == "cpu":
		return CPU, nil
	case s == "cuda":
		return CUDA(0), nil
	case name == "cuda" && indexed:
		if i, err := strconv.ParseUint(index, 10, 16); err == nil {
			return CUDA(int(i)), nil
		}
	}
	return Device{}, fmt.Errorf("unknown device %q: want auto, cpu, cuda or cuda:INDEX", s)
}

func (d Device) String() string {
	switch d.kind {
	case deviceCPU:
		return "cpu"
	case deviceCUDA:
		return fmt.Sprintf("cuda:%d", d.index)
	}
	return "auto"
}
