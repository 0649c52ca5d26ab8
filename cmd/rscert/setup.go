package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/setup"
)

type setupOptions struct {
	setup.Options
	device      onnx.Device
	json, quiet bool
}

func newSetup(s streams) *cobra.Command {
	var o setupOptions
	o.URL = os.Getenv("RSCERT_ONNXRUNTIME_URL")
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Fetch ONNX Runtime into the cache",
		Long: `Fetch the ONNX Runtime library that runs models on a device into the user's cache,
where rscert finds it, and print its path. Its SHA-256 must be one of those in rscert
itself. Nothing is fetched if it is there already.

The sources are tried in turn: pip, the release on GitHub (or the registry of npm or
pip that is configured here), npm. --url or $RSCERT_ONNXRUNTIME_URL names a
copy instead: a wheel, an npm package, a release archive or the library itself.

CUDA 13 and cuDNN 9, which --device cuda needs besides, are NVIDIA's: see docs/gpu.md.`,
		Example: `  rscert setup
  rscert setup --device openvino
  rscert setup --url ./onnxruntime-linux-x64-1.29.0.tgz`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if name := os.Getenv("RSCERT_ONNXRUNTIME_FROM"); name != "" && !cmd.Flags().Changed("from") {
				if err := o.From.UnmarshalText([]byte(name)); err != nil {
					return badInputf("$RSCERT_ONNXRUNTIME_FROM: %w", err)
				}
			}
			return runSetup(cmd.Context(), s, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.TextVar(&o.device, "device", onnx.Device{}, "`device` to run models on: "+onnx.Devices())
	choices(f, "device", onnx.DeviceNames()...)
	f.TextVar(&o.From, "from", o.From, "`source`: pip, download or npm (default: $RSCERT_ONNXRUNTIME_FROM, or all in turn)")
	f.StringVar(&o.URL, "url", o.URL, "`address` or path of a copy to fetch instead")
	f.BoolVar(&o.json, "json", false, "print one JSON document")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	return cmd
}

// setupReport is what setup --json prints.
type setupReport struct {
	Device  string `json:"device"`
	Version string `json:"version"`
	Library string `json:"library"`
	Fetched bool   `json:"fetched"` // false: it was there
}

func runSetup(ctx context.Context, s streams, o setupOptions) error {
	build, err := onnx.PublishedFor(o.device)
	if err != nil {
		return err
	}
	console := setup.Console{Note: func(string) {}, Progress: s.progress(o.quiet)}
	if !o.quiet {
		console.Note = func(line string) { fmt.Fprintf(s.err, "setup: %s\n", quote.Line(line)) }
	}
	fetched, err := setup.Fetch(ctx, build, o.Options, console)
	if err != nil {
		return err
	}
	if o.json {
		return report.WriteJSON(s.out, "setup", setupReport{build.Device, build.Version, build.Library, fetched})
	}
	_, err = fmt.Fprintln(s.out, build.Library)
	return err
}
