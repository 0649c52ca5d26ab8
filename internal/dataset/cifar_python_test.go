package dataset

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The function 'pickled' returns the content of a file in testdata/pickle. A real Python wrote these files.
func pickled(t testing.TB, name string) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(testFile(t, "pickle/"+name+".gz")))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The function 'pythons' returns the names of the files in testdata/pickle that hold the given content. Several
// versions of Python wrote these files, and each version used several protocols.
func pythons(t testing.TB, content string) (names []string) {
	t.Helper()
	files, err := filepath.Glob("testdata/pickle/" + content + "-*.gz")
	if err != nil || len(files) < 9 {
		t.Fatalf("%d files of %s, %v", len(files), content, err)
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".gz"))
	}
	return names
}

// checkPickled compares the examples with the values that the formula in testdata/pickle/make.py gives.
func checkPickled(t *testing.T, d *Dataset, format string, want []int) {
	t.Helper()
	values, labels := rows(t, d)
	if !slices.Equal(labels, want) || !slices.Equal(d.Shape(), []int{3, 32, 32}) || d.Format() != format || !d.Bytes() {
		t.Fatalf("labels %v, shape %v, format %s", labels, d.Shape(), d.Format())
	}
	for i, example := range values {
		for j, v := range example {
			channel, row, column := j/1024, j/32%32, j%32
			if want := float32((101*i+67*channel+8*row+3*column)%256) / 255; v != want {
				t.Fatalf("example %d, channel %d, row %d, column %d: %v, want %v", i, channel, row, column, v, want)
			}
		}
	}
}

// TestPickles opens files that Python 2 and 3 wrote, with NumPy 1 and 2, in the protocols 2 to 5. All files with the
// same content must give the same data.
func TestPickles(t *testing.T) {
	record := func(label byte, i int) []byte {
		b := []byte{label}
		for j := range cifarPixels {
			b = append(b, byte(101*i+67*(j/1024)+8*(j/32%32)+3*(j%32)))
		}
		return b
	}
	binary := write(t, filepath.Join(t.TempDir(), "test_batch.bin"), slices.Concat(record(3, 0), record(8, 1), record(0, 2)))
	same, err := Open(context.Background(), binary, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer same.Close()
	for content, c := range map[string]struct {
		format string
		column string
		labels []int
	}{
		"cifar10":          {"CIFAR-10 pickle", "", []int{3, 8, 0}},
		"arrays":           {"CIFAR-10 pickle", "labels", []int{3, 8, 0}},
		"cifar100":         {"CIFAR-100 pickle", "", []int{49, 99, 0}},
		"cifar100, coarse": {"CIFAR-100 pickle", "coarse_labels", []int{10, 19, 4}},
	} {
		content, _, _ = strings.Cut(content, ",")
		for _, name := range pythons(t, content) {
			t.Run(name, func(t *testing.T) {
				path := write(t, filepath.Join(t.TempDir(), "data_batch_1"), pickled(t, name))
				d, err := Open(context.Background(), path, Options{LabelColumn: c.column})
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				checkPickled(t, d, c.format, c.labels)
				if slices.Equal(c.labels, []int{3, 8, 0}) && d.SHA256() != same.SHA256() {
					t.Errorf("digest %s, of the binary version %s", d.SHA256(), same.SHA256())
				}
				if !strings.Contains(d.Note(), "data_batch_1, ") || !strings.Contains(d.Note(), "labels, bytes scaled to [0,1]") {
					t.Errorf("note %q", d.Note())
				}
			})
		}
	}
}

// TestPickleFolders checks that Open finds the test batch in the folders of the published archives, and in the parents
// of these folders.
func TestPickleFolders(t *testing.T) {
	ten, hundred, binary := pickled(t, "cifar10-c-python2-numpy1-protocol2"), pickled(t, "cifar100-c-python2-numpy1-protocol2"), make([]byte, cifarPixels+1)
	for name, c := range map[string]struct {
		files map[string][]byte
		open  string
		want  string // the format, or part of the error
	}{
		"cifar-10":             {map[string][]byte{"d/data_batch_1": hundred, "d/test_batch": ten, "d/readme.html": nil}, "d", "CIFAR-10 pickle"},
		"cifar-10 from above":  {map[string][]byte{"d/cifar-10-batches-py/test_batch": ten}, "d", "CIFAR-10 pickle"},
		"cifar-100":            {map[string][]byte{"d/train": ten, "d/test": hundred}, "d", "CIFAR-100 pickle"},
		"cifar-100 from above": {map[string][]byte{"d/cifar-100-python/test": hundred}, "d", "CIFAR-100 pickle"},
		"binary as well":       {map[string][]byte{"d/test_batch.bin": binary, "d/test_batch": ten}, "d", "CIFAR-10 binary"},
		"training only":        {map[string][]byte{"d/data_batch_1": ten}, "d", "d: has CIFAR-10 training batches but no test_batch; name the batch to read"},
		"a training batch":     {map[string][]byte{"d/data_batch_1": ten}, "d/data_batch_1", "CIFAR-10 pickle"},
		"another test":         {map[string][]byte{"d/test": []byte("text")}, "d", "no data in this folder"},
		"names":                {map[string][]byte{"d/batches.meta": pickled(t, "meta10-python2-numpy1-protocol2")}, "d/batches.meta", "d/batches.meta: holds the names of CIFAR's classes and no images; name a batch"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, data := range c.files {
				write(t, filepath.Join(dir, file), data)
			}
			d, err := Open(context.Background(), filepath.Join(dir, c.open), Options{})
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %s", err, c.want)
				}
				return
			}
			defer d.Close()
			if d.Format() != c.want {
				t.Errorf("format %s, want %s", d.Format(), c.want)
			}
		})
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "test_batch"), ten)
	for _, open := range []string{dir, filepath.Join(dir, "test_batch")} {
		if _, err := Open(context.Background(), open, Options{Labels: "y.npy"}); err == nil || !strings.Contains(err.Error(), "test_batch: holds its own labels, so y.npy has no use") {
			t.Errorf("%s: %v", open, err)
		}
	}
}

