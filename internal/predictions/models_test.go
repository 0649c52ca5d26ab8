package predictions

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestReadModelFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "models.csv")
	read := func(text string) ([]ModelFiles, error) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadModelFiles(path)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	got, err := read("file,attack,model\na.csv,clean,AT\nsub/p1.csv,pgd,AT\nb.csv,clean,10\n/s.csv,square,10\np2.csv,pgd,AT\nh.csv,held-out,10\n")
	want := []ModelFiles{
		{Name: "AT", Clean: in("a.csv"), Attacks: []AttackFiles{{"pgd", []string{in("sub/p1.csv"), in("p2.csv")}}}},
		{Name: "10", Clean: in("b.csv"), HeldOut: in("h.csv"), Attacks: []AttackFiles{{"square", []string{"/s.csv"}}}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v, want %+v", got, err, want)
	}
	for text, want := range map[string]string{
		"":                                                "has no header",
		"model,file\nA,a.csv\n":                           "want the columns model, attack and file, found model, file",
		"model,attack,file\n":                             "has no rows",
		"model,attack,file\nA,pgd,a.csv\n":                "model \"A\" has no file with the attack clean",
		"model,attack,file\nA,clean,\n":                   "models.csv:2: a field is empty",
		"model,attack,file\nA,clean\n":                    "wrong number of fields",
		"model,attack,file\nA,clean,a\nA,clean,b\n":       "models.csv:3: model \"A\" has two files clean",
		"model,attack,file\nA,held-out,a\nA,held-out,b\n": "models.csv:3: model \"A\" has two files held-out",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}
