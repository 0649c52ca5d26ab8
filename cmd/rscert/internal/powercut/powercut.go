// Package powercut simulates power cuts while a program writes files, for tests.
//
// Record runs the real program and records its file operations. Recording.Cut then returns the files that a power cut
// between two operations may leave. The model is harsher than usual file systems: it keeps only the promises of
// fsync(2):
//
//   - A file keeps the content written before its last fsync began. If a page of 4 KiB was written since then, it has
//     either its content at the fsync or its content after one of the later writes. The choice for one page does not
//     depend on the other pages. The length of the file is its length at the fsync or its length after one of the later
//     changes. Pages that never reached the disk read as zeros.
//   - A folder keeps the names present when its last fsync began. Each later change (a name made, moved or removed) may
//     be kept or lost. A rename happens as a whole or not at all.
package powercut

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Kind is the kind of an event.
type Kind int

// These are the kinds of events. Write and Truncate change a file. The kinds after SyncFolder change the names in a
// folder.
const (
	Write Kind = iota
	Truncate
	Sync // sync of a file
	SyncFolder
	Create
	Mkdir
	Rename
	Remove
)

// Event is a file operation that the program requested and the system completed.
type Event struct {
	Kind Kind
	Path string // relative to the recording's root
	To   string // for Rename: the new path
	// Begin is the number of events completed when a Sync or SyncFolder began. The sync makes some of these events
	// durable: those that changed the synced file or folder.
	Begin int

	file   int // identity of the file, which a rename does not change
	offset int64
	data   []byte
	size   int64 // for Truncate
}

// Recording holds a program's operations on the files below a folder.
type Recording struct {
	Events []Event
	before Files // files before the recording, which are durable
	ids    map[string]int
}

// Files maps the path of every file in a folder to the file's content, and the path of every folder to nil.
type Files map[string][]byte

// ReadFiles reads all files and folders below root.
func ReadFiles(root string) (Files, error) {
	files := Files{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if d.IsDir() {
			files[name] = nil
			return nil
		}
		data, err := os.ReadFile(path)
		files[name] = append([]byte{}, data...)
		return err
	})
	return files, err
}

