package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/run"
)

// logDecides lists flags that the user must not give with --replay, because the log determines their values.
var logDecides = []string{"rule", "alpha", "budget", "n", "certify", "certify-radius", "off-lattice", "seed", "out"}

// settleReplay checks the flags of 'rscert predict --replay'.
func (o *predictOptions) settleReplay(f *pflag.FlagSet) error {
	if o.plan.Run == "" {
		return badInputf("--replay needs --run, the run of the server")
	}
	if o.plan.Spec.Data == "" {
		return badInputf("--replay needs --data, which holds the inputs: the log has only hashes of them")
	}
	for _, flag := range append(logDecides, runDecides...) {
		if f.Changed(flag) {
			return badInputf("--%s does not work with --replay, because the log and the run determine it", flag)
		}
	}
	return nil
}

// runReplay repeats the answers of an audit log.
func runReplay(ctx context.Context, s streams, o predictOptions) error {
	r, err := run.Replay(ctx, o.plan, o.replay, s.console(o.quiet))
	if err != nil {
		return err
	}
	if o.json {
		err = report.WriteJSON(s.out, "replay", r)
	} else {
		_, err = fmt.Fprintf(s.out, "%d answers in %s: %d repeated bit by bit, %d different, %d with inputs that are not in the data\n",
			r.Logged, r.Log, r.Repeated, len(r.Different), r.Absent)
	}
	if err == nil && len(r.Different) > 0 {
		err = replayError{r.Log, r.Different[0].Line}
	}
	return err
}

// replayError means that a repeated answer differs from the logged answer. Its exit code is 3.
type replayError struct {
	log  string
	line int64
}

func (e replayError) Error() string {
	return fmt.Sprintf("%s: line %d: the answer came out differently", e.log, e.line)
}
