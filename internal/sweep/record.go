package sweep

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// File is the name of the file with a sweep's Record.
const File = runfolder.SweepFile

// Schema is the format version of the Record that this package writes. The package refuses newer versions.
const Schema = 1

// maxRecord limits the size of sweep.json in bytes.
const maxRecord = 16 << 20

// Record is the content of sweep.json. It is written before the first run begins.
type Record struct {
	Schema  int    `json:"schema"`
	Version string `json:"rscert"` // version of rscert
	// Seed is the seed of the noise of all points.
	Seed   uint64  `json:"seed"`
	Axes   Grid    `json:"axes"`
	Points []Point `json:"points"`
}

// NewRecord returns the record of a sweep.
func NewRecord(version string, seed uint64, g Grid) Record {
	return Record{Schema: Schema, Version: version, Seed: seed, Axes: g, Points: g.Points()}
}

// Read reads the record in the folder dir. If the folder holds no record, the error is fs.ErrNotExist.
func Read(dir string) (r Record, err error) {
	path := filepath.Join(dir, File)
	if folder, err := os.Stat(dir); err == nil && !folder.IsDir() {
		return r, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxRecord) {
		err = fmt.Errorf("%s: is not the record of a sweep", path)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return r, err
	}
	if err := r.decode(text); err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// decode parses the text of sweep.json.
func (r *Record) decode(text []byte) error {
	if err := json.Unmarshal(text, r); err != nil {
		return err
	}
	switch _, state := checksum.VerifySealed(text); {
	case r.Schema > Schema:
		return fmt.Errorf("written in format %d by rscert %.40q; this rscert reads formats up to %d", r.Schema, r.Version, Schema)
	case r.Schema < 1:
		return errors.New("is not the record of a sweep: it has no schema version")
	case state != checksum.Good:
		return errors.New("has changed since it was written: its checksum does not match")
	}
	for _, p := range r.Points {
		if p.Name == "" || strings.HasPrefix(p.Name, ".") || p.Name != filepath.Base(p.Name) {
			return fmt.Errorf("%.40q is not the name of a point", p.Name)
		}
	}
	return nil
}

// Folders returns the run folders of all points, in the order of the points. A folder may be missing.
func (r Record) Folders(dir string) []string {
	folders := make([]string, len(r.Points))
	for k, p := range r.Points {
		folders[k] = filepath.Join(dir, p.Name)
	}
	return folders
}

// Start starts or resumes the sweep in the folder dir. If the argument 'resume' is true and the folder holds a record,
// Start compares this record with r. Otherwise Start writes r into the folder, which must be empty or missing. Several
// processes can start the same sweep at the same time. One of them writes the record. In the other processes, Start
// then continues as if the folder had held this record from the beginning.
func Start(dir string, r Record, resume bool) error {
	err := r.join(dir, resume)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := r.begin(dir); !errors.Is(err, errBegun) {
		return err
	}
	return spec.BadInput(r.join(dir, resume))
}

// join compares r with the record in the folder dir. If the folder holds no record, the error is fs.ErrNotExist. If the
// folder holds a record and the argument 'resume' is false, the error is runfolder.ErrExists.
func (r Record) join(dir string, resume bool) error {
	then, err := Read(dir)
	switch {
	case err == nil && resume:
		return then.same(dir, r)
	case err == nil:
		return hint.Add(spec.BadInputf("%s: %w", dir, runfolder.ErrExists), "go on with %s, or choose another %s", param.Resume, param.Out)
	case !errors.Is(err, fs.ErrNotExist):
		return spec.BadInput(err)
	}
	return err
}

// errBegun means that another process has just begun a sweep in the folder.
var errBegun = errors.New("another process has begun a sweep")

// begin writes the record into a folder that is empty or missing. If two processes begin at the same time, one of them
// gets errBegun. On a file system that cannot make links, both may write the record instead.
func (r Record) begin(dir string) error {
	if err := checkEmpty(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// A path like MISSING/../FOLDER can be read only after MkdirAll has made MISSING, so begin checks the folder again.
	if err := checkEmpty(dir); err != nil {
		return err
	}
	text, err := r.text()
	if err != nil {
		return err
	}
	temporary := filepath.Join(dir, durable.Temporary+rand.Text())
	// this removes only the temporary name; after os.Link, the file also has the name in the constant File
	defer func() { _ = os.Remove(temporary) }()
	if err := durable.WriteFile(temporary, text); err != nil {
		return err
	}
	err = os.Link(temporary, filepath.Join(dir, File)) // fails if File exists; os.Rename would overwrite it
	switch {
	case errors.Is(err, fs.ErrExist):
		return errBegun
	case err != nil: // the file system cannot make links
		return r.Write(dir)
	}
	return durable.SyncFolder(dir)
}

// Write writes the record into the folder dir.
func (r Record) Write(dir string) error {
	text, err := r.text()
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, File), text)
}

// text returns the record as the text of sweep.json, with a checksum.
func (r Record) text() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	return checksum.Seal(append(text, '\n')), nil
}

// checkEmpty refuses a folder that holds anything except the remains of an interrupted start. If the folder holds a
// record, the error is errBegun.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return spec.BadInput(err)
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == File }) {
		return errBegun
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), durable.Temporary) {
			return hint.Add(spec.BadInputf("%s: %w, and holds no sweep", dir, runfolder.ErrExists), "choose another %s", param.Out)
		}
	}
	return nil
}

// same returns an error unless both records, r and now, describe the same sweep. It does not compare the versions of
// rscert, because each run of the sweep compares them when it is resumed.
func (r Record) same(dir string, now Record) error {
	var differs error
	switch {
	case !reflect.DeepEqual(r.Axes, now.Axes):
		differs = param.Errorf("the sweep was %s, now %s", r.Axes, now.Axes)
	case r.Seed != now.Seed:
		differs = param.Errorf("%s was %d, now %d", param.Seed, r.Seed, now.Seed)
	case !reflect.DeepEqual(r.Points, now.Points):
		differs = errors.New("the names of its points differ")
	default:
		return nil
	}
	return hint.Add(spec.BadInputf("cannot resume %s: %w", dir, differs), "resume with the settings of the folder, or choose another %s", param.Out)
}

// String lists the axes, as in "sigma 0.25,0.5 × law gaussian,laplace".
func (g Grid) String() string {
	var axes []string
	for _, a := range g {
		axes = append(axes, string(a.Parameter)+" "+strings.Join(a.Values, ","))
	}
	return strings.Join(axes, " × ")
}
