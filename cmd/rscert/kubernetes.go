package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/cluster"
	"github.com/rscert/rscert/internal/hint"
)

// kubernetesOptions are the flags of 'rscert kubernetes'.
type kubernetesOptions struct {
	cluster.IndexedJob
	merge  bool
	format manifestFormat
}

// manifestFormat is the format in which the command prints the manifest: YAML or JSON.
type manifestFormat string

const (
	yamlManifest manifestFormat = "yaml"
	jsonManifest manifestFormat = "json"
)

var manifestFormats = choice.Of("format", yamlManifest, jsonManifest)

func (m manifestFormat) String() string { return string(m) }

func newKubernetes(s streams) *cobra.Command {
	var o kubernetesOptions
	cmd := &cobra.Command{
		Use:   "kubernetes --shards K --image IMAGE --claim CLAIM -- certify …",
		Short: "Print the Kubernetes Job that runs the shards of a run",
		Long: `This command prints the manifest of an Indexed Job that runs 'rscert certify …' in
shards, one pod per shard. All shards share one seed, which the manifest records. The
command sends nothing to a cluster; 'kubectl apply -f' sends the manifest. With --merge,
the command prints the Job that merges the finished shards.

All pods mount one volume with the model, the data and the results. If the pods run on
several nodes, the volume must be ReadWriteMany. Relative paths in the flags of certify
start at the root of the volume.

If a flag of certify has a list of values, the run is a sweep with one point for each
combination of values (docs/sweeps.md). Then the Job runs all shards of every point.

If a shard fails, it starts again, at most --retries times, and continues where it
stopped. A shard with exit code 2 (wrong input) does not start again. If a node fails,
Kubernetes starts its pods again, and --retries does not count these restarts. The Job
needs Kubernetes 1.29 or later (backoffLimitPerIndex).`,
		Example: `  rscert kubernetes --shards 8 --image me/rscert:1 --claim work -- \
      certify --model cnn.onnx --data mnist --sigma 0.5 --seed 18 --out run | kubectl apply -f -
  kubectl wait --for=condition=complete --timeout=-1s job/rscert
  rscert kubernetes --merge --shards 8 --image me/rscert:1 --claim work -- \
      certify --model cnn.onnx --data mnist --sigma 0.5 --seed 18 --out run | kubectl apply -f -
  rscert kubernetes --shards 16 --gpus 1 --cpus 8 --memory 16Gi --image me/rscert:cuda --claim imagenet -- \
      certify --model resnet50.onnx --data val --sigma 0.5 --device cuda --out run >job.yaml`,
		RunE: func(cmd *cobra.Command, words []string) error {
			if cmd.ArgsLenAtDash() != 0 {
				words = nil // the command of the run must come after --, and no word may stand before --
			}
			return runKubernetes(s, o, words)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.Shards, "shards", 0, "number of shards of the run, or of each point of a sweep; each shard has its own pod")
	f.StringVar(&o.Image, "image", "", "container `image` with rscert on its PATH")
	f.StringVar(&o.Claim, "claim", "", "name of the PersistentVolumeClaim for the volume with the model, the data and the results")
	f.StringVar(&o.Mount, "mount", "/work", "`path` at which the pods mount the volume")
	f.StringVar(&o.Name, "name", "rscert", "name of the Job")
	f.IntVar(&o.AtOnce, "at-once", 0, "maximum number of pods that run at the same time; 0 means all pods")
	f.IntVar(&o.Retries, "retries", 2, "maximum number of times that a failed shard starts again")
	f.IntVar(&o.CPUs, "cpus", 2, "number of processors per pod; also the number of threads, unless certify has the flag --threads")
	f.StringVar(&o.Memory, "memory", "4Gi", "memory per pod, as a Kubernetes quantity")
	f.IntVar(&o.GPUs, "gpus", 0, "number of NVIDIA GPUs per pod (the resource nvidia.com/gpu)")
	f.IntVar(&o.FSGroup, "fs-group", 0, "ID of the group that owns the volume; the image in packaging/docker does not run as root and needs 65532")
	f.BoolVar(&o.merge, "merge", false, "print the manifest of the Job that merges the finished shards")
	choiceVar(f, &o.format, "format", yamlManifest, manifestFormats, "format of the manifest: "+manifestFormats.String())
	return cmd
}

func runKubernetes(s streams, o kubernetesOptions, words []string) error {
	if err := o.validate(); err != nil {
		return err
	}
	certify, err := splitShards(words)
	if err != nil {
		return err
	}
	o.Out, o.Certify, o.OwnThreads, o.Points = certify.out, certify.flags, certify.threads, len(certify.points)
	manifest := o.Merge()
	if !o.merge {
		if o.Seed, err = certify.chooseSeed(); err != nil {
			return err
		}
		if certify.seed == nil {
			fmt.Fprintf(s.err, "seed: %d for all shards; --seed %d repeats the noise\n", o.Seed, o.Seed)
		}
		manifest = o.Manifest()
	}
	if o.format == jsonManifest { // report.WriteJSON would add the member 'schema', which Kubernetes refuses
		e := json.NewEncoder(s.out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(manifest)
	}
	text, err := manifest.YAML()
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(s.out, text)
	return err
}

var (
	kubernetesName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?$`) // leaves room in a label for the suffix -merge or a pod's index
	claimName      = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	quantity       = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$`)
)

// validate refuses values that Kubernetes would refuse or misinterpret.
func (o kubernetesOptions) validate() error {
	if err := checkShards(o.Shards); err != nil {
		return err
	}
	switch {
	case o.Image == "":
		return hint.Add(badInput(errors.New("--image is missing")), "build one with packaging/docker/Dockerfile, see docs/install.md")
	case o.Claim == "":
		return hint.Add(badInput(errors.New("--claim is missing")), "name a PersistentVolumeClaim with model and data")
	case !kubernetesName.MatchString(o.Name):
		return badInputf("--name %q: want at most 50 characters out of a–z, 0–9 and -", o.Name)
	case !claimName.MatchString(o.Claim):
		return badInputf("--claim %q: is not a name of a PersistentVolumeClaim", o.Claim)
	case !path.IsAbs(o.Mount):
		return badInputf("--mount %q: want a path that begins with /", o.Mount)
	case !quantity.MatchString(o.Memory):
		return badInputf("--memory %q: want a number of bytes, as in 4Gi", o.Memory)
	case o.CPUs < 1 || o.GPUs < 0 || o.AtOnce < 0 || o.Retries < 0 || o.FSGroup < 0:
		return badInput(errors.New("want --cpus of at least 1, --gpus, --at-once, --retries and --fs-group of at least 0"))
	}
	return nil
}
