package pickle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func read(t testing.TB, data string) (any, error) {
	t.Helper()
	return Read(context.Background(), strings.NewReader(data), int64(len(data)))
}

// TestRead reads pickles of a few instructions. The expected results follow from the listings of Python's
// pickletools.dis.
func TestRead(t *testing.T) {
	for program, want := range map[string]any{
		"N.":                    None{},
		"\x88.":                 Int{1, 2},
		"\x89.":                 Int{0, 2},
		"K\xff.":                Int{255, 2},
		"M\x01\x02.":            Int{0x201, 2},
		"J\xfe\xff\xff\xff.":    Int{-2, 2},
		"J\x01\x02\x03\x04.":    Int{0x4030201, 2},
		"\x8a\x00.":             Int{0, 2},
		"\x8a\x01\xfe.":         Int{-2, 2},
		"\x8a\x02\x00\x80.":     Int{-32768, 2},
		"\x8a\x03\x00\x80\x00.": Int{32768, 2},
		"\x8a\x08\x01\x00\x00\x00\x00\x00\x00\x80.": Int{-1<<63 + 1, 2},
		"U\x02ab.":             Text{At: 4, Len: 2},
		"T\x02\x00\x00\x00ab.": Text{At: 7, Len: 2},
		"C\x02ab.":             Text{At: 4, Len: 2},
		"B\x02\x00\x00\x00ab.": Text{At: 7, Len: 2},
		"\x8e\x02\x00\x00\x00\x00\x00\x00\x00ab.": Text{At: 11, Len: 2},
		"\x96\x02\x00\x00\x00\x00\x00\x00\x00ab.": Text{At: 11, Len: 2},
		"\x8c\x02ab.":                             Text{At: 4, Len: 2, UTF8: true},
		"X\x02\x00\x00\x00ab.":                    Text{At: 7, Len: 2, UTF8: true},
		"\x8d\x02\x00\x00\x00\x00\x00\x00\x00ab.": Text{At: 11, Len: 2, UTF8: true},
		"c_codecs\nencode\nX\x02\x00\x00\x00abX\x06\x00\x00\x00latin1\x86R.": Text{At: 23, Len: 2, UTF8: true, Latin1: true},
		").":                                     Tuple{},
		"K\x01K\x02\x85\x86.":                    Tuple{Int{1, 2}, Tuple{Int{2, 4}}},
		"K\x01K\x02K\x03\x87.":                   Tuple{Int{1, 2}, Int{2, 4}, Int{3, 6}},
		"(K\x01K\x02t.":                          Tuple{Int{1, 3}, Int{2, 5}},
		"(t.":                                    Tuple(nil),
		"](K\x01K\x02eNa.":                       &List{[]any{Int{1, 4}, Int{2, 6}, None{}}},
		"]((K\x01tK\x02e.":                       &List{[]any{Tuple{Int{1, 5}}, Int{2, 8}}},
		"}(U\x01aK\x01U\x01bNuU\x00]s.":          &Dict{map[string]any{"a": Int{1, 7}, "b": None{}, "": &List{}}},
		"\x95\x02\x00\x00\x00\x00\x00\x00\x00N.": None{},
	} {
		v, err := read(t, "\x80\x02"+program)
		if err != nil || !reflect.DeepEqual(v, want) {
			t.Errorf("%q: %#v, %v, want %#v", program, v, err, want)
		}
	}
	v, err := read(t, "\x80\x02]q\x07(h\x07K\x05e.")
	if list, ok := v.(*List); err != nil || !ok || len(list.Items) != 2 || list.Items[0] != any(list) {
		t.Errorf("%#v, %v", v, err)
	}
	v, err = read(t, "\x80\x04K\x09\x94K\x08\x94h\x00\x87.")
	if want := (Tuple{Int{9, 2}, Int{8, 5}, Int{9, 2}}); err != nil || !reflect.DeepEqual(v, want) {
		t.Errorf("%#v, %v", v, err)
	}
}