// TestPickledNames checks that Options.ClassNames changes the order of the classes only if the folder of the batch has
// a file of names. It also checks the errors for bad files of names.
func TestPickledNames(t *testing.T) {
	const other = "truck\nship\nhorse\nfrog\ndog\ndeer\ncat\nbird\nautomobile\nairplane\n" // CIFAR's names, reversed
	for _, name := range pythons(t, "meta10") {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			batch := write(t, filepath.Join(dir, "test_batch"), pickled(t, "cifar10-c-python2-numpy1-protocol2"))
			names := write(t, filepath.Join(dir, "names.txt"), []byte(other))
			labels := func(classNames string) ([]int, string) {
				d, err := Open(context.Background(), batch, Options{ClassNames: classNames})
				if err != nil {
					return nil, err.Error()
				}
				defer d.Close()
				_, labels := rows(t, d)
				return labels, d.Note()
			}
			if got, note := labels(names); !slices.Equal(got, []int{3, 8, 0}) {
				t.Errorf("class names, but no names beside the batch: %v, %s", got, note)
			}
			meta := write(t, filepath.Join(dir, "batches.meta"), pickled(t, name))
			if got, note := labels(names); !slices.Equal(got, []int{6, 1, 9}) || !strings.Contains(note, "classes in the order of names.txt") {
				t.Errorf("backwards: %v, %s", got, note)
			}
			if got, note := labels(meta); !slices.Equal(got, []int{3, 8, 0}) || !strings.Contains(note, "classes in the order of batches.meta") {
				t.Errorf("by themselves: %v, %s", got, note)
			}
			write(t, names, []byte("cat\ndog\n"))
			if got, note := labels(names); got != nil || !strings.Contains(note, "label \"ship\" is not among the 2 class names") {
				t.Errorf("%v, %s", got, note)
			}
			write(t, meta, append(pickled(t, name), '.'))
			if got, note := labels(names); got != nil || !strings.HasPrefix(note, meta+": byte ") {
				t.Errorf("%v, %s", got, note)
			}
			write(t, meta, []byte("\x80\x02}U\x0blabel_names](U\x03catT\x01\x01\x00\x00"+strings.Repeat("x", 257)+"es."))
			if got, note := labels(names); got != nil || !strings.HasPrefix(note, meta+": label_names: name 1 is not a text of at most 256 bytes") {
				t.Errorf("%v, %s", got, note)
			}
			write(t, meta, []byte("\x80\x02}."))
			if got, note := labels(names); got != nil || !strings.HasPrefix(note, meta+": has no list of the names") {
				t.Errorf("%v, %s", got, note)
			}
		})
	}
	dir := t.TempDir()
	batch := write(t, filepath.Join(dir, "test"), pickled(t, "cifar100-c-python2-numpy1-protocol2"))
	write(t, filepath.Join(dir, "meta"), pickled(t, "meta100-c-python2-numpy1-protocol2"))
	for column, c := range map[string]struct {
		kind   string
		labels []int
	}{"fine_labels": {"fine", []int{50, 0, 99}}, "coarse_labels": {"coarse", []int{9, 0, 15}}} {
		var list strings.Builder
		for k := range 100 {
			fmt.Fprintf(&list, "%s %d\n", c.kind, 99-k) // the code below uses only the last 20 of the coarse names
		}
		text := list.String()
		if c.kind == "coarse" {
			text = text[strings.Index(text, "coarse 19\n"):]
		}
		d, err := Open(context.Background(), batch, Options{LabelColumn: column, ClassNames: write(t, filepath.Join(dir, "names.txt"), []byte(text))})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if _, labels := rows(t, d); !slices.Equal(labels, c.labels) {
			t.Errorf("%s: %v, want %v", column, labels, c.labels)
		}
	}
	names, err := ReadClassNames(filepath.Join(dir, "meta"))
	if err != nil || len(names) != 100 || names[99] != "fine 99" {
		t.Errorf("%q, %v", names, err)
	}
}

