package runfolder

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rscert/rscert/internal/certify"
)

// ReadVotes reads votes from a votes.jsonl file or a run folder. An error, also
// one of the further checks, names the line.
func ReadVotes(path string, checks ...func(certify.Votes) error) ([]certify.Votes, error) {
	return readFile(path, VotesFile, func(v certify.Votes) error {
		err := v.Validate()
		for _, check := range checks {
			if err == nil {
				err = check(v)
			}
		}
		return err
	})
}

// ReadCertificates reads certificates from a certificates.jsonl file or a run
// folder. An error names the line.
func ReadCertificates(path string) ([]certify.Certificate, error) {
	return readFile(path, CertificatesFile, func(certify.Certificate) error { return nil })
}

// WriteCertificates writes a certificates.jsonl file, whole or not at all.
func WriteCertificates(path string, certs []certify.Certificate) error {
	var lines []byte
	for _, c := range certs {
		line, err := encode(c, "")
		if err != nil {
			return err
		}
		lines = append(lines, line...)
	}
	return WriteFile(path, lines)
}

func readFile[T any](path, name string, valid func(T) error) ([]T, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if info.IsDir() {
		path = filepath.Join(path, name)
	}
	// A killed run can leave a torn last line in its own folder; elsewhere it is
	// an error.
	_, err := os.Stat(filepath.Join(filepath.Dir(path), RunFile))
	torn := err == nil && filepath.Base(path) == name
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	values, _, err := decodeLines(f, path, torn, valid)
	return values, err
}

// decodeLines decodes JSON lines and returns, with the values, the offset
// behind each line. A last line without its newline is left out if torn,
// else it has to be valid like the others.
func decodeLines[T any](r io.Reader, name string, torn bool, valid func(T) error) (values []T, ends []int64, err error) {
	br := bufio.NewReaderSize(r, 1<<16)
	var offset int64
	for line := 1; ; line++ {
		data, err := br.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		end := errors.Is(err, io.EOF)
		if end && (len(data) == 0 || torn) {
			return values, ends, nil
		}
		offset += int64(len(data))
		if text := bytes.TrimSpace(data); len(text) > 0 {
			var v T
			err := json.Unmarshal(text, &v)
			if err == nil {
				err = valid(v)
			}
			if err != nil {
				return nil, nil, fmt.Errorf("%s:%d: %w", name, line, err)
			}
			values = append(values, v)
			ends = append(ends, offset)
		}
		if end {
			return values, ends, nil
		}
	}
}
