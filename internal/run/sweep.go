package run

import (
	"context"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/rscert/rscert/internal/builtin"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/sweep"
)

// SweepPoint holds a point of a sweep and the plan of the point's run. Plan.Out is the run folder of the point.
type SweepPoint struct {
	sweep.Point
	Plan Plan
}

// SweptOutcome is the outcome of a point's run.
type SweptOutcome struct {
	sweep.Point
	Outcome
}

// CertifySweep carries out the plans of a sweep, one after the other. The caller must have checked the plans with
// ValidateSweep.
func CertifySweep(ctx context.Context, points []SweepPoint, console experiment.Console) ([]SweptOutcome, error) {
	var outcomes []SweptOutcome
	err := eachPoint(points, console, func(p SweepPoint) error {
		outcome, err := Certify(ctx, p.Plan, console)
		outcomes = append(outcomes, SweptOutcome{p.Point, outcome})
		return err
	})
	return outcomes, err
}

// ValidateSweep checks the plans of all points, as far as this is possible without opening models and data. It also
// checks that all models exist. So a wrong value of the last point is found before the first point is sampled.
func ValidateSweep(points []SweepPoint) error {
	for _, p := range points {
		plan := p.Plan
		plan.Settle()
		err := plan.validate()
		for _, model := range plan.Models() {
			if _, own := builtin.Name(model); err == nil && !own {
				_, err = os.Stat(model)
				err = spec.BadInput(err)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

// eachPoint calls the function 'do' for each point, and puts the name of the point into an error.
func eachPoint(points []SweepPoint, console experiment.Console, do func(SweepPoint) error) error {
	for k, p := range points {
		console.Notef("point %d of %d: %s", k+1, len(points), p.Name)
		if err := do(p); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

// SweepForecast is the result of certify --plan for a sweep.
type SweepForecast struct {
	Points []PointForecast `json:"points"`
	// These are the sums over all points. The points run one after the other in one process.
	Samples   int64   `json:"samples"`
	Seconds   float64 `json:"seconds"`
	Hours     float64 `json:"hours"`
	CoreHours float64 `json:"core_hours"`
	// These fields are set if there is a deadline. Shards is the number of shards of each point. It is the smallest
	// number that meets the deadline if all shards of all points run at the same time. Tasks is the total number of
	// shards, and TaskSeconds is the time of the longest shard.
	Deadline    float64 `json:"deadline_seconds,omitempty"`
	Shards      int     `json:"shards,omitempty"`
	Tasks       int     `json:"tasks,omitempty"`
	TaskSeconds float64 `json:"task_seconds,omitempty"`
}

// PointForecast is the forecast of a point's run.
type PointForecast struct {
	sweep.Point
	Forecast
}

// PlanSweep forecasts the time of each point's run, as PlanRun does, and the time of the whole sweep.
func PlanSweep(ctx context.Context, points []SweepPoint, deadline time.Duration, console experiment.Console) (f SweepForecast, err error) {
	for k := range points {
		points[k].Plan.Out = "-" // a placeholder: PlanRun uses a folder of its own instead
	}
	if err := ValidateSweep(points); err != nil {
		return f, err
	}
	err = eachPoint(points, console, func(p SweepPoint) error {
		of, err := PlanRun(ctx, p.Plan, deadline, console)
		f.Points = append(f.Points, PointForecast{p.Point, of})
		return err
	})
	if err != nil {
		return f, err
	}
	f.add(deadline.Seconds())
	return f, nil
}

// add computes the sums over all points. With a deadline, every point gets the number of shards that the slowest point
// needs.
func (f *SweepForecast) add(deadline float64) {
	for _, p := range f.Points {
		f.Samples, f.Seconds, f.Hours, f.CoreHours = f.Samples+p.Samples, f.Seconds+p.Seconds, f.Hours+p.Hours, f.CoreHours+p.CoreHours
		f.Shards = max(f.Shards, p.Shards)
	}
	if deadline <= 0 {
		return
	}
	f.Deadline, f.Tasks = deadline, f.Shards*len(f.Points)
	for _, p := range f.Points {
		perExample := float64(p.Samples) / float64(p.Examples) / p.SamplesPerSecond
		f.TaskSeconds = max(f.TaskSeconds, p.StartSeconds+math.Ceil(float64(p.Examples)/float64(f.Shards))*perExample)
	}
}

// PointCheck is the check of a point's set-up.
type PointCheck struct {
	sweep.Point
	Check
}

// CheckSweep briefly tests the experiment of each point, as CheckRun does.
func CheckSweep(ctx context.Context, points []SweepPoint, spell param.Spelling, console experiment.Console) ([]PointCheck, error) {
	for k := range points {
		points[k].Plan.Out = "-" // a check writes no folder
	}
	if err := ValidateSweep(points); err != nil {
		return nil, err
	}
	var checks []PointCheck
	err := eachPoint(points, console, func(p SweepPoint) error {
		c, err := CheckRun(ctx, p.Plan, "", spell, console)
		checks = append(checks, PointCheck{p.Point, c})
		return err
	})
	return checks, err
}
