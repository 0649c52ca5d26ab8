// Command licenses writes one file with the licences of Go and of the modules linked into rscert. Run 'go run
// ./scripts/licenses FILE' in the root folder of the repository. The file covers all systems for which programs are
// released. The command fails if a module has no licence file.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// systems lists the values of GOOS for which programs are published. The programs for different systems link different
// modules.
var systems = []string{"linux", "darwin"}

// licenceFile matches the names of files that contain licences, or notices that must be distributed with the program.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|unlicense|notice|patents)([-._].*)?$`)

func main() {
	log.SetFlags(0)
	log.SetPrefix("licenses: ")
	if len(os.Args) != 2 {
		log.Fatal("want FILE")
	}
	modules, err := linked()
	if err != nil {
		log.Fatal(err)
	}
	text, err := collect(modules)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(os.Args[1]), 0o755); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[1], text, 0o644); err != nil {
		log.Fatal(err)
	}
}

// module is a linked module, with the folders of the module's linked packages.
type module struct {
	name, dir string // name has the form PATH VERSION
	folders   []string
}

// linked lists Go and then the modules linked into rscert.
func linked() ([]module, error) {
	root, err := goList("linux", "-f", "{{.Root}}", "runtime")
	if err != nil {
		return nil, err
	}
	modules := []module{{name: "Go " + strings.TrimPrefix(runtime.Version(), "go"), dir: root[0]}}
	for _, system := range systems {
		lines, err := goList(system, "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}", "./cmd/rscert")
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			parts := strings.Split(line, "\t")
			k := slices.IndexFunc(modules, func(m module) bool { return m.name == parts[0] })
			if k < 0 {
				k = len(modules)
				modules = append(modules, module{name: parts[0], dir: parts[1]})
			}
			modules[k].folders = append(modules[k].folders, parts[2])
		}
	}
	slices.SortFunc(modules[1:], func(a, b module) int { return strings.Compare(a.name, b.name) })
	return modules, nil
}

func goList(system string, args ...string) ([]string, error) {
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" }), err
}

// licences lists a module's licence files. The files lie in the module's root, in the folders of the linked packages,
// or in the folders between the root and a linked package.
func (m module) licences() (files []string, err error) {
	folders := []string{m.dir}
	for _, folder := range m.folders {
		for ; len(folder) > len(m.dir); folder = filepath.Dir(folder) {
			folders = append(folders, folder)
		}
	}
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Type().IsRegular() && licenceFile.MatchString(e.Name()) && filepath.Ext(e.Name()) != ".go" {
				files = append(files, filepath.Join(folder, e.Name()))
			}
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: %w", m.name, errNone)
	}
	return files, nil
}

var errNone = errors.New("has no licence file: rscert cannot be published with it")

// collect joins the licences of all modules.
func collect(modules []module) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintln(&b, "The program rscert contains the following modules, under these licences.")
	for _, m := range modules {
		files, err := m.licences()
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			name, err := filepath.Rel(m.dir, file)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), m.name, filepath.ToSlash(name), bytes.TrimSpace(text))
		}
	}
	return b.Bytes(), nil
}