const (
	reconstructed = "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
	bytesType     = "cnumpy\ndtype\nU\x02u1\x89\x88\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
)

// TestArray reads pickles of arrays as NumPy writes them. It then changes one part of such a pickle, and checks that
// Read refuses the result.
func TestArray(t *testing.T) {
	whole := reconstructed + "(K\x01K\x02K\x03\x86" + bytesType + "\x89U\x06abcdeftb."
	v, err := read(t, "\x80\x02"+whole)
	a, ok := v.(*Array)
	if err != nil || !ok {
		t.Fatalf("%v, %v", v, err)
	}
	if !reflect.DeepEqual(a.Shape, []int{2, 3}) || a.Kind != 'u' || a.Width != 1 || a.Big || a.Fortran || a.Data.Len != 6 || a.Data.At != int64(2+strings.Index(whole, "abcdef")) {
		t.Errorf("%+v", a)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"another state":        {"(K\x01K\x02", "(K\x02K\x02", "is not as NumPy writes it"},
		"a short state":        {"\x89U\x06abcdeft", "\x89t", "is not as NumPy writes it"},
		"a state twice":        {"tb.", "tbNb.", "is not as NumPy writes it"},
		"the state twice":      {"tb.", "tb(K\x01K\x02K\x03\x86" + bytesType + "\x89U\x06abcdeftb.", "is not as NumPy writes it"},
		"a type's short state": {"K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb", "K\x03U\x01|NNNNNtb", "is not as NumPy writes it"},
		"a negative dimension": {"K\x02K\x03\x86", "J\xff\xff\xff\xffK\x03\x86", "a shape that NumPy does not have"},
		"65 dimensions":        {"K\x02K\x03\x86", "(" + strings.Repeat("K\x01", 65) + "t", "an array that is not"},
		"no shape":             {"K\x02K\x03\x86", "N", "an array that is not as NumPy writes one of numbers"},
		"a shape of texts":     {"K\x02K\x03\x86", "U\x01ab\x85", "damaged"},
		"no type":              {bytesType, "N", "an array that is not"},
		"no bytes":             {"U\x06abcdef", "N", "an array that is not"},
		"text for bytes":       {"U\x06abcdef", "\x8c\x06abcdef", "an array that is not"},
		"a list of objects":    {"U\x06abcdef", "]", "an array that is not"},
		"a type's state twice": {bytesType, bytesType + "(K\x03U\x01|NNNNNNtb", "is not as NumPy writes it"},
		"no order":             {"U\x01|", "U\x00", "is not as NumPy writes it"},
		"objects":              {"U\x02u1", "U\x02O8", `an array of type "O8"`},
		"structures":           {"U\x02u1", "U\x02V8", `an array of type "V8"`},
		"another class":        {"cnumpy\nndarray\n", "cnumpy\nmatrix\n", "it names numpy.matrix"},
		"a type for the class": {"cnumpy\nndarray\n", "cnumpy\ndtype\n", "in a way that NumPy does not"},
		"no class":             {"cnumpy\nndarray\n", "N", "in a way that NumPy does not"},
		"called twice":         {"\x87R(", "\x87RNR(", "in a way that NumPy does not"},
		"no arguments":         {"K\x00\x85U\x01b\x87R", "N\x85NR", "in a way that NumPy does not"},
	} {
		program := strings.Replace(whole, c.old, c.new, 1)
		if program == whole {
			t.Fatal(name)
		}
		if v, err := read(t, "\x80\x02"+program); err == nil || !strings.Contains(err.Error(), c.want) {
			if c.want != "damaged" || err == nil {
				t.Errorf("%s: %v, %v, want %s", name, v, err, c.want)
			}
		}
	}
	for order, fortran := range map[string]bool{"C": false, "F": true} {
		v, err := read(t, "\x80\x05\x8c\x13numpy._core.numeric\x8c\x0b_frombuffer\x93(\x96\x06\x00\x00\x00\x00\x00\x00\x00abcdef"+bytesType+"K\x02K\x03\x86\x8c\x01"+order+"tR.")
		if a, ok := v.(*Array); err != nil || !ok || a.Fortran != fortran || !reflect.DeepEqual(a.Shape, []int{2, 3}) || a.Data.Len != 6 {
			t.Errorf("%+v, %v", v, err)
		}
	}
}

