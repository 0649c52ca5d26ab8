package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/builtin"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/predict"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/serve"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// serveOptions are the flags of the command 'serve'.
type serveOptions struct {
	plan              run.PredictPlan
	config            serve.Config
	offLattice        string
	tlsCert, tlsKey   string
	tokenFile         string
	quiet             bool
	n                 int64
	maxBody, maxQueue int64
}

func newServe(s streams) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve --run RUN",
		Short: "Serve the smoothed classifier of a run over HTTP and gRPC",
		Long: `This command starts a server that answers requests with the smoothed classifier G of a
run. G returns the class that the model answers most often under noise. For each input
the server draws votes, which are the model's answers to noisy copies of the input. The
server stops drawing votes for an input when the votes decide the answer, or after
--budget votes. With '--rule fixed', it always draws --n votes. The server answers a
class or abstains. 'rscert predict' answers the inputs of a dataset in the same way,
without a server.

The server speaks the Open Inference Protocol v2 of KServe and NVIDIA Triton over HTTP,
with JSON or binary tensors. With --grpc-listen it also speaks the protocol over gRPC.
NVIDIA's Python package tritonclient can send requests to this server over HTTP and over
gRPC. Over HTTP, the path /v2/models/NAME/image accepts a PNG, JPEG, BMP or WebP image.

  GET  /v2/health/live, /v2/health/ready    state of the server (also /livez and /readyz)
  GET  /v2/models/NAME                      metadata of the model, and the conditions under
                                            which the answers hold
  POST /v2/models/NAME/infer                answers to tensors
  POST /v2/models/NAME/image                the answer to an image
  GET  /metrics                             metrics of the server for Prometheus

In a request with tensors, the parameter {"certify": true} asks for a certificate of
each input. The parameter {"certify": 0.5} asks only whether the certified radius is at
least 0.5, which can take fewer samples. For an image, append ?certify=true or
?certify=0.5 to the path.

The gRPC calls are ServerLive, ServerReady, ModelReady, ServerMetadata, ModelMetadata
and ModelInfer of the service inference.GRPCInferenceService.

Each request gets fresh noise. The server computes this noise from a random key. The
operating system draws the key after the input has arrived. --log writes one line for
each answer, with the key, the answer and a hash of the input. 'rscert predict --replay'
computes the logged answers again from the inputs, and compares the new answers with the
log. At SIGTERM the server finishes the requests that are running (docs/serve.md).`,
		Example: `  rscert serve --run run
  curl --data-binary @digit.png 'http://127.0.0.1:8000/v2/models/mnist-cnn/image?certify=true'
  rscert serve --run run --listen 0.0.0.0:8443 --tls-cert tls.crt --tls-key tls.key --token-file token
  rscert serve --run run --grpc-listen 127.0.0.1:8001
  rscert serve --run run --alpha 1e-6 --log answers.jsonl
  rscert predict --run run --data mnist/ --replay answers.jsonl`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.settle(cmd.Flags()); err != nil {
				return err
			}
			return runServe(cmd.Context(), s, o)
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (o *serveOptions) addFlags(cmd *cobra.Command) {
	f, p, c := cmd.Flags(), &o.plan, &o.config
	f.SortFlags = false
	f.StringVar(&p.Run, "run", "", "`folder` of the run; the classifier of this run answers the requests")
	modelFlag(f, &p.Spec, "ONNX `file` of the classifier, if the file has moved since the run")
	f.StringVar(&p.Spec.Denoiser, "denoiser", "", "ONNX `file` of the denoiser, if the file has moved since the run")
	f.StringVar(&p.Spec.Data, "data", "", "`path` of a dataset that gives the shape and the range of the inputs, if the run does not record them")
	f.StringVar(&c.Name, "name", "", "name of the model in requests; default: the model's file name without its suffix")
	group(cmd, "Classifier")
	choiceVar(f, &p.Rule, "rule", predict.BySequence, predict.Rules, "rule that decides when to answer: "+predict.Rules.String())
	f.Float64Var(&p.Alpha, "alpha", 0.001, "for each input, largest probability that the server answers a class that differs from the smoothed classifier's class")
	integerVar(f, &p.Budget, "budget", 10000, "with --rule sequential, maximum number of votes per input; if these votes do not decide the answer, the server abstains")
	integerVar(f, &o.n, "n", 1000, "with --rule fixed, number of votes per input")
	f.StringVar(&p.Conformal, "conformal", "", "also answer with a prediction set for each input; the `file` is the conformal.json of 'rscert conformal fit'")
	f.StringVar(&o.offLattice, "off-lattice", "refuse", "what to do with inputs off the run's lattice (the grid of input values): 'refuse' them, or 'round' them to the nearest lattice point")
	choices(f, "off-lattice", "refuse", "round")
	group(cmd, "Answers")
	f.StringVar(&c.Listen, "listen", "127.0.0.1:8000", "`address` to listen on for HTTP; port 0 means any free port")
	f.StringVar(&c.GRPCListen, "grpc-listen", "", "`address` to listen on for gRPC, such as 127.0.0.1:8001; default: no gRPC")
	f.StringVar(&o.tlsCert, "tls-cert", "", "`file` with the server's TLS certificate chain, in PEM; needs --tls-key")
	f.StringVar(&o.tlsKey, "tls-key", "", "`file` with the private key of the TLS certificate, in PEM; needs --tls-cert")
	f.StringVar(&o.tokenFile, "token-file", "", "`file` with the bearer token that clients must send")
	f.StringVar(&c.Log, "log", "", "append one line for each answer to this `file`")
	group(cmd, "Network and log")
	integerVar(f, &o.maxBody, "max-body", 8<<20, "maximum number of bytes in the body of a request")
	integerVar(f, &c.Samples, "max-samples", 2_000_000, "largest number of samples that all inputs of a request may need together; the server refuses larger requests")
	integerVar(f, &o.maxQueue, "queue", 1024, "maximum number of inputs that wait for answers; further requests get error 429 (gRPC: RESOURCE_EXHAUSTED)")
	f.IntVar(&c.Connections, "connections", 256, "maximum number of running requests; the server accepts 16 connections more than this number, for health checks; further requests get error 503 (gRPC: UNAVAILABLE)")
	f.DurationVar(&c.Timeout, "timeout", 30*time.Second, "maximum time from the arrival of a request to its answer")
	f.DurationVar(&c.ReadTimeout, "read-timeout", 10*time.Second, "maximum time that a request may take to arrive completely")
	f.DurationVar(&c.Drain, "drain", 25*time.Second, "maximum time after SIGTERM for finishing the running requests")
	group(cmd, "Limits")
	f.TextVar(&p.Spec.Device, "device", onnx.Device{}, "device that runs the model: "+onnx.Devices()+"; default: the device of the run")
	integerVar(f, &p.Spec.Batch, "batch", 0, "maximum number of samples per call of the model; 0 means that rscert chooses this number (docs/serve.md)")
	integerVar(f, &p.Spec.Threads, "threads", 0, "number of threads; 0 means one thread per core")
	choices(f, "device", onnx.DeviceNames()...)
	libraryFlag(cmd, &p.Spec.Library)
	f.BoolVar(&o.quiet, "quiet", false, "do not report each request on standard error")
	group(cmd, "How it is run")
}

