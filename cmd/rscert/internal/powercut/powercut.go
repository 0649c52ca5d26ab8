// Package powercut finds out what power cuts leave of the files that a program writes. It is for tests.
//
// Record runs the real program and notes what it asks of the disk. Recording.Cut then says what may be there after the
// power has gone in between. The model is harsher than the usual file systems are; it keeps what fsync(2) promises, and
// nothing else:
//
//   - Of a file, what was written before its last fsync began is there. Each page of 4 KiB that was written since is as
//     it was then or as any later write left it, a page after the other decided for itself; the length of the file is
//     one that it had since then. Pages that never reached the disk read as zeros.
//   - Of the names in a folder, those are there that were when the folder's last fsync began. Each name that was made,
//     moved or removed since may still be as it was. A rename happens as a whole or not at all.
package powercut

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Kind is what an event does.
type Kind int

// Kinds of events. Those up to Truncate change a file, those behind Sync the names in a folder.
const (
	Write Kind = iota
	Truncate
	Sync // of a file
	SyncFolder
	Create
	Mkdir
	Rename
	Remove
)

// Event is something that the program has asked of the disk, and that the system has done.
type Event struct {
	Kind Kind
	Path string // the name in use, below the recording's root
	To   string // of Rename
	// Begin is the number of events that were over when a Sync or SyncFolder began: those it makes durable.
	Begin int

	file   int // identity, which a rename keeps
	offset int64
	data   []byte
	size   int64 // of Truncate
}

// Recording is what a program did to the files below a folder.
type Recording struct {
	Events []Event
	before Files // durable
	ids    map[string]int
}

// Files is what a folder holds: the content of every file by its path, and nil for a folder.
type Files map[string][]byte

// ReadFiles reads all below root.
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

// WriteTo makes the files below root, which exists.
func (f Files) WriteTo(root string) error {
	for _, name := range slices.Sorted(maps.Keys(f)) { // folders come before what is in them
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

// Choice takes one of n ≥ 1 states in which something can be after a cut: 0 is the oldest, the durable one, n−1 what
// the program last made of it.
type Choice func(n int) int

// Oldest is a disk that wrote nothing that it was not made to write.
func Oldest(int) int { return 0 }

// Newest is a disk that had written all.
func Newest(n int) int { return n - 1 }

// Disk decides what a cut leaves.
type Disk struct{ Pages, Lengths, Names Choice }

// Cut returns what there may be after the first events of the recording, when the power goes.
func (r Recording) Cut(events int, disk Disk) Files {
	past := r.Events[:events]
	names := r.names(past, disk.Names)
	files := Files{}
	for name, id := range names {
		if !parentsIn(names, name) {
			continue // its folder is not there
		}
		if id == folder {
			files[name] = nil
			continue
		}
		files[name] = r.content(past, id, disk)
	}
	return files
}

// folder is the identity of every folder; files count from 1.
const folder = 0

func parentsIn(names map[string]int, name string) bool {
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if id, ok := names[dir]; !ok || id != folder {
			return false
		}
	}
	return true
}

// names returns the identities by path.
func (r Recording) names(past []Event, choose Choice) map[string]int {
	durable := map[string]int{} // by folder, the number of events whose changes of its names are durable
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
			if id, ok := names[e.Path]; ok { // else it was never made
				delete(names, e.Path)
				names[e.To] = id
			}
		}
	}
	return names
}

// pageSize is what a disk writes as a whole.
const pageSize = 4096

// content returns the content that a cut leaves of a file.
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

// durableEvents returns the number of events that the file's last sync made durable.
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

// changedPages returns the first and the last page that the event may change in a file of some length.
func (e Event) changedPages(length int) (first, last int) {
	if e.Kind == Write {
		return int(e.offset / pageSize), int((e.offset + int64(len(e.data)) - 1) / pageSize)
	}
	return int(e.size / pageSize), max(length-1, 0) / pageSize
}

// apply returns what the event makes of a file.
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

// resize cuts data, or adds zeros.
func resize(data []byte, size int) []byte {
	if size <= len(data) {
		return data[:size:size]
	}
	return append(data[:len(data):len(data)], make([]byte, size-len(data))...)
}

// page is a copy of the p-th page, with zeros behind the end of the file.
func page(data []byte, p int) []byte {
	b := make([]byte, pageSize)
	if at := p * pageSize; at < len(data) {
		copy(b, data[at:])
	}
	return b
}

// below returns path relative to root, if it is below it or root itself (".").
func below(root, path string) (string, bool) {
	name, err := filepath.Rel(root, path)
	return name, err == nil && name != ".." && !strings.HasPrefix(name, "../")
}
