package onnx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/param"
)

// Device says where a model runs: on which provider, and on which devices of that provider. The zero value lets rscert
// choose. rscert then chooses CUDA if a GPU and the library for CUDA are present, and the CPU otherwise.
type Device struct {
	provider *provider
	// for a provider that numbers its devices: one index, several indices with commas, or "" for all. For another
	// provider: one of provider.units, or "" if provider.units is empty.
	unit string
}

// CPU runs models on the processor with ONNX Runtime's own kernels.
var CPU = Device{provider: &cpuProvider}

// ParseDevice parses "auto" or a provider's device: cpu, cuda (all working GPUs), cuda:1, cuda:0,2, openvino (the same
// as openvino:CPU) or openvino:GPU.
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
		case p.names != nil:
			if unit, ok := parseIndices(unit); ok {
				return Device{p, unit}, nil
			}
		case slices.Contains(p.units, unit):
			return Device{p, unit}, nil
		}
	}
	return Device{}, fmt.Errorf("unknown device %q: want %s", s, Devices())
}

// parseIndices parses distinct numbers separated by commas.
func parseIndices(list string) (string, bool) {
	var indices []string
	for text := range strings.SplitSeq(list, ",") {
		i, err := strconv.ParseUint(text, 10, 16)
		index := strconv.FormatUint(i, 10)
		if err != nil || slices.Contains(indices, index) {
			return "", false
		}
		indices = append(indices, index)
	}
	return strings.Join(indices, ","), true
}

// singles returns one Device for each single device that d covers. If the result 'named' is true, all of these devices
// must work. The result 'named' is false only if d stands for all devices of a provider that numbers its devices. Then
// the devices that do not work may be left out.
func (d Device) singles() (all []Device, named bool) {
	p := d.provider
	if p.names == nil {
		return []Device{d}, true
	}
	if d.unit != "" {
		for index := range strings.SplitSeq(d.unit, ",") {
			all = append(all, Device{p, index})
		}
		return all, true
	}
	for i := range max(1, len(p.names())) { // if no device is found, rscert tries device 0, whose error gives the reason
		all = append(all, Device{p, strconv.Itoa(i)})
	}
	return all, false
}

// checkIndices refuses indices of devices that do not exist, if the provider can list its devices.
func (d Device) checkIndices() error {
	if d.provider.names == nil || d.unit == "" {
		return nil
	}
	names := d.provider.names()
	all, _ := d.singles()
	for _, one := range all {
		if i, err := strconv.Atoi(one.unit); err == nil && i >= len(names) && len(names) > 0 {
			return hint.Add(fmt.Errorf("there is no device %s: %d are here, from %s:0 (%s) on", one, len(names), d.provider.device, names[0]),
				"use %s %s for all of them; $CUDA_VISIBLE_DEVICES may hide some", param.Device, d.provider.device)
		}
	}
	return nil
}

// hardware returns the name of a single device if the provider knows it.
func (d Device) hardware() string {
	if d.provider.names == nil {
		return ""
	}
	names := d.provider.names()
	if i, err := strconv.Atoi(d.unit); err == nil && i < len(names) {
		return names[i]
	}
	return ""
}

// DeviceOf returns one Device that names the devices of all the models. The models must all run on one provider.
func DeviceOf(models ...*Model) Device {
	d := models[0].device
	for _, m := range models[1:] {
		d.unit += "," + m.device.unit
	}
	return d
}

func (d Device) String() string {
	switch {
	case d.provider == nil:
		return "auto"
	case d.unit == "":
		return d.provider.device
	}
	return d.provider.device + ":" + d.unit
}

// MarshalText returns the text that ParseDevice parses.
func (d Device) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses text as ParseDevice does.
func (d *Device) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDevice(string(text))
	return err
}

// HasPrecisions reports whether the device may compute in other precisions than float32.
func (d Device) HasPrecisions() bool { return len(d.provider.precisions) > 1 }

// Build returns the build of ONNX Runtime that can run models on the device. It returns the zero Build if no device is
// chosen yet.
func (d Device) Build() ortlib.Build {
	if d.provider == nil {
		return ortlib.Build{}
	}
	return d.provider.library
}
