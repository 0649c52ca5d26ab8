package main

import (
	"context"
	"fmt"

	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/run"
)

// verifyAttack checks the finished attack in the folder of --verify.
func verifyAttack(ctx context.Context, s streams, o attackOptions) error {
	found, err := run.VerifyAttack(ctx, o.verify, o.plan.Spec, s.console(o.quiet))
	if err != nil {
		return err
	}
	if o.json {
		if err := report.WriteJSON(s.out, "attack-verify", found); err != nil {
			return err
		}
	} else {
		writeVerifiedAttack(s, found)
	}
	if found.Problems > 0 {
		return invalidError{o.verify}
	}
	return nil
}

func writeVerifiedAttack(s streams, v *run.VerifiedAttack) {
	if v.Classes {
		fmt.Fprintf(s.out, "%d inputs of %d examples were replayed: norm, box and class of each input, class of each example\n",
			v.Inputs, v.Examples)
	} else {
		fmt.Fprintf(s.out, "%d inputs of %d examples were checked: norm and box of each input; the classes depend on noise\n",
			v.Inputs, v.Examples)
	}
	for _, p := range v.Wrong {
		where := "the folder"
		if p.Index >= 0 {
			where = fmt.Sprintf("example %d", p.Index)
		}
		if p.Name != "" {
			where += ", input " + p.Name
		}
		fmt.Fprintf(s.out, "wrong: %s: %s\n", where, p.What)
	}
	if v.Problems == 0 {
		fmt.Fprintln(s.out, "every result is confirmed")
	}
}
