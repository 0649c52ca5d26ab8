package onnx

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/warning"
)

// LoadEach loads the model onto every device that opt.Device names. If opt.Device names GPUs by index, all these GPUs
// must work. If opt.Device names CUDA without indices, or if rscert itself chooses CUDA, LoadEach uses the GPUs that
// work. For a provider other than CUDA, LoadEach returns one model. The warnings about all devices are added to the
// first model.
//
// LoadEach checks each model in the same way as LoadFile. All models must have the same input size, the same number of
// classes and the same kind of outputs. LoadEach also compares their scores bit by bit and warns if they differ. Two
// GPUs of the same type usually give equal scores.
func (r *Runtime) LoadEach(ctx context.Context, file *graph.File, opt LoadOptions) ([]*Model, error) {
	first, err := r.LoadFile(ctx, file, opt)
	if err != nil {
		return nil, err
	}
	models := []*Model{first}
	others, named := r.others(first.device, opt.Device)
	loaded, errs := make([]*Model, len(others)), make([]error, len(others))
	var loading sync.WaitGroup
	for i, d := range others {
		loading.Go(func() { loaded[i], errs[i] = r.loadOther(ctx, file, opt, d, first) })
	}
	loading.Wait()
	for i, m := range loaded {
		switch {
		case m != nil:
			models = append(models, m)
			first.adopt(m)
		case named:
			err = cmp.Or(err, errs[i])
		default:
			first.warn(warning.ModelDevice, "%s is left out: %v", describeDevice(others[i]), errs[i])
		}
	}
	if err == nil {
		err = checkAgreement(ctx, models)
	}
	if err != nil {
		for _, m := range models {
			_ = m.Close()
		}
		return nil, err
	}
	return models, nil
}

// The method 'adopt' copies warnings from the model on another device to this model, except warnings that this model
// already has. For example, it copies a warning that the other device needs smaller calls.
func (m *Model) adopt(other *Model) {
	for _, w := range other.warnings {
		if !slices.ContainsFunc(m.warnings, w.Equal) {
			m.warn(w.Code, "%s: %s", describeDevice(other.device), w.Text)
		}
	}
}

// The method 'others' returns the devices to use in addition to the first model's device. It also reports whether all
// of these devices must work (see the result 'named' of the method 'singles').
func (r *Runtime) others(first, asked Device) ([]Device, bool) {
	if asked.provider == nil {
		asked = Device{provider: first.provider}
	}
	all, named := asked.singles()
	i := slices.Index(all, first) // the devices that precede the first model's device in 'all' have failed
	return all[i+1:], named
}

// loadOther loads the model on another device and compares its sizes with the first model's sizes.
func (r *Runtime) loadOther(ctx context.Context, file *graph.File, opt LoadOptions, d Device, first *Model) (*Model, error) {
	opt.Device = d
	m, err := r.LoadFile(ctx, file, opt)
	if err != nil {
		return nil, err
	}
	if m.sampleLen != first.sampleLen || m.classes != first.classes || m.outputs != first.outputs {
		_ = m.Close()
		return nil, fmt.Errorf("device %s: the model has other sizes or another kind of outputs there than on the first device", d)
	}
	return m, nil
}

// checkAgreement compares the models' scores on random samples. It adds a warning to the first model if the scores of
// other models differ.
func checkAgreement(ctx context.Context, models []*Model) error {
	if len(models) == 1 {
		return nil
	}
	first := models[0]
	want, err := first.poolScores(ctx)
	if err != nil {
		return err
	}
	var differ []string
	for _, m := range models[1:] {
		got, err := m.poolScores(ctx)
		if err != nil {
			return fmt.Errorf("device %s: %w", m.device, err)
		}
		if !sameBits(got, want) {
			differ = append(differ, describeDevice(m.device))
		}
	}
	if len(differ) > 0 {
		first.warn(warning.OtherConditions, "the last bits of the scores on %s are not those on %s: votes near ties may differ with the device that an example is run on",
			strings.Join(differ, ", "), describeDevice(first.device))
	}
	return nil
}

// describeDevice returns the device together with its hardware's name, if the name is known.
func describeDevice(d Device) string {
	if name := d.hardware(); name != "" {
		return fmt.Sprintf("%s (%s)", d, name)
	}
	return d.String()
}

// poolScores returns the scores of the random samples, row by row. It calls Run once or several times.
func (m *Model) poolScores(ctx context.Context) ([]float32, error) {
	pool := m.randomSamples()
	var all []float32
	for next := 0; next < len(pool); {
		in, out := make([]float32, 0, m.batch*m.sampleLen), make([]float32, m.batch*m.classes)
		count := min(m.batch, len(pool)-next)
		for i := range m.batch {
			in = append(in, pool[next+i%count]...)
		}
		if err := m.Run(ctx, in, out); err != nil {
			return nil, err
		}
		all = append(all, out[:count*m.classes]...)
		next += count
	}
	return all, nil
}

// Place returns the device on which the model runs, together with the hardware's name.
func (m *Model) Place() string { return describeDevice(m.device) }

// Hardware returns the name of the NVIDIA GPU that runs the model, or "" if the model runs on another device.
func (m *Model) Hardware() string { return m.device.hardware() }