// TestRefusals checks that Read refuses damaged pickles. Read must also refuse pickles with operations that the pickle
// of an image batch does not need. No function in a pickle may run.
func TestRefusals(t *testing.T) {
	const damaged, other = false, true
	for program, c := range map[string]struct {
		other bool
		want  string
	}{
		"":                     {damaged, "byte 2: ends within an instruction: it promises 1 bytes, and 0 follow"},
		"N":                    {damaged, "byte 3: ends within"},
		".":                    {damaged, "byte 2: damaged: it stops with 0 values on the stack and 0 marks"},
		"NN.":                  {damaged, "it stops with 2 values"},
		"N(.":                  {damaged, "it stops with 1 values on the stack and 1 marks"},
		"N..":                  {damaged, "byte 3: 1 bytes after the end of the pickle"},
		"T\xff\xff\xff\x7fab.": {damaged, "byte 2: ends within an instruction: it promises 2147483647 bytes, and 3 follow"},
		"T\xff\xff\xff\xffab.": {damaged, "it promises 4294967295 bytes"},
		"B\xff\xff\xff\xffab.": {damaged, "it promises 4294967295 bytes"},
		"X\xff\xff\xff\x7fab.": {damaged, "it promises 2147483647 bytes"},
		"U\x03ab":              {damaged, "it promises 3 bytes, and 2 follow"},
		"C\x03ab":              {damaged, "it promises 3 bytes, and 2 follow"},
		"\x8c\x03ab":           {damaged, "it promises 3 bytes, and 2 follow"},
		"\x8e\xff\xff\xff\xff\xff\xff\xff\xffab.": {damaged, "it promises 18446744073709551615 bytes"},
		"\x8d\xff\xff\xff\xff\xff\xff\xff\x7fab.": {damaged, "it promises 9223372036854775807 bytes"},
		"\x96\xff\xff\xff\xff\xff\xff\xff\xffab.": {damaged, "it promises 18446744073709551615 bytes"},
		"\x95\xff\xff\xff\xff\xff\xff\xff\xffN.":  {damaged, "a frame of 18446744073709551615 bytes, 2 of 13"},
		"\x8a\x09123456789.":                      {other, "an integer of 9 bytes"},
		"\x8a\xff":                                {other, "an integer of 255 bytes"},
		"\x8b\xff\xff\xff\x7f":                    {other, "instruction 0x8b"}, // LONG4
		"h\x00.":                                  {damaged, "nothing is remembered by the number 0"},
		"Nq\x00j\xff\xff\xff\xff.":                {damaged, "nothing is remembered by the number 4294967295"},
		"q\x00.":                                  {damaged, "the stack has fewer than 1 values"},
		"r\xff\xff\xff\xff.":                      {damaged, "the stack has fewer than 1 values"},
		"\x94.":                                   {damaged, "the stack has fewer than 1 values"},
		"N\x86.":                                  {damaged, "the stack has fewer than 2 values"},
		"N(\x85.":                                 {damaged, "the stack has fewer than 1 values"},
		"N(Nt\x87.":                               {damaged, "the stack has fewer than 3 values"},
		"t.":                                      {damaged, "no mark on the stack"},
		"]Nt.":                                    {damaged, "no mark on the stack"},
		"]e.":                                     {damaged, "no mark on the stack"},
		"}u.":                                     {damaged, "no mark on the stack"},
		"](a.":                                    {damaged, "the stack has fewer than 1 values"},
		"(Ne.":                                    {damaged, "the stack has fewer than 1 values"},
		"NNa.":                                    {other, "it appends to something that is no list"},
		"}(Ne.":                                   {other, "it appends to something that is no list"},
		"]NNs.":                                   {other, "it sets items of something that is no dictionary"},
		"}(U\x01au.":                              {other, "it sets items of something that is no dictionary"},
		"}K\x01Ns.":                               {other, "a key or name that is not a text of at most 64 bytes"},
		"}U\x41" + strings.Repeat("k", 65) + "Ns.":    {other, "a key or name that is not a text"},
		"}(U\x01aNU\x01aNu.":                          {damaged, `key "a" appears twice`},
		"}U\x01aNs\x8c\x01aNs.":                       {damaged, `key "a" appears twice`},
		"cos\nsystem\n.":                              {other, "byte 2: it names os.system"},
		"c__builtin__\neval\n.":                       {other, "it names __builtin__.eval"},
		"c_codecs\ndecode\n.":                         {other, "it names _codecs.decode"},
		"cnumpy.core.multiarray\nscalar\n.":           {other, "it names numpy.core.multiarray.scalar"},
		"cnumpy\n" + strings.Repeat("x", 100) + "\n.": {damaged, "no end of line after"},
		"cnumpy":                        {damaged, "no end of line after"},
		"\x8c\x02os\x8c\x06system\x93.": {other, "it names os.system"},
		"NN\x93.":                       {other, "a key or name"},
		"NNR.":                          {other, "it calls something in a way that NumPy does not"},
		"c_codecs\nencode\n)R.":         {other, "in a way that NumPy does not"},
		"c_codecs\nencode\nU\x01aU\x06latin1\x86R.":            {other, "in a way that NumPy does not"},
		"c_codecs\nencode\nX\x01\x00\x00\x00aU\x05utf-8\x86R.": {other, "in a way that NumPy does not"},
		"NNb.":       {other, "the state of something is not as NumPy writes it"},
		"N0.":        {other, "instruction 0x30"},
		"\x80\x02N.": {other, "protocol 2"}, // PROTO in the middle of a pickle
		"i.":         {other, "instruction 0x69"},
		"N)\x81.":    {other, "instruction 0x81"}, // NEWOBJ
		"Pabc\n.":    {other, "instruction 0x50"}, // PERSID
		"\x82\x01.":  {other, "instruction 0x82"}, // EXT1
		"\x97.":      {other, "instruction 0x97"}, // NEXT_BUFFER
	} {
		v, err := read(t, "\x80\x02"+program)
		if err == nil || errors.Is(err, ErrOther) != c.other || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "byte ") {
			t.Errorf("%q: %v, %v (other: %v), want %s", program, v, err, errors.Is(err, ErrOther), c.want)
		}
	}
	for _, data := range []string{"\x80\x01N.", "\x80\x06N.", "N.", "}q\x00.", "(dp0\n."} {
		if v, err := read(t, data); !errors.Is(err, ErrOther) {
			t.Errorf("%q: %v, %v", data, v, err)
		}
	}
	if _, err := read(t, ""); err == nil || err.Error() != "byte 0: ends within an instruction: it promises 1 bytes, and 0 follow" {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Read(ctx, strings.NewReader("\x80\x02N."), 4); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The type 'broken' is a file that cannot be read after a certain byte.
type broken int

func (b broken) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > int64(b) {
		return 0, io.ErrClosedPipe
	}
	return copy(p, "\x80\x02U\x02ab."[at:]), nil
}

