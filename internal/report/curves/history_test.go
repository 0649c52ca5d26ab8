package curves

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/report/history"
)

// If a quantity has a value, the description must name the quantity exactly once. It must name no other quantity. The
// axis must name at most ten commits.
func TestDrawHistory(t *testing.T) {
	var entries []history.Entry
	for k := range 25 {
		value := float64(k) / 25
		e := history.Entry{Commit: fmt.Sprintf("c%02d-long-name", k), Requirements: []history.Requirement{
			{Requirement: "acr>=0.5", Run: "run", Value: &value}, {Requirement: "certified:acr>=0.5", Run: "run"}}}
		entries = append(entries, e)
	}
	ticks := commitTicks(entries)
	if len(ticks) != 9 || ticks[0].Label != "c00-lon" || ticks[1].Value != 3 || ticks[1].Label != "c03-lon" {
		t.Errorf("%+v", ticks)
	}
	svg, err := History.Draw(picture.SVG, nil, Options{Size: picture.Size{Width: 15, Height: 10}, History: entries})
	if err != nil || !strings.Contains(string(svg), "Values of requirements by commit: acr.") {
		t.Errorf("%v", err)
	}
	if _, err := History.Draw(picture.SVG, nil, Options{Size: picture.Size{Width: 15, Height: 10}}); !errors.Is(err, errNoHistory) {
		t.Errorf("no history: %v", err)
	}
	for k := range entries {
		entries[k].Requirements = entries[k].Requirements[1:]
	}
	if _, err := History.Draw(picture.SVG, nil, Options{Size: picture.Size{Width: 15, Height: 10}, History: entries}); !errors.Is(err, errNoHistory) {
		t.Errorf("no values: %v", err)
	}
}
