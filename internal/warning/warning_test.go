package warning

import (
	"regexp"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/param"
)

// Every code has a unique name in kebab case, a title and an explanation of several sentences.
func TestTable(t *testing.T) {
	kebab := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	named := map[string]bool{}
	for _, c := range Codes.Values() {
		if !kebab.MatchString(c.String()) || named[c.String()] {
			t.Errorf("code %d: name %q", int(c), c)
		}
		named[c.String()] = true
		if c.Title() == "" || strings.HasSuffix(c.Title(), ".") || len(c.Title()) > 80 {
			t.Errorf("%s: title %q", c, c.Title())
		}
		text := c.Explanation().Spell(param.Plain)
		if strings.Count(text, ". ") < 1 || !strings.HasSuffix(text, ".") || strings.Contains(text, "%!") {
			t.Errorf("%s: explanation %q", c, text)
		}
		for _, r := range text {
			if r > '~' {
				t.Errorf("%s: %q is not ASCII", c, r)
			}
		}
	}
	if len(named) != int(QueueSilent) { // the last code
		t.Errorf("%d codes, want %d", len(named), QueueSilent)
	}
}

func TestWarning(t *testing.T) {
	w := New(ShardSeed, "give %s", param.Seed)
	if got := w.Spell(param.Plain); got != "give seed [shard-seed]" {
		t.Error(got)
	}
	if text, err := w.Code.MarshalText(); string(text) != "shard-seed" || err != nil {
		t.Errorf("%s, %v", text, err)
	}
	if !w.Equal(New(ShardSeed, "give seed")) || w.Equal(New(ShardSeed, "give n")) || w.Equal(New(ModelBatch, "give seed")) {
		t.Error("warnings are equal if their codes and texts are")
	}
}
