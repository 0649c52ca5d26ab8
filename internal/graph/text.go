package graph

// MarshalText writes the layout's name.
func (l Layout) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText parses the output of MarshalText.
func (l *Layout) UnmarshalText(text []byte) error { return Layouts.Unmarshal(text, l) }

// MarshalText writes the kind's name.
func (k OutputKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText parses the output of MarshalText.
func (k *OutputKind) UnmarshalText(text []byte) error { return OutputKinds.Unmarshal(text, k) }
