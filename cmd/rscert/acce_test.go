package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/acce/acceplot"
	"github.com/rscert/rscert/internal/calib"
)

// TestACCEInterrupted interrupts a search. The search must print its best result, say that it was interrupted, write no
// file, and return context.Canceled. The function 'main' turns this error into exit code 130.
func TestACCEInterrupted(t *testing.T) {
	dir := t.TempDir()
	bounds, out := filepath.Join(dir, "bounds.csv"), filepath.Join(dir, "attack.csv")
	if err := os.WriteFile(bounds, []byte("lower,upper,correct,radius\n0.1,0.6,1,0\n0.5,0.9,0,0\n0,1,1,1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, asJSON := range []bool{false, true} {
		var stdout, stderr bytes.Buffer
		ctx := &cancelledAfterReading{Context: t.Context()}
		err := runACCE(ctx, streams{in: strings.NewReader(""), out: &stdout, err: &stderr}, []string{bounds},
			acceOptions{bins: 3, edge: calib.LowerClosed, curve: acceplot.UnderAttack, statement: statementOptions{delta: 0.05}, solvers: acce.Solvers[:2], out: out, json: asJSON})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want context.Canceled", err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Error("an interrupted run wrote its file")
		}
		if !asJSON {
			if !strings.Contains(stdout.String(), "Interrupted: 1 of 2 radii") {
				t.Errorf("output does not say that it was interrupted:\n%s", &stdout)
			}
			continue
		}
		var got struct {
			Radii []struct {
				CCE         float64 `json:"cce"`
				Interrupted bool    `json:"interrupted"`
				ACCE        struct {
					ADMM float64 `json:"admm"`
				} `json:"acce"`
			} `json:"radii"`
		}
		if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Radii) != 1 || !got.Radii[0].Interrupted || got.Radii[0].CCE < 0.9 || got.Radii[0].ACCE.ADMM > got.Radii[0].CCE {
			t.Errorf("got %+v", got)
		}
	}
}

// cancelledAfterReading is a context that is cancelled once the file has been read, before the first search.
type cancelledAfterReading struct {
	context.Context
	asked atomic.Int64
}

func (c *cancelledAfterReading) Err() error {
	if c.asked.Add(1) > 3 {
		return context.Canceled
	}
	return nil
}
