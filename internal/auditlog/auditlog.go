// Package auditlog keeps the log of a server's answers: a file of JSON lines, each with a line number and a checksum.
//
// A server adds lines at the end of the file and never changes a complete line. It writes all lines of a request
// together, before it sends the answers. So the file holds the line of every answer that was sent, even if the server
// is killed. When a server starts, it removes an incomplete last line. It then writes a session line, which says how
// the server makes its answers. An answer line holds the answer, the key of the answer's noise, and a hash of the
// input. To repeat the answer, one needs the answer line, the session line, the input itself, the run folder and the
// model.
package auditlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/predict"
)

// Line is one line of a log: either a Session or an Answer.
type Line struct {
	Line    int64     `json:"line"` // counts from 1
	Time    time.Time `json:"time"`
	Session *Session  `json:"session,omitempty"`
	Answer  *Answer   `json:"answer,omitempty"`
}

// Session says how a server makes its answers.
type Session struct {
	Version string       `json:"rscert"`
	RunID   string       `json:"run_id"`
	Model   string       `json:"model_sha256"`
	Rule    predict.Rule `json:"rule"`
	Alpha   float64      `json:"alpha"`
	Budget  int64        `json:"budget"` // maximum number of noisy samples for an answer
	Round   bool         `json:"round,omitempty"`
	Library string       `json:"library"` // version of ONNX Runtime
	Device  string       `json:"device"`
	Batch   int          `json:"batch"`
}

// Answer is an answer to one input of a request.
type Answer struct {
	Request string `json:"request,omitempty"` // id that the client gave
	Input   string `json:"input"`             // SHA-256 of the values as little-endian float32, in hex
	// Key is the seed of the noise, in hex. The server drew the key for this request, after the input had arrived. The
	// noise depends on the key and on the field Index, which is the number of the input within the request.
	Key     string  `json:"key"`
	Certify bool    `json:"certify,omitempty"`
	Radius  float64 `json:"certify_radius,omitempty"`
	predict.Answer
}

// Log is an open log. Several goroutines may append to it.
type Log struct {
	mu     sync.Mutex
	file   *os.File
	lock   *flock.Flock
	seed   checksum.Seed
	size   int64 // number of bytes in complete lines
	next   int64
	dirty  bool
	broken error
	stop   chan struct{}
	synced sync.WaitGroup
}

// syncEvery is the time between two syncs of the file to the disk. A power cut may lose the lines since the last sync.
// No complete line is lost if only the process is killed.
const syncEvery = time.Second

// Open opens or creates the log of the answers that servers give for one run. The argument 'seed' identifies this run.
// Open checks all lines and removes an incomplete last line. It returns an error if another server has the log open, or
// if a line is damaged or belongs to another run.
func Open(path string, seed checksum.Seed) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Log{file: f, lock: flock.New(path), seed: seed, next: 1, stop: make(chan struct{})}
	if err := l.start(path); err != nil {
		_ = l.lock.Unlock()
		return nil, errors.Join(err, f.Close())
	}
	l.synced.Go(l.syncOften)
	return l, nil
}

func (l *Log) start(path string) error {
	if got, err := l.lock.TryLock(); err != nil {
		return fmt.Errorf("locking %s: %w", path, err)
	} else if !got {
		return fmt.Errorf("%s: another rscert is writing to it", path)
	}
	err := read(l.file, l.seed, func(line Line, end int64) error {
		l.next, l.size = line.Line+1, end
		return nil
	})
	if err != nil && !errors.Is(err, errTorn) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return l.file.Truncate(l.size)
}

// Begin appends a session.
func (l *Log) Begin(s Session) error { return l.write([]Line{{Session: &s}}) }

// Append writes the answers of one request to the log. After Append has returned nil, these answers are not lost, even
// if the process is killed.
func (l *Log) Append(answers []Answer) error {
	lines := make([]Line, len(answers))
	for i := range answers {
		lines[i].Answer = &answers[i]
	}
	return l.write(lines)
}

func (l *Log) write(lines []Line) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	var text []byte
	now := time.Now().UTC()
	for i := range lines {
		lines[i].Line, lines[i].Time = l.next+int64(i), now
		data, err := json.Marshal(lines[i])
		if err != nil {
			return err
		}
		text = append(append(text, l.seed.AppendJSON(data)...), '\n')
	}
	if _, err := l.file.Write(text); err != nil {
		// without this Truncate, the next line would follow an incomplete line
		if undo := l.file.Truncate(l.size); undo != nil {
			l.broken = errors.Join(err, undo)
		}
		return err
	}
	l.size, l.next, l.dirty = l.size+int64(len(text)), l.next+int64(len(lines)), true
	return nil
}

// syncOften syncs the file to the disk once in each interval syncEvery, if the file has new lines. It returns when the
// log is closed.
func (l *Log) syncOften() {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		l.mu.Lock()
		dirty := l.dirty
		l.dirty = false
		l.mu.Unlock()
		if !dirty {
			continue
		}
		if err := l.file.Sync(); err != nil {
			l.mu.Lock()
			l.broken = err
			l.mu.Unlock()
		}
	}
}

// Close writes all lines to the disk and closes the log.
func (l *Log) Close() error {
	close(l.stop)
	l.synced.Wait()
	return errors.Join(l.file.Sync(), l.lock.Unlock(), l.file.Close())
}

// Read passes the lines of a log to the function 'visit'. It skips an incomplete last line.
func Read(path string, seed checksum.Seed, visit func(Line) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = read(f, seed, func(line Line, _ int64) error { return visit(line) })
	if err != nil && !errors.Is(err, errTorn) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

var errTorn = errors.New("the last line is incomplete")

// maxLine is the largest length of a line in bytes. It limits the memory for one line.
const maxLine = 64 << 20

// read passes each line, and the offset at which the line ends, to the function 'visit'.
func read(r io.Reader, seed checksum.Seed, visit func(line Line, end int64) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	s.Split(wholeLines)
	end := int64(0)
	for number := int64(1); s.Scan(); number++ {
		text := s.Bytes()
		if text[len(text)-1] != '\n' {
			return errTorn
		}
		end += int64(len(text))
		line, err := decode(bytes.TrimSuffix(text, []byte("\n")), seed)
		if err == nil && line.Line != number {
			err = fmt.Errorf("its number is %d: lines are missing", line.Line)
		}
		if err == nil {
			err = visit(line, end)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	return s.Err()
}

// wholeLines is a bufio.SplitFunc. It splits data into lines, and each line keeps its newline.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

func decode(text []byte, seed checksum.Seed) (line Line, err error) {
	body, state := seed.VerifyJSON(text)
	switch state {
	case checksum.Good:
	case checksum.Foreign:
		return line, errors.New("belongs to another run, as its checksum shows")
	default:
		return line, errors.New("has changed since it was written: its checksum does not match")
	}
	if err := json.Unmarshal(body, &line); err != nil {
		return line, err
	}
	if (line.Session == nil) == (line.Answer == nil) {
		return line, errors.New("is neither a session nor an answer")
	}
	return line, nil
}
