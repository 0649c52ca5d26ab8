package onnx

import (
	"fmt"
	"slices"
	"strings"
)

// Device is where a model runs: a provider, and which of its devices. The zero
// value chooses: CUDA where library and GPU are there, the CPU otherwise.
type Device struct {
	provider *provider
	unit     string
}

// CPU is the processor, by ONNX Runtime's own code.
var CPU = Device{provider: &cpuProvider}

// ParseDevice reads "auto" or a provider's device, as cpu, cuda (the same as
// cuda:0), cuda:1, openvino (the same as openvino:CPU) or openvino:GPU.
func ParseDevice(s string) (Device, error) {
	if s == "auto" {
		return Device{}, nil
	}
	name, unit, given := strings.Cut(s, ":")
	for _, p := range providers() {
		if name != p.device {
			continue
		}
		switch {
		case !given && len(p.units) > 0:
			return Device{p, p.units[0]}, nil
		case !given:
			return Device{provider: p}, nil
		case p.parseUnit != nil:
			if unit, err := p.parseUnit(unit); err == nil {
				return Device{p, unit}, nil
			}
		case slices.Contains(p.units, unit):
			return Device{p, unit}, nil
		}
	}
	return Device{}, fmt.Errorf("unknown device %q: want %s", s, Devices())
}

func (d Device) String() string {
	switch {
	case d.provider == nil:
		return "auto"
	case len(d.provider.units) == 0:
		return d.provider.device
	}
	return d.provider.device + ":" + d.unit
}

// MarshalText writes what ParseDevice reads.
func (d Device) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is ParseDevice.
func (d *Device) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDevice(string(text))
	return err
}