func TestUnreadable(t *testing.T) {
	for n := range 7 {
		if _, err := Read(context.Background(), broken(n), 7); (err == nil) != (n == 7) || err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// TestInstructionsAreLimited checks that Read refuses a pickle that has too many instructions. Read must refuse it
// before the instructions take much memory.
func TestInstructionsAreLimited(t *testing.T) {
	const (
		size = 8 << 20
		most = freeSteps + size/bytesAStep
	)
	for name, program := range map[string]string{
		"values": "K\x01", "lists": "]", "dictionaries": "}", "marks": "(", "tuples": "N\x85", "memo": "N\x94", "types": "(K\x03U\x01|NNNNNNt",
		"appends": "K\x01a", "keys": "", "frames": "\x95\x00\x00\x00\x00\x00\x00\x00\x00", "names": "cnumpy\ndtype\n",
		"arrays": "j\x00\x00\x00\x00j\x01\x00\x00\x00R", "texts": "h\x03h\x02h\x04\x86R",
	} {
		const head = "\x80\x02cnumpy.core.multiarray\n_reconstruct\nr\x00\x00\x00\x00cnumpy\nndarray\nNN\x87q\x01c_codecs\nencode\nq\x03X\x02\x00\x00\x00abq\x02U\x06latin1q\x04]"
		var data bytes.Buffer
		if name == "keys" {
			data.WriteString("\x80\x02}")
			for k := range size / 10 {
				fmt.Fprintf(&data, "U\x06%06xNs", k)
			}
		} else {
			data.WriteString(head)
			data.Write(bytes.Repeat([]byte(program), size/len(program)))
		}
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			_, err := Read(context.Background(), bytes.NewReader(data.Bytes()), int64(data.Len()))
			runtime.ReadMemStats(&after)
			if !errors.Is(err, ErrOther) || !strings.Contains(err.Error(), " instructions before this byte") {
				t.Error(err)
			}
			// TotalAlloc counts all allocations, including the allocations for the bytes that were read.
			if total := after.TotalAlloc - before.TotalAlloc; total > most*stepMemory {
				t.Errorf("%d MiB, %d bytes an instruction", total>>20, total/most)
			}
		})
	}
}

