package onnx

// MarshalText writes the layout's name.
func (l Layout) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads "chw" or "hwc".
func (l *Layout) UnmarshalText(text []byte) (err error) {
	*l, err = ParseLayout(string(text))
	return err
}

// MarshalText writes the kind's name.
func (k OutputKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads "auto", "logits" or "probabilities".
func (k *OutputKind) UnmarshalText(text []byte) (err error) {
	*k, err = ParseOutputKind(string(text))
	return err
}
