package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// helpers lists the programs that rscert starts.
var helpers = []string{"nvidia-smi", "python3", "python", "pip3", "pip", "npm", "sbatch", "squeue", "sacct"}

// interpreters lists programs that the helpers may start, and programs that rscert must not use.
var interpreters = []string{"node", "sh", "bash", "env", "tar", "unzip", "git", "ldd", "ldconfig", "lspci", "uname", "which"}

// TestProgramsAreStartedInOnePlace checks that only the package 'programs' starts other programs. So every start of a
// program uses the code that TestNothingPlantedRuns tests.
func TestProgramsAreStartedInOnePlace(t *testing.T) {
	for _, root := range []string{".", "../../internal"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if path == "internal" {
				return fs.SkipDir // only tests use the packages below cmd/rscert/internal
			}
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil || strings.Contains(filepath.ToSlash(path), "internal/programs/") {
				return err
			}
			for _, imported := range file.Imports {
				if name, _ := strconv.Unquote(imported.Path.Value); name == "os/exec" && (strings.Contains(string(text), "exec.Command") || strings.Contains(string(text), "exec.LookPath")) {
					t.Errorf("%s starts programs itself: use programs.Command", path)
				}
			}
			for _, call := range []string{"os.StartProcess", "syscall.Exec", "syscall.ForkExec", "C.system(", "C.popen("} {
				if strings.Contains(string(text), call) {
					t.Errorf("%s uses %s: use programs.Command", path, call)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// plantedFolders returns two folders full of traps: programs in the first folder, Python modules in the second. If a
// trap runs, it writes its name into the file 'ran'.
func plantedFolders(t *testing.T) (folders [2]string, ran string) {
	t.Helper()
	folders, ran = [2]string{t.TempDir(), t.TempDir()}, filepath.Join(t.TempDir(), "ran")
	folder := folders[0]
	write := func(name, text string, mode fs.FileMode) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range append(helpers, interpreters...) {
		write(name, "#!/bin/sh\necho '"+name+"' >>'"+ran+"'\nexit 1\n", 0o755)
	}
	folder = folders[1]
	for _, module := range []string{"pip/__init__.py", "pip/__main__.py", "sysconfig.py", "site.py", "sitecustomize.py",
		"usercustomize.py", "json.py", "logging.py", "runpy.py", "nvidia/__init__.py"} {
		write(module, "open('"+ran+"', 'a').write('"+module+"\\n')\n", 0o644)
	}
	return folders, ran
}

// absolutePython returns a folder that contains only a link to the system's python3. This folder is outside the current
// folder.
func absolutePython(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, python := range []string{"/usr/bin/python3", "/usr/local/bin/python3", "/opt/homebrew/bin/python3"} {
		if _, err := os.Stat(python); err == nil {
			if err := os.Symlink(python, filepath.Join(folder, "python3")); err != nil {
				t.Fatal(err)
			}
			return folder
		}
	}
	t.Skip("no python3 is in the usual folders")
	return ""
}

// TestNothingPlantedRuns runs the commands 'setup', 'doctor' and 'slurm' in a folder full of traps. These commands
// start other programs. The search paths for programs and for Python modules contain this folder, as '.' or as an empty
// entry.
func TestNothingPlantedRuns(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the traps are shell scripts")
	}
	folders, ran := plantedFolders(t)
	python := absolutePython(t)
	testdata, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ folder, path string }{
		{folders[0], ".:" + python}, {folders[0], python + ":."}, {folders[1], ":" + python},
	} {
		for _, args := range [][]string{
			{"setup"},
			{"doctor"},
			{"slurm", "--shards", "2", "--", "certify", "--model", testdata + "/mnist-cnn.onnx", "--data", testdata + "/mnist", "--sigma", "0.5", "--out", t.TempDir() + "/run"},
		} {
			cmd := program(t, args...)
			cmd.Dir = c.folder
			cmd.Env = append(cmd.Env, "PATH="+c.path, "PYTHONPATH=:.", "NODE_PATH=.", "HOME="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir(),
				"GODEBUG=execerrdot=0", "PIP_INDEX_URL=http://127.0.0.1:1/simple", "PIP_RETRIES=0", "RSCERT_ONNXRUNTIME_RELEASES=http://127.0.0.1:1")
			if out, err := cmd.CombinedOutput(); err == nil {
				t.Errorf("PATH=%s: %s succeeded without its programs:\n%s", c.path, args[0], out)
			}
			if names, err := os.ReadFile(ran); err == nil {
				t.Errorf("PATH=%s: %s ran %s", c.path, args[0], strings.Fields(string(names)))
				if err := os.Remove(ran); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestTrapsWork checks that the traps of TestNothingPlantedRuns write their names when they run.
func TestTrapsWork(t *testing.T) {
	folders, ran := plantedFolders(t)
	python := filepath.Join(absolutePython(t), "python3")
	for _, cmd := range []*exec.Cmd{exec.Command("./nvidia-smi"), exec.Command(python, "-m", "pip"), exec.Command(python, "-c", "import sysconfig")} {
		cmd.Dir = folders[1]
		if cmd.Args[0] == "./nvidia-smi" {
			cmd.Dir = folders[0]
		}
		_ = cmd.Run()
		if _, err := os.ReadFile(ran); err != nil {
			t.Errorf("%v left no trace", cmd.Args)
		}
		_ = os.Remove(ran)
	}
}