// WriteTo writes the files into root, which must exist.
func (f Files) WriteTo(root string) error {
	for _, name := range slices.Sorted(maps.Keys(f)) { // folders come before their content
		path := filepath.Join(root, name)
		if f[name] == nil {
			if err := os.MkdirAll(path, 0o755); err != nil {
				return err
			}
			continue
		}
		if err := os.WriteFile(path, f[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Choice picks one of n ≥ 1 possible states after a cut. State 0 is the oldest state, which is durable, and state n−1
// is the newest.
type Choice func(n int) int

// Oldest chooses the oldest state, as on a disk that wrote only what a sync forced it to write.
func Oldest(int) int { return 0 }

// Newest chooses the newest state, as on a disk that wrote everything.
func Newest(n int) int { return n - 1 }

// Disk chooses the state of pages, file lengths and names after a cut.
type Disk struct{ Pages, Lengths, Names Choice }

// Cut returns the files after a power cut. The argument 'events' is the number of the recording's events before the
// cut.
func (r Recording) Cut(events int, disk Disk) Files {
	past := r.Events[:events]
	names := r.names(past, disk.Names)
	files := Files{}
	for name, id := range names {
		if !parentsIn(names, name) {
			continue // a folder in this path is missing
		}
		if id == folder {
			files[name] = nil
			continue
		}
		files[name] = r.content(past, id, disk)
	}
	return files
}

// The constant 'folder' is the identity number of every folder. Files have the identity numbers 1, 2, ….
const folder = 0

func parentsIn(names map[string]int, name string) bool {
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if id, ok := names[dir]; !ok || id != folder {
			return false
		}
	}
	return true
}

// names returns the names that remain if the power is cut after the events in 'past'. The keys are the paths of all
// files and folders, and the values are their identities.
func (r Recording) names(past []Event, choose Choice) map[string]int {
	// for each folder, an index of 'past': earlier changes to the folder's names are durable
	durable := map[string]int{}
	for _, e := range past {
		if e.Kind == SyncFolder {
			durable[e.Path] = max(durable[e.Path], e.Begin)
		}
	}
	names := maps.Clone(r.ids)
	for i, e := range past {
		if e.Kind <= SyncFolder || (i >= durable[filepath.Dir(e.Path)] && choose(2) == 0) {
			continue
		}
		switch e.Kind {
		case Create, Mkdir:
			names[e.Path] = e.file
		case Remove:
			delete(names, e.Path)
		case Rename:
			if id, ok := names[e.Path]; ok { // without this name, the disk has nothing to rename
				delete(names, e.Path)
				names[e.To] = id
			}
		}
	}
	return names
}

// pageSize is the unit that a disk writes as a whole.
const pageSize = 4096

// content returns the content that a file has after a cut.
func (r Recording) content(past []Event, id int, disk Disk) []byte {
	durable := durableEvents(past, id)
	now := r.contentBefore(id)
	pages := map[int][][]byte{} // the states of each page that changed
	lengths := []int{}
	var then []byte
	for i, e := range past {
		if i == durable {
			then, lengths = slices.Clone(now), []int{len(now)}
		}
		if e.file != id || e.Kind > Truncate {
			continue
		}
		first, last := e.changedPages(len(now))
		now = e.apply(now)
		if i < durable {
			continue
		}
		lengths = append(lengths, len(now))
		for p := first; p <= last; p++ {
			if pages[p] == nil {
				pages[p] = [][]byte{page(then, p)}
			}
			pages[p] = append(pages[p], page(now, p))
		}
	}
	if durable >= len(past) {
		return append([]byte{}, now...)
	}
	left := append([]byte{}, resize(then, lengths[disk.Lengths(len(lengths))])...)
	for _, p := range slices.Sorted(maps.Keys(pages)) {
		state := pages[p][disk.Pages(len(pages[p]))]
		if at := p * pageSize; at < len(left) {
			copy(left[at:], state)
		}
	}
	return left
}

// durableEvents returns the number of events that were complete when the last sync of a file began. The argument 'id'
// is the identity of the file. Because of this sync, the changes that these events made to the file are durable.
func durableEvents(past []Event, id int) int {
	durable := 0
	for _, e := range past {
		if e.Kind == Sync && e.file == id {
			durable = max(durable, e.Begin)
		}
	}
	return durable
}

// contentBefore returns the file's content when the recording began.
func (r Recording) contentBefore(id int) []byte {
	for name, known := range r.ids {
		if known == id {
			return slices.Clone(r.before[name])
		}
	}
	return nil
}

// changedPages returns the first and the last page that the event may change in a file of the given length.
func (e Event) changedPages(length int) (first, last int) {
	if e.Kind == Write {
		return int(e.offset / pageSize), int((e.offset + int64(len(e.data)) - 1) / pageSize)
	}
	return int(e.size / pageSize), max(length-1, 0) / pageSize
}

// apply returns the content of a file after the event.
func (e Event) apply(data []byte) []byte {
	if e.Kind == Truncate {
		return resize(data, int(e.size))
	}
	end := int(e.offset) + len(e.data)
	if end > len(data) {
		data = resize(data, end)
	}
	copy(data[e.offset:], e.data)
	return data
}

// resize truncates data or pads it with zeros.
func resize(data []byte, size int) []byte {
	if size <= len(data) {
		return data[:size:size]
	}
	return append(data[:len(data):len(data)], make([]byte, size-len(data))...)
}

// page returns a copy of the p-th page, with zeros after the end of the file.
func page(data []byte, p int) []byte {
	b := make([]byte, pageSize)
	if at := p * pageSize; at < len(data) {
		copy(b, data[at:])
	}
	return b
}

// below returns the path relative to root. The boolean is true if the path is root itself (".") or lies below root.
func below(root, path string) (string, bool) {
	name, err := filepath.Rel(root, path)
	return name, err == nil && name != ".." && !strings.HasPrefix(name, "../")
}
