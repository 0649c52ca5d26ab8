package picture

import "testing"

func TestFormatOf(t *testing.T) {
	if f, err := FormatOf("a/B.PNG"); f != PNG || err != nil {
		t.Error(f, err)
	}
	if _, err := FormatOf("a.gif"); err == nil || err.Error() != `a.gif: pictures are .svg, .png or .pdf, not ".gif"` {
		t.Error(err)
	}
}

func TestSize(t *testing.T) {
	var s Size
	if err := s.UnmarshalText([]byte("8.5x20")); err != nil || s != (Size{8.5, 20}) || s.String() != "8.5x20" {
		t.Error(s, err)
	}
	for _, text := range []string{"", "8", "8x", "5x20", "20x101", "NaNx8", "8x8x8"} {
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestShorten(t *testing.T) {
	for _, test := range []struct {
		width int
		want  string
	}{{12, "abcdefghij"}, {10, "abcdefghij"}, {9, "abc...hij"}, {5, "a...j"}, {2, ""}, {0, ""}} {
		fits := func(s string) bool { return len([]rune(s)) <= test.width }
		if got := Shorten("abcdefghij", fits); got != test.want {
			t.Errorf("width %d: %q, want %q", test.width, got, test.want)
		}
	}
}
