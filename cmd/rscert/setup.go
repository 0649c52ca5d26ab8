package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/setup"
)

// setupOptions are the flags of the command 'setup'.
type setupOptions struct {
	setup.Options
	device      onnx.Device
	withCUDA    bool
	json, quiet bool
}

func newSetup(s streams) *cobra.Command {
	var o setupOptions
	o.URL = os.Getenv("RSCERT_ONNXRUNTIME_URL")
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Fetch ONNX Runtime into the cache",
		Long: `This command fetches the ONNX Runtime library for a device into the user's cache. rscert
finds the library there. The command also prints the library's path. The SHA-256 of the
library must equal a value that is built into rscert. The command fetches nothing if the
library is already there.

The command tries three sources in turn: pip, a direct download and npm. --from or
$RSCERT_ONNXRUNTIME_FROM restricts it to one source. The direct download needs neither
pip nor npm. It first tries the release on GitHub, and then the package in the npm or
pip registry that this machine is configured to use. To use a copy of the library
instead, give the address or path of the copy in --url or $RSCERT_ONNXRUNTIME_URL. The
copy can be a wheel, an npm package, a release archive or the library itself.

'--device cuda' also needs NVIDIA's CUDA 13 and cuDNN 9. --with-cuda fetches the
necessary libraries from NVIDIA's packages on PyPI (Linux x86-64; 1.1 GB to download,
1.8 GB on disk). It does not fetch the driver. Omit --with-cuda if CUDA 13 and cuDNN 9
are installed (docs/gpu.md).`,
		Example: `  rscert setup
  rscert setup --device openvino
  rscert setup --device cuda --with-cuda
  rscert setup --url ./onnxruntime-linux-x64-1.29.0.tgz`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if name := os.Getenv("RSCERT_ONNXRUNTIME_FROM"); name != "" && !cmd.Flags().Changed("from") {
				var err error
				if o.From, err = setup.Sources.Parse(name); err != nil {
					return badInputf("$RSCERT_ONNXRUNTIME_FROM: %w", err)
				}
			}
			return runSetup(cmd.Context(), s, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.TextVar(&o.device, "device", onnx.Device{}, "`device` that will run the models: "+onnx.Devices())
	choices(f, "device", onnx.DeviceNames()...)
	f.BoolVar(&o.withCUDA, "with-cuda", false, "also fetch the NVIDIA libraries that --device cuda needs (1.1 GB)")
	choiceVar(f, &o.From, "from", o.From, setup.Sources, "the only `source` to try: "+setup.Sources.String()+"; default: all sources in turn")
	f.StringVar(&o.URL, "url", o.URL, "`address` or path of a copy of the library; rscert then uses this copy and tries none of the sources of --from")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON document")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	return cmd
}

// setupReport is what 'rscert setup --json' prints.
type setupReport struct {
	Device  string `json:"device"`
	Version string `json:"version"`
	Library string `json:"library"`
	CUDA    string `json:"cuda,omitempty"` // the folder of NVIDIA's libraries
	Fetched bool   `json:"fetched"`        // false: the libraries were already there
}

func runSetup(ctx context.Context, s streams, o setupOptions) error {
	build, err := ortlib.PublishedFor(o.device.Build())
	if err != nil {
		return err
	}
	var libraries []ortlib.Published
	if o.withCUDA {
		if build.Device != "cuda" {
			return badInputf("--with-cuda is for --device cuda, not %s", o.device)
		}
		if libraries, err = ortlib.CUDALibraries(); err != nil {
			return err
		}
	}
	console := setup.Console{Note: func(string) {}, Progress: s.progress(o.quiet)}
	if !o.quiet {
		console.Note = func(line string) { fmt.Fprintf(s.err, "setup: %s\n", quote.Line(line)) }
	}
	fetched, err := setup.Fetch(ctx, build, o.Options, console)
	if err != nil {
		return err
	}
	for _, l := range libraries {
		more, err := setup.Fetch(ctx, l, setup.Options{From: o.From}, console)
		if err != nil {
			return err
		}
		fetched = fetched || more
	}
	if o.json {
		r := setupReport{Device: build.Device, Version: build.Version, Library: build.Library, Fetched: fetched}
		if len(libraries) > 0 {
			r.CUDA = libraries[0].Folder
		}
		return report.WriteJSON(s.out, "setup", r)
	}
	_, err = fmt.Fprintln(s.out, build.Library)
	return err
}
