package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
)

// Parts are folders of one sweep. Together, these folders hold the shards of all points.
type Parts struct {
	Record  Record
	Folders [][]string // for each point, the run folders of its shards
}

// ReadParts reads the records in the folders of a sweep's parts. Each part may hold shards of all points, or of some
// points. If no folder holds the record of a sweep, ReadParts returns nil.
func ReadParts(dirs []string) (*Parts, error) {
	var p *Parts
	for k, dir := range dirs {
		r, err := Read(dir)
		absent := errors.Is(err, fs.ErrNotExist)
		switch {
		case absent && p == nil && k == len(dirs)-1:
			return nil, nil
		case absent && p == nil:
			continue
		case absent:
			return nil, hint.Add(fmt.Errorf("%s: holds no sweep, and %s does", dir, dirs[0]), "merge the folders of one sweep, or the run folders of one run")
		case err != nil:
			return nil, err
		case p == nil && k > 0:
			return nil, hint.Add(fmt.Errorf("%s: holds a sweep, and %s does not", dir, dirs[0]), "merge the folders of one sweep, or the run folders of one run")
		case p == nil:
			p = &Parts{Record: r, Folders: make([][]string, len(r.Points))}
		case !reflect.DeepEqual(r.Axes, p.Record.Axes) || !reflect.DeepEqual(r.Points, p.Record.Points):
			return nil, fmt.Errorf("%s holds another sweep than %s: %s, not %s", dir, dirs[0], r.Axes, p.Record.Axes)
		case r.Seed != p.Record.Seed:
			return nil, hint.Add(param.Errorf("%s has another seed than %s", dir, dirs[0]), "shards of one sweep have one seed: give each shard the same %s", param.Seed)
		}
		for k, point := range r.Points {
			if folder := filepath.Join(dir, point.Name); holdsRun(folder) {
				p.Folders[k] = append(p.Folders[k], folder)
			}
		}
	}
	for k, folders := range p.Folders {
		if len(folders) == 0 {
			return nil, fmt.Errorf("no folder holds a shard of %s", p.Record.Points[k].Name)
		}
	}
	return p, nil
}
