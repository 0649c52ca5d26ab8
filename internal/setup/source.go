package setup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/programs"
	"github.com/rscert/rscert/internal/quote"
)

// Source is a place from which a build can be fetched.
type Source uint8

// These are the sources. fromURL stands for Options.URL, and anySource for all sources in turn.
const (
	anySource    Source = iota
	FromPip             // pip fetches a wheel
	FromDownload        // rscert itself fetches the release, or a package of a configured registry
	FromNPM             // npm fetches the package onnxruntime-node
	fromURL
)

var sourceNames = map[Source]string{anySource: "", FromPip: "pip", FromDownload: "download", FromNPM: "npm", fromURL: "url"}

func (s Source) String() string { return sourceNames[s] }

// Sources lists the sources that a user can choose. The text "" means that Fetch tries all sources in turn.
var Sources = choice.Of("source", FromPip, FromDownload, FromNPM).Optional()

// get fetches a file that contains the build.
func (f fetcher) get(ctx context.Context, s Source, url string) (string, error) {
	switch s {
	case FromPip:
		return f.pip(ctx)
	case FromNPM:
		return f.npm(ctx)
	case fromURL:
		return f.copy(ctx, url)
	}
	return f.download(ctx)
}

// packages holds the names of a build in the registries.
type packages struct {
	wheel string // name of the project on PyPI
	npm   string // "" if not on npm
	// release holds, for each platform, the part of the GitHub archive's name that precedes the version.
	release map[string]string
}

func (f fetcher) packages() packages {
	if f.Wheel.Project != "" {
		return packages{wheel: f.Wheel.Project}
	}
	switch f.Device {
	case "openvino":
		return packages{wheel: "onnxruntime-openvino"}
	case "cuda":
		return packages{wheel: "onnxruntime-gpu"}
	}
	return packages{"onnxruntime", "onnxruntime-node", map[string]string{
		"linux-amd64": "onnxruntime-linux-x64-", "linux-arm64": "onnxruntime-linux-aarch64-", "darwin-arm64": "onnxruntime-osx-arm64-"}}
}

// wheelTags maps each platform to its tag in the file names of wheels.
var wheelTags = map[string]string{
	"linux-amd64": "manylinux_2_28_x86_64", "linux-arm64": "manylinux_2_28_aarch64", "darwin-arm64": "macosx_14_0_arm64"}

// pythonTag is the Python version of the wheel that rscert fetches. A package has one wheel for each Python version,
// but all these wheels hold the same libraries.
const pythonTag = "3.12"

// wheelFile returns the file name of the wheel.
func (f fetcher) wheelFile() string {
	if f.Wheel.File != "" {
		return f.Wheel.File
	}
	python := "cp" + strings.ReplaceAll(pythonTag, ".", "")
	project := strings.ReplaceAll(f.packages().wheel, "-", "_")
	return fmt.Sprintf("%s-%s-%s-%s-%s.whl", project, f.Version, python, python, wheelTags[f.Platform])
}

// pip downloads the wheel with pip. The platform and the Python version of the wheel do not depend on the Python that
// runs pip.
func (f fetcher) pip(ctx context.Context) (string, error) {
	var pip []string
	for _, command := range [][]string{{"pip3"}, {"pip"}, {"python3", "-I", "-m", "pip"}, {"python", "-I", "-m", "pip"}} {
		if programs.Command(ctx, command[0], append(slices.Clone(command[1:]), "--version")...).Run() == nil {
			pip = command
			break
		}
	}
	if pip == nil {
		return "", errNotInstalled
	}
	f.console.notef("fetching %s %s with %s", f.packages().wheel, f.Version, strings.Join(pip, " "))
	args := append(slices.Clone(pip), "download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-cache-dir", "--no-deps", "--only-binary=:all:",
		"--implementation", "cp", "--python-version", pythonTag)
	name := strings.TrimSuffix(f.wheelFile(), ".whl")
	for platform := range strings.SplitSeq(name[strings.LastIndex(name, "-")+1:], ".") {
		args = append(args, "--platform", platform)
	}
	return f.command(ctx, append(args, "--dest", f.dir, f.packages().wheel+"=="+f.Version), "*.whl")
}

// npm downloads the package with 'npm pack', which does not run the package's install script.
func (f fetcher) npm(ctx context.Context) (string, error) {
	name := f.packages().npm
	if _, err := programs.Find("npm"); err != nil || name == "" {
		return "", errNotInstalled
	}
	f.console.notef("fetching %s %s with npm", name, f.Version)
	return f.command(ctx, []string{"npm", "pack", name + "@" + f.Version, "--silent", "--ignore-scripts", "--cache", filepath.Join(f.dir, "npm")}, "*.tgz")
}

// command runs a program in f.dir and returns the file that the program writes there.
func (f fetcher) command(ctx context.Context, args []string, pattern string) (string, error) {
	cmd := programs.Command(ctx, args[0], args[1:]...)
	cmd.Dir = f.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if out, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return "", fmt.Errorf("%w: %s", err, quote.Line(lines[len(lines)-1]))
	}
	files := ortlib.Glob(f.dir, pattern)
	if len(files) != 1 {
		return "", fmt.Errorf("left %d files", len(files))
	}
	return files[0], nil
}
