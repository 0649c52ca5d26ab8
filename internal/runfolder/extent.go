package runfolder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rscert/rscert/internal/spec"
)

// Extent is how far a run has come, as its folder tells at a glance. The lines are not checked.
type Extent struct {
	Done     int  // examples that are certified
	Selected int  // examples of the run; 0: it has not begun
	Whole    int  // examples of the run of which this is a shard
	Finished bool // all are, and scores.npz is there if asked for
}

// ReadExtent looks at a run folder that another process may be writing to. One that is not there is not begun.
func ReadExtent(dir string) (Extent, error) {
	run, err := Read(dir)
	if missing(err) {
		return Extent{}, nil
	}
	if err != nil {
		return Extent{}, err
	}
	x := Extent{Selected: run.Data.Selected}
	whole := run.Parameters
	whole.Shard = spec.Whole
	x.Whole = len(whole.Positions(run.Data.Examples))
	if x.Done, err = countLines(filepath.Join(dir, CertificatesFile)); err != nil {
		return x, err
	}
	x.Finished = x.Done == x.Selected
	if run.Parameters.SaveScores {
		_, err := os.Stat(filepath.Join(dir, ScoresFile))
		x.Finished = x.Finished && err == nil
	}
	return x, nil
}

// countLines counts the ends of lines of a file; of one that is not there, none.
func countLines(path string) (int, error) {
	f, err := openFile(path)
	if missing(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buffer := make([]byte, 1<<16)
	for lines := 0; ; {
		n, err := f.Read(buffer)
		lines += bytes.Count(buffer[:n], []byte{'\n'})
		switch {
		case errors.Is(err, io.EOF):
			return lines, nil
		case err != nil:
			return lines, fmt.Errorf("%s: %w", path, err)
		}
	}
}
