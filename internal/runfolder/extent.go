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

// Extent is the progress of a run, read from the run's folder without checking the lines.
type Extent struct {
	Done     int  // number of certified examples
	Selected int  // number of examples in the run; 0: the run has not started
	Whole    int  // number of examples in all shards of the run together
	Finished bool // all examples are certified, and scores.npz exists if the run keeps scores
}

// ReadExtent reads the progress of a run folder that another process may be writing. If the folder is missing, the run
// has not started.
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

// countLines counts the newlines in a file. For a missing file it returns 0.
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
