package choice

import (
	"reflect"
	"strings"
	"testing"
)

type fruit int

func (f fruit) String() string { return [...]string{"none", "apple", "pear", "quince"}[f] }

var fruits = Of("fruit", fruit(1), fruit(2), fruit(3))

func TestParse(t *testing.T) {
	for _, want := range fruits.Values() {
		got, err := fruits.Parse(want.String())
		if err != nil || got != want {
			t.Errorf("%s is read as %s (%v)", want, got, err)
		}
		var file fruit
		if err := fruits.Unmarshal([]byte(want.String()), &file); err != nil || file != want {
			t.Errorf("%s is read from a file as %s (%v)", want, file, err)
		}
	}
	for name, want := range map[string]string{
		"":                      `"": want apple, pear or quince`,
		"none":                  `"none": want apple, pear or quince`,
		"Apple":                 `"Apple": want apple, pear or quince`,
		strings.Repeat("x", 50): `"` + strings.Repeat("x", 40) + `": want apple, pear or quince`,
	} {
		if _, err := fruits.Parse(name); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
		kept := fruit(2)
		if err := fruits.Unmarshal([]byte(name), &kept); err == nil || err.Error() != "fruit "+want || kept != 2 {
			t.Errorf("error %v with %s, want fruit %s and pear", err, kept, want)
		}
	}
}

func TestOptional(t *testing.T) {
	read := fruit(2)
	if err := fruits.Optional().Unmarshal(nil, &read); err != nil || read != 0 {
		t.Errorf("no name is read as %s (%v), want the zero value", read, err)
	}
	if _, err := fruits.Optional().Parse("none"); err == nil {
		t.Error("the zero value's own name is not in the list, and was taken")
	}
}

func TestHelp(t *testing.T) {
	described := fruits.Describe(func(f fruit) string {
		if f == 2 {
			return "soft"
		}
		return ""
	})
	if got := described.Described(); got != "apple, pear (soft) or quince" {
		t.Errorf("described as %s", got)
	}
	if got := fruits.Described(); got != fruits.String() || got != "apple, pear or quince" {
		t.Errorf("%s and %s, want the names", got, fruits)
	}
	if described.What(2) != "soft" || described.What(1) != "" || fruits.What(2) != "" {
		t.Error("a value has the help of another")
	}
	if got := fruits.Names(); !reflect.DeepEqual(got, []string{"apple", "pear", "quince"}) {
		t.Errorf("names %v", got)
	}
	for want, names := range map[string][]string{"": nil, "a": {"a"}, "a or b": {"a", "b"}} {
		if got := Or(names); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