// minToken is the minimum length of a bearer token.
const minToken = 16

// settle completes the options.
func (o *serveOptions) settle(f *pflag.FlagSet) (err error) {
	p, c := &o.plan, &o.config
	if p.Conformal != "" && !f.Changed("batch") {
		p.Spec.Batch = 0 // 0: the calibration's batch size; another size can change the last bits of scores
	}
	if p.Run == "" {
		return badInputf("--run is missing")
	}
	p.Spec.Skip, p.Spec.Shard, p.N = 1, spec.Whole, o.n
	p.Version, c.Version = version(), version()
	c.MaxBody, c.Queue = o.maxBody, int(o.maxQueue)
	if p.Round, err = parseOffLattice(o.offLattice); err != nil {
		return err
	}
	if (o.tlsCert == "") != (o.tlsKey == "") {
		return badInputf("--tls-cert and --tls-key need each other")
	}
	if o.tlsCert != "" {
		pair, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
		if err != nil {
			return badInput(fmt.Errorf("--tls-cert %s --tls-key %s: %w", o.tlsCert, o.tlsKey, err))
		}
		c.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	if o.tokenFile != "" {
		if c.Token, err = readToken(o.tokenFile); err != nil {
			return badInput(err)
		}
	}
	return badInput(c.Validate())
}

// parseOffLattice reads the value of --off-lattice.
func parseOffLattice(text string) (round bool, err error) {
	switch text {
	case "refuse":
		return false, nil
	case "round":
		return true, nil
	}
	return false, badInputf("--off-lattice %q: want refuse or round", text)
}

func readToken(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	token := bytes.TrimSpace(text)
	if len(token) < minToken || bytes.ContainsAny(token, "\n\r") {
		return nil, fmt.Errorf("%s: want one line of at least %d characters", path, minToken)
	}
	return token, nil
}

func runServe(ctx context.Context, s streams, o serveOptions) error {
	level := slog.LevelInfo
	if o.quiet {
		level = slog.LevelWarn
	}
	c := o.config
	c.Slog = slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: level}))
	console := s.console(o.quiet)
	for _, listen := range []string{c.Listen, c.GRPCListen} {
		if host, _, err := net.SplitHostPort(listen); err == nil && !isLoopback(host) && (c.Token == nil || c.TLS == nil) {
			err := s.warnf(warning.OpenToNetwork, "%s is open to the network: --tls-cert, --tls-key and --token-file keep strangers out", listen)
			if err != nil {
				return err
			}
		}
	}
	if c.Name == "" {
		name, err := modelName(o.plan)
		if err != nil {
			return err
		}
		c.Name = name
	}
	extendPatience(c.Drain)
	collectLess()
	secure := ""
	if c.TLS != nil {
		secure = "s"
	}
	return serve.Serve(ctx, c, func(ctx context.Context) (*run.Answerer, error) {
		return run.OpenAnswerer(ctx, o.plan, console)
	}, func(forHTTP, forGRPC net.Addr) {
		fmt.Fprintf(s.out, "http%s://%s/v2/models/%s\n", secure, forHTTP, c.Name)
		if forGRPC != nil {
			fmt.Fprintf(s.out, "grpc%s://%s\n", secure, forGRPC)
		}
	})
}

// servingGC is the growth of a server's heap between two garbage collections, in percent. The heap holds only a few
// megabytes. So with Go's default of 100, the collector would run several times a second under load.
const servingGC = 400

// collectLess sets the garbage collector's percentage (GOGC) to servingGC, unless the environment sets GOGC.
func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(servingGC)
	}
}

// isLoopback reports whether the host is localhost or a loopback address. Only this machine can reach such a host.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// modelName returns the name of a built-in model, or the name of the model's file without its suffix.
func modelName(p run.PredictPlan) (string, error) {
	file := p.Spec.Model
	if file == "" {
		recorded, err := run.ModelOf(p.Run)
		if err != nil {
			return "", err
		}
		file = recorded
	}
	if name, ok := builtin.Name(file); ok {
		return name, nil
	}
	return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), nil
}
