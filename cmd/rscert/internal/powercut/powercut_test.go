package powercut

import (
	"bytes"
	"maps"
	"slices"
	"testing"
)

// TestCut cuts a small recording at several events. It compares the result with files that were worked out by hand from
// the promises of fsync(2).
func TestCut(t *testing.T) {
	page := func(c byte) []byte { return bytes.Repeat([]byte{c}, pageSize) }
	r := Recording{
		before: Files{"old": []byte("was here")}, ids: map[string]int{"old": 1},
		Events: []Event{
			{Kind: Mkdir, Path: "d", file: folder},                          // 0
			{Kind: SyncFolder, Path: ".", Begin: 1},                         // 1
			{Kind: Create, Path: "d/part", file: 2},                         // 2
			{Kind: Write, Path: "d/part", file: 2, data: page('a')},         // 3
			{Kind: Write, file: 2, offset: pageSize, data: page('b')},       // 4
			{Kind: Sync, Path: "d/part", file: 2, Begin: 4},                 // 5: the sync began before event 4
			{Kind: Write, Path: "d/part", file: 2, data: []byte("xyz")},     // 6
			{Kind: Rename, Path: "d/part", To: "d/whole", file: 2},          // 7
			{Kind: SyncFolder, Path: "d", Begin: 8},                         // 8
			{Kind: Truncate, Path: "old", file: 1, size: 3},                 // 9
			{Kind: Write, Path: "old", file: 1, offset: 3, data: []byte{7}}, // 10
			{Kind: Remove, Path: "old", file: 1},                            // 11
		},
	}
	a, b, zeros := page('a'), page('b'), page(0)
	x := append([]byte("xyz"), a[3:]...)
	was := []byte("was here")
	old, now := Choice(Oldest), Choice(Newest)
	second := Choice(func(n int) int { return min(1, n-1) })
	for _, tt := range []struct {
		name   string
		events int
		disk   Disk
		want   Files
	}{
		{"nothing", 0, Disk{now, now, now}, Files{"old": was}},
		{"folder undone", 1, Disk{now, now, old}, Files{"old": was}},
		{"folder synced", 2, Disk{old, old, old}, Files{"old": was, "d": nil}},
		{"file undone", 4, Disk{now, now, old}, Files{"old": was, "d": nil}},
		{"name without data", 4, Disk{old, old, now}, Files{"old": was, "d": nil, "d/part": {}}},
		{"length without data", 4, Disk{old, now, now}, Files{"old": was, "d": nil, "d/part": zeros}},
		{"data without length", 4, Disk{now, old, now}, Files{"old": was, "d": nil, "d/part": {}}},
		{"synced up to its begin", 6, Disk{old, old, now}, Files{"old": was, "d": nil, "d/part": a}},
		{"and zeros behind", 6, Disk{old, now, now}, Files{"old": was, "d": nil, "d/part": slices.Concat(a, zeros)}},
		{"all of it", 6, Disk{now, now, now}, Files{"old": was, "d": nil, "d/part": slices.Concat(a, b)}},
		{"a page newer than the next", 7, Disk{now, old, now}, Files{"old": was, "d": nil, "d/part": x}},
		{"renamed, the last write undone", 9, Disk{old, now, old}, Files{"old": was, "d": nil, "d/whole": slices.Concat(a, zeros)}},
		{"cut, and the page as it was", 10, Disk{old, now, now}, Files{"old": []byte("was"), "d": nil, "d/whole": slices.Concat(a, zeros)}},
		{"a state in between", 11, Disk{second, now, now}, Files{"old": []byte("was\x00"), "d": nil, "d/whole": slices.Concat(x, b)}},
		{"written", 11, Disk{now, now, now}, Files{"old": []byte("was\x07"), "d": nil, "d/whole": slices.Concat(x, b)}},
		{"removed", 12, Disk{now, now, now}, Files{"d": nil, "d/whole": slices.Concat(x, b)}},
		{"removal undone", 12, Disk{now, now, old}, Files{"old": []byte("was\x07"), "d": nil, "d/whole": slices.Concat(x, b)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := r.Cut(tt.events, tt.disk)
			if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(tt.want))) {
				t.Fatalf("left %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(tt.want)))
			}
			for name, want := range tt.want {
				if !bytes.Equal(got[name], want) || (got[name] == nil) != (want == nil) {
					t.Errorf("%s has %d bytes %.10q…, want %d bytes %.10q…", name, len(got[name]), got[name], len(want), want)
				}
			}
		})
	}
}

// TestFiles writes files and reads them back.
func TestFiles(t *testing.T) {
	root := t.TempDir()
	want := Files{"a": []byte("1"), "d": nil, "d/empty": {}, "d/e": nil, "d/e/b": []byte("2")}
	if err := want.WriteTo(root); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFiles(root)
	if err != nil || !maps.EqualFunc(got, want, bytes.Equal) || (got["d/empty"] == nil) != (want["d/empty"] == nil) {
		t.Errorf("read %v, error %v", got, err)
	}
}
