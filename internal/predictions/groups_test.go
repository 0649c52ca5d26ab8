package predictions

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/table"
)

// describeGroups lists the groups with their rows.
func describeGroups(groups []RowGroup) string {
	var all []string
	for _, g := range groups {
		all = append(all, fmt.Sprint(g.Name(), g.Value.Rows))
	}
	return strings.Join(all, "; ")
}

func TestGroupRows(t *testing.T) {
	of := readText(t, "index,sex,site\n5,f,2\n3,m,1\n9,f,1\n", table.Options{Required: []string{"index", "sex", "site"}, Texts: []string{"sex"}})
	groups, err := GroupRows(of, []string{"site", "sex"})
	if got, want := describeGroups(groups), "site = 1[1 2]; site = 2[0]; sex = f[0 2]; sex = m[1]"; err != nil || got != want {
		t.Errorf("%s (%v), want %s", got, err, want)
	}
	if _, err := GroupRows(of, []string{"age"}); err == nil || !strings.HasSuffix(err.Error(), "no column age that makes groups") {
		t.Errorf("an unknown column: %v", err)
	}
	// Rows 0 and 2 are about example 9, and row 1 is about example 3. No row is about example 5.
	groups, err = GroupByIndex([]float64{9, 3, 9}, of, []string{"sex", "site"})
	if got, want := describeGroups(groups), "sex = f[0 2]; sex = m[1]; site = 1[0 1 2]"; err != nil || got != want {
		t.Errorf("by index: %s (%v), want %s", got, err, want)
	}
	var row *calib.RowError
	if _, err = GroupByIndex([]float64{9, 4}, of, []string{"sex"}); !errors.As(err, &row) || row.Row != 1 {
		t.Errorf("an example without a group: %v", err)
	}
	if got, want := describeGroups(GroupLabels([]int{3, 0, 3})), "label = 0[1]; label = 3[0 2]"; got != want {
		t.Errorf("labels: %s, want %s", got, want)
	}
	text := "index,g\n"
	for i := range MaxGroups + 1 {
		text += fmt.Sprintf("%d,%d\n", i, i)
	}
	many := readText(t, text, table.Options{Required: []string{"index", "g"}})
	if _, err := GroupRows(many, []string{"g"}); err == nil || !strings.Contains(err.Error(), "makes 1001 groups: want at most 1000") {
		t.Errorf("too many groups: %v", err)
	}
}

func TestClassScores(t *testing.T) {
	columns := BinaryColumns()
	p, classes, label, err := ClassScores(readText(t, "p0,p1,p2,label\n0.5,0.25,0.25,2\n0,1,0,1\n", columns))
	if err != nil || classes != 3 || fmt.Sprint(p) != "[0.5 0.25 0.25 0 1 0]" || fmt.Sprint(label) != "[2 1]" {
		t.Errorf("%v %d %v (%v)", p, classes, label, err)
	}
	for text, want := range map[string]string{
		"score,label\n0.5,1\n":        "want the probabilities of all classes",
		"confidence,correct\n0.5,1\n": "want the probabilities of all classes",
		"p0,p1,label\n0.5,0.4,1\n":    "probabilities sum to 0.9, not 1",
		"p0,p1,label\n0.5,0.5,2\n":    "label 2 is outside 0 to 1",
		"p0,p2,label\n0.5,0.5,0\n":    "none for class 1",
	} {
		if _, _, _, err := ClassScores(readText(t, text, columns)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