// FuzzRead runs arbitrary programs. Each program must end with a value, or with an error that states the offset of an
// instruction. Every Text (offset and length) in the value must lie inside the file. The tests of internal/dataset read
// real batches.
func FuzzRead(f *testing.F) {
	for _, program := range []string{
		"]q\x07(h\x07K\x05e.", "}q\x00(U\x04data" + reconstructed + "(K\x01K\x02K\x03\x86" + bytesType + "\x89U\x06abcdeftbU\x06labels](K\x03K\x08eu.",
		"\x95\x02\x00\x00\x00\x00\x00\x00\x00\x8c\x13numpy._core.numeric\x8c\x0b_frombuffer\x93(\x96\x06\x00\x00\x00\x00\x00\x00\x00abcdef" + bytesType + "K\x02K\x03\x86\x94\x8c\x01FtR.",
		"c_codecs\nencode\nX\x02\x00\x00\x00abr\x00\x01\x00\x00X\x06\x00\x00\x00latin1\x86R.", "(M\x01\x02J\x01\x02\x03\x04\x8a\x02\x01\x02B\x01\x00\x00\x00at.",
	} {
		f.Add([]byte("\x80\x02" + program))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Read(context.Background(), bytes.NewReader(data), int64(len(data)))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "byte ") || v != nil {
				t.Errorf("%v, %v", v, err)
			}
			return
		}
		check(t, v, int64(len(data)), 3)
	})
}

// The function 'check' checks a value and the values inside it, a few levels deep. The number of levels is limited,
// because a value may contain itself.
func check(t *testing.T, v any, size int64, levels int) {
	var parts []any
	switch v := v.(type) {
	case nil:
		t.Error("no value")
	case Text:
		if v.At < 0 || v.Len < 0 || v.Len > size-v.At {
			t.Errorf("%+v of %d", v, size)
		}
	case *Array:
		if n, ok := v.Len(); v.filled && ok && n < 0 {
			t.Errorf("%+v", v)
		}
		parts = []any{v.Data}
	case Tuple:
		parts = v
	case *List:
		parts = v.Items
	case *Dict:
		for _, value := range v.values {
			parts = append(parts, value)
		}
	}
	for _, part := range parts {
		if levels > 0 {
			check(t, part, size, levels-1)
		}
	}
}
