package predictions_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/table"
)

func readClusters(t *testing.T, text string, nonFinite bool) (*table.Table, error) {
	t.Helper()
	return table.Read(context.Background(), table.Stdin, table.Options{Required: []string{"score", "patient"}, Optional: []string{"fitted"},
		Texts: []string{"patient"}, AllowNonFinite: nonFinite, Input: strings.NewReader(text)})
}

func TestClusterRows(t *testing.T) {
	for _, test := range []struct {
		name, text string
		nonFinite  bool
		names      []string
		rows       [][]int
		err        string
	}{
		{"text", "score,patient\n.1,b\n.2,a\n.3,b\n", false, []string{"a", "b"}, [][]int{{1}, {0, 2}}, ""},
		{"numbers", "score,patient\n.1,7\n.2,-3\n.3,007\n", false, []string{"-3", "7"}, [][]int{{1}, {0, 2}}, ""},
		{"both", "score,patient\n.1,7\n.2,x\n.3,7\n", false, []string{"7", "x"}, [][]int{{0, 2}, {1}}, ""},
		{"empty", "score,patient\n.1,a\n.2,\n", false, nil, nil, "stdin:3: patient: empty value"},
		{"space", "score,patient\n.1,a\n.2,\" \"\n", false, nil, nil, "stdin:3: patient: empty value"},
		{"JSON space", "{\"score\":0.1,\"patient\":\"a\"}\n{\"score\":0.1,\"patient\":\" \"}\n", false, nil, nil, "stdin:2: column patient: no cluster"},
		{"JSON null", "{\"score\":0.1,\"patient\":\"a\"}\n{\"score\":0.1,\"patient\":null}\n", false, nil, nil, "stdin:2: column patient: no cluster"},
		{"NaN as text", "score,patient\n.1,NaN\n.2,a\n", false, nil, nil, "stdin:2: column patient: no cluster"},
		{"NaN as text among numbers", "score,patient\n.1,1\n.2,nan\n", false, nil, nil, "stdin:3: column patient: no cluster"},
		{"NaN as a number", "score,patient\n.1,1\n.2,nan\n", true, nil, nil, "stdin:3: column patient: no cluster"},
		{"NaN as a number among texts", "score,patient\n.1,a\n.2,nan\n", true, nil, nil, "stdin:3: column patient: no cluster"},
		{"spellings", "score,patient\n.1,P1\n.2,\"P1 \"\n.3,P1\u200b\n.4,P1\u00a0\n.5,p1\n", false, []string{"P1", "p1"}, [][]int{{0, 1, 2, 3}, {4}}, ""},
		{"JSON texts of numbers", "{\"score\":0.1,\"patient\":\"007\"}\n{\"score\":0.1,\"patient\":7}\n{\"score\":0.1,\"patient\":\"x\"}\n",
			false, []string{"007", "x"}, [][]int{{0, 1}, {2}}, ""},
		{"NA of R", "score,patient\n.1,a\n.2,NA\n", false, nil, nil, "stdin:3: column patient: no cluster"},
		{"None of Python", "score,patient\n.1,a\n.2,None\n", false, nil, nil, "stdin:3: column patient: no cluster"},
		{"large", "score,patient\n.1,1\n.2,9007199254740993\n", false, nil, nil, "stdin:3: column patient: the number 9.007199254740992e+15 is too large"},
		{"infinite", "score,patient\n.1,1\n.2,-inf\n", true, nil, nil, "stdin:3: column patient: the number -Inf is too large"},
	} {
		t.Run(test.name, func(t *testing.T) {
			read, err := readClusters(t, test.text, test.nonFinite)
			var found []table.Group
			if err == nil {
				found, err = predictions.ClusterRows(read, "patient")
			}
			if test.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), test.err) {
					t.Errorf("error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for k, g := range found {
				names = append(names, g.Name())
				if k < len(test.rows) && !slices.Equal(g.Rows, test.rows[k]) {
					t.Errorf("cluster %s has the rows %v, want %v", g.Name(), g.Rows, test.rows[k])
				}
			}
			if !slices.Equal(names, test.names) {
				t.Errorf("clusters %v, want %v", names, test.names)
			}
		})
	}
}

// TestCheckClustersUnfitted checks that a cluster is refused if a map was fitted on some of its rows, but not on all.
func TestCheckClustersUnfitted(t *testing.T) {
	for text, want := range map[string]string{
		"score,patient\n.1,a\n.2,a\n":                      "",
		"score,patient,fitted\n.1,a,1\n.2,b,0\n.3,a,1\n":   "",
		"score,patient,fitted\n.1,a,1\n.2,b,0\n.3,a,0\n":   "stdin:4: a calibration map was fitted on another row of the cluster a",
		"score,patient,fitted\n.1,12,0\n.2,5,0\n.3,12,1\n": "stdin:2: a calibration map was fitted on another row of the cluster 12",
	} {
		read, err := readClusters(t, text, false)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := predictions.CheckClustersUnfitted(read, "patient"); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: error %q, want %q", text, got, want)
		}
	}
}