// The function 'replaced' replaces a part of the data. This part must occur exactly once.
func replaced(t testing.TB, data []byte, old, new string) []byte {
	t.Helper()
	if n := bytes.Count(data, []byte(old)); n != 1 {
		t.Fatalf("%q occurs %d times", old, n)
	}
	return bytes.Replace(data, []byte(old), []byte(new), 1)
}

// TestPickleErrors checks that batches which differ from CIFAR's are refused.
func TestPickleErrors(t *testing.T) {
	c := pickled(t, "cifar10-c-python2-numpy1-protocol2")
	three := pickled(t, "cifar10-python3-numpy2-protocol2") // holds the entry "data" as text in UTF-8
	hundred := pickled(t, "cifar100-c-python2-numpy1-protocol2")
	arrays := pickled(t, "arrays-python2-numpy1-protocol2")
	const other = "test_batch: not read by rscert: a pickle, which is a program"
	for name, e := range map[string]struct {
		data   []byte
		column string
		want   string
	}{
		"a model":             {[]byte("\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x0bsklearn.svm\x94\x8c\x03SVC\x94\x93\x94)\x81\x94."), "", other + "; load it in Python and numpy.savez"},
		"torch":               {[]byte("\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."), "", other},
		"a list":              {[]byte("\x80\x02]."), "", "it holds no dictionary"},
		"a command":           {[]byte("\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R."), "", "it names os.system"},
		"no data":             {replaced(t, c, "U\x04data", "U\x04date"), "", "it has no array called data"},
		"no labels":           {replaced(t, c, "U\x06labels", "U\x06labelz"), "", "test_batch: has data but no labels, fine_labels or coarse_labels"},
		"no such labels":      {c, "fine_labels", "label-column fine_labels: no such labels; "},
		"no place for labels": {c, "last", "label-column last: no such labels; "},
		"label twice":         {replaced(t, c, "U\x0bbatch_label", "U\x06labels"), "", `key "labels" appears twice`},
		"too large a label":   {replaced(t, c, "K\x03K\x08K\x00e", "K\x03K\x0aK\x00e"), "", "label 10, but labels of CIFAR-10 are 0 to 9"},
		"too large, fine":     {replaced(t, hundred, "K\x31K\x63K\x00e", "K\x31K\x64K\x00e"), "", "label 100, but fine_labels of CIFAR-100 are 0 to 99"},
		"too large, coarse":   {replaced(t, hundred, "K\x0aK\x13K\x04e", "K\x0aK\x14K\x04e"), "coarse_labels", "label 20, but coarse_labels of CIFAR-100 are 0 to 19"},
		"negative":            {replaced(t, c, "K\x03K\x08K\x00e", "K\x03J\xff\xff\xff\xffK\x00e"), "", "label \"-1\" is negative"},
		"too few labels":      {replaced(t, c, "K\x03K\x08K\x00e", "K\x03K\x08e"), "", "2 labels for the 3 images of its data"},
		"too many labels":     {replaced(t, c, "K\x03K\x08K\x00e", "K\x03K\x08K\x00K\x00e"), "", "4 labels for the 3 images of its data"},
		"not labels":          {replaced(t, c, "K\x03K\x08K\x00e", "K\x03K\x08Ne"), "", "labels: label 2 is not a whole number"},
		"labels of nothing":   {replaced(t, c, "(K\x03K\x08K\x00e", "0"), "", "instruction 0x30"},
		"no list":             {replaced(t, c, "]q\x09(K\x03K\x08K\x00e", "K\x07"), "", "labels is neither a list nor an array"},
		"other shape":         {replaced(t, c, "K\x03M\x00\x0c\x86", "M\x00\x0cK\x03\x86"), "", "data of NumPy type u1 and shape [3072 3]; CIFAR's are u1 and [N,3072]"},
		"other dimensions":    {replaced(t, c, "K\x03M\x00\x0c\x86", "K\x03M\x00\x04K\x03\x87"), "", "shape [3 1024 3]"},
		"dimensions of 1":     {replaced(t, c, "K\x03M\x00\x0c\x86", "K\x03M\x00\x0cK\x01\x87"), "", "shape [3 3072 1]"},
		"an array of nothing": {[]byte("\x80\x02}U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nNN\x87Rs."), "", "shape []; CIFAR's are"},
		"other type":          {replaced(t, c, "U\x02u1", "U\x02i1"), "", "data of NumPy type i1"},
		"objects":             {replaced(t, c, "U\x02u1", "U\x02O8"), "", `an array of type "O8", which is not read`},
		"more rows":           {replaced(t, c, "K\x03M\x00\x0c\x86", "K\x04M\x00\x0c\x86"), "", "data has 9216 bytes, which is not an array of shape [4 3072]"},
		"fewer rows":          {replaced(t, c, "K\x03M\x00\x0c\x86", "K\x02M\x00\x0c\x86"), "", "data has 9216 bytes, which is not an array of shape [2 3072]"},
		"too many rows":       {replaced(t, c, "K\x03M\x00\x0c\x86", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fM\x00\x0c\x86"), "", "which is not an array of shape"},
		"negative rows":       {replaced(t, c, "K\x03M\x00\x0c\x86", "J\xff\xff\xff\xffM\x00\x0c\x86"), "", "a shape that NumPy does not have"},
		"no rows":             {replaced(t, c, "K\x03M\x00\x0c\x86", "K\x00M\x00\x0c\x86"), "", "data has 9216 bytes, which is not an array of shape [0 3072]"},
		"text as data":        {replaced(t, replaced(t, three, "h\x07X", "X"), "q\x15h\x09\x86q\x16Rq\x17", "q\x15"), "", "an array that is not as NumPy writes one of numbers"},
		"more text":           {replaced(t, three, "K\x03M\x00\x0c\x86", "K\x02M\x00\x0c\x86"), "", "more data than its header promises"},
		"less text":           {replaced(t, three, "K\x03M\x00\x0c\x86", "K\x04M\x00\x0c\x86"), "", "ends before the data of an array of shape [4 3072]"},
		"wide text":           {replaced(t, three, "\x00\x00\x00\x03\x06\x09", "\x00\x00\x00\xc4\x80\x09"), "", "a text that stands for bytes has 0xc4 where no character"},
		"no text":             {replaced(t, three, "\x00\x00\x00\x03\x06\x09", "\x00\x00\x00\x03\x06\xff"), "", "has 0xff where no character"},
		"half a character":    {replaced(t, three, "\x00\x00\x00\x03\x06\x09", "\x00\x00\x00\xc2\x06\x09"), "", "has 0xc2 where no character"},
		"array of labels":     {replaced(t, arrays, "\x03\x00\x00\x00\x00\x00\x00\x00\x08", "\x03\x00\x00\x00\x00\x00\x00\x00\x0a"), "", "label 10, but labels of CIFAR-10 are 0 to 9"},
		"another encoding":    {replaced(t, three, "latin1", "latin2"), "", "it calls something in a way that NumPy does not"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "test_batch"), e.data)
			d, err := Open(context.Background(), path, Options{LabelColumn: e.column})
			if err == nil {
				d.Close()
				t.Fatal("is read")
			}
			text := strings.ReplaceAll(err.Error(), path, "test_batch")
			if !strings.HasPrefix(text, "test_batch: ") && !strings.HasPrefix(text, "label-column") || !strings.Contains(text, e.want) || e.want == "" {
				t.Errorf("%s, want %s", text, e.want)
			}
		})
	}
	// A truncated batch is refused.
	for n := 2; n < len(c); n += 1 + n/50 {
		path := write(t, filepath.Join(t.TempDir(), "test_batch"), c[:n])
		if d, err := Open(context.Background(), path, Options{}); err == nil {
			d.Close()
			t.Errorf("%d bytes of %d are read", n, len(c))
		} else if !strings.HasPrefix(err.Error(), path+": byte ") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
