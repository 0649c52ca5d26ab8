package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/cluster"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/spec"
)

// shardFlag is the value of --shard: "i/k", or "auto" for the shard of this task in a job array.
type shardFlag struct{ *spec.Shard }

func (f shardFlag) Set(s string) (err error) {
	if s != "auto" {
		return f.UnmarshalText([]byte(s))
	}
	*f.Shard, err = cluster.TaskShard(os.LookupEnv)
	return err
}

func (f shardFlag) String() string {
	if f.Shard == nil { // pflag calls String on a zero value
		return ""
	}
	return f.Shard.String()
}

func (shardFlag) Type() string { return "i/k" }

// sharded is a command line 'certify …' whose run is split into shards. The shards run on other machines.
type sharded struct {
	flags   []string // the flags of the command line, except those that each shard sets itself
	out     string
	seed    *uint64
	resume  bool
	threads bool     // --threads is given
	points  []string // names of the points of a sweep; nil for a single run
}

// splitShards parses a command line 'certify …' whose run is split into shards.
func splitShards(words []string) (s sharded, err error) {
	if len(words) == 0 || words[0] != "certify" {
		return s, hint.Add(badInput(errors.New("want the run to split after --")), "as in: -- certify --model cnn.onnx --data mnist/ --sigma 0.5 --out run")
	}
	cmd := newCertify(streams{})
	var given []*pflag.Flag
	err = cmd.Flags().ParseAll(words[1:], func(f *pflag.Flag, value string) error {
		given = append(given, f)
		switch f.Name {
		case "out", "resume", "quiet", "seed":
		default:
			s.flags = append(s.flags, "--"+f.Name+"="+value)
		}
		return cmd.Flags().Set(f.Name, value)
	})
	if err != nil {
		return s, hint.Add(badInput(explainFlag(cmd, err)), "see 'rscert certify --help'")
	}
	if rest := cmd.Flags().Args(); len(rest) > 0 {
		return s, badInputf("certify takes no argument %q", rest[0])
	}
	for _, f := range given {
		switch f.Name {
		case "shard", "point", "check", "check-image", "plan", "deadline", "require", "junit", "annotations":
			return s, hint.Add(badInputf("--%s does not work in a run split into shards", f.Name), "leave it out")
		case "sign", "sign-password-file":
			return s, hint.Add(badInputf("--%s does not work in a run split into shards", f.Name), "leave it out; 'rscert certify … --resume --sign' signs the merged run")
		case "threads":
			s.threads = true
		}
	}
	for _, name := range []string{"model", "data", "sigma", "out"} {
		if !cmd.Flags().Changed(name) {
			return s, hint.Add(badInputf("--%s is missing", name), "see 'rscert certify --help'")
		}
	}
	s.out = cmd.Flags().Lookup("out").Value.String()
	s.resume = cmd.Flags().Changed("resume")
	grid, err := sweptGrid(cmd.Flags())
	if err != nil {
		return s, err
	}
	if grid != nil {
		for _, p := range grid.Points() {
			s.points = append(s.points, p.Name)
		}
	}
	if cmd.Flags().Changed("seed") {
		seed, err := strconv.ParseUint(cmd.Flags().Lookup("seed").Value.String(), 10, 64)
		if err != nil {
			return s, err
		}
		s.seed = &seed
	}
	return s, nil
}

// chooseSeed returns the common seed of all shards: the seed of --seed, or a new seed.
func (s sharded) chooseSeed() (uint64, error) {
	if s.seed != nil {
		return *s.seed, nil
	}
	return experiment.DrawSeed()
}

// thisProgram returns the path of the running program, rscert. The path must be the same on all machines of the
// cluster.
func thisProgram() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// splitWords splits the words at --. It returns three lists: the flags before -- that fs has, the flags before -- that
// belong to another program, and the words after --. In the flags of the other program, a word that does not begin with
// a dash is the value of the preceding flag.
func splitWords(fs *pflag.FlagSet, words []string) (own, other, after []string, err error) {
	for i := 0; i < len(words); i++ {
		word := words[i]
		if word == "--" {
			return own, other, words[i+1:], nil
		}
		if !strings.HasPrefix(word, "-") {
			return nil, nil, nil, badInputf("%q is not a flag: the run comes after --", word)
		}
		name, _, assigned := strings.Cut(strings.TrimLeft(word, "-"), "=")
		f := fs.Lookup(name)
		switch {
		case f == nil || !strings.HasPrefix(word, "--"):
			other = append(other, word)
			if next := i + 1; next < len(words) && !strings.HasPrefix(words[next], "-") && !assigned {
				other[len(other)-1] += separator(word) + words[next]
				i++
			}
		case assigned || f.NoOptDefVal != "":
			own = append(own, word)
		default:
			own = append(own, word)
			if i++; i < len(words) {
				own = append(own, words[i])
			}
		}
	}
	return own, other, nil, nil
}

// separator returns the text between a flag and its value if they are one word: "=" for --name=value, "" for -nvalue.
func separator(flag string) string {
	if strings.HasPrefix(flag, "--") {
		return "="
	}
	return ""
}

// checkShards refuses a number of shards below 1.
func checkShards(shards int) error {
	if shards < 1 {
		return hint.Add(badInput(fmt.Errorf("--shards %d: want at least 1", shards)), "'rscert certify … --plan --deadline 2h' computes how many")
	}
	return nil
}
