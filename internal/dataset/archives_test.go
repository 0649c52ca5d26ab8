package dataset

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	meta "github.com/parquet-go/parquet-go/format"
)

// tarFile makes an archive. The argument 'members' lists the name and the content of each member in turn.
func tarFile(t testing.TB, members ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(members); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: members[i], Size: int64(len(members[i+1])), Mode: 0o666}); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(members[i+1]))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestTar checks that Open reads WebDataset archives.
func TestTar(t *testing.T) {
	a, b := string(testFile(t, "images/bee/b.png")), string(testFile(t, "images/ant/b.png"))
	for name, c := range map[string]struct {
		members []string
		names   string
		labels  []int
		want    string
	}{
		"cls":          {members: []string{"0.png", a, "0.cls", "3", "1.cls", "1\n", "1.png", b}, labels: []int{3, 1}},
		"json":         {members: []string{"x/0.png", a, "x/0.json", `{"label": 3, "w": 2}`, "y/0.png", b, "y/0.json", `{"class": "1"}`}, labels: []int{3, 1}},
		"names":        {members: []string{"0.png", a, "0.cls", "dog", "1.png", b, "1.cls", "cat"}, names: "cat\ndog\n", labels: []int{1, 0}},
		"others":       {members: []string{"0.png", a, "0.cls", "3", "0.txt", "a caption", "readme.md", "hello"}, labels: []int{3}},
		"no names":     {members: []string{"0.png", a, "0.cls", "dog"}, want: `d.tar: 0.png: label "dog" is not a number; if labels are names, class-names`},
		"no label":     {members: []string{"0.png", a, "0.txt", "dog"}, want: "an image without a label"},
		"no image":     {members: []string{"0.cls", "1"}, want: "a label without an image"},
		"two labels":   {members: []string{"0.png", a, "0.cls", "1", "0.json", `{"label": 2}`}, want: `label "2", but another member says "1"`},
		"two images":   {members: []string{"0.png", a, "0.jpg", a, "0.cls", "1"}, want: "a second image of this example"},
		"other format": {members: []string{"0.gif", a, "0.cls", "1"}, want: "0.gif: only PNG, JPEG"},
		"damaged":      {members: []string{"0.png", a[:20], "0.cls", "1"}, want: "d.tar: 0.png: unexpected EOF"},
		"empty":        {members: nil, want: "no examples"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var opt Options
			if c.names != "" {
				opt.ClassNames = write(t, filepath.Join(dir, "names"), []byte(c.names))
			}
			d := openWanted(t, write(t, filepath.Join(dir, "d.tar"), tarFile(t, c.members...)), opt, c.want)
			if d == nil {
				return
			}
			values, labels := rows(t, d)
			folder, _ := rows(t, mustOpen(t, "testdata/images"))
			if !slices.Equal(labels, c.labels) || !slices.Equal(values[0], folder[3]) {
				t.Errorf("labels %v, want %v; values %v, want %v", labels, c.labels, values[0], folder[3])
			}
		})
	}
}

// hfRow is a row with an image, in the form that Hugging Face's datasets use.
type hfRow struct {
	Image struct {
		Bytes []byte  `parquet:"bytes,optional"`
		Path  *string `parquet:"path,optional"`
	} `parquet:"image"`
	Label int64 `parquet:"label"`
}

func hfRows(images ...[]byte) (rows []hfRow) {
	for i, data := range images {
		row := hfRow{Label: int64(i)}
		row.Image.Bytes = data
		rows = append(rows, row)
	}
	return rows
}

func parquetFile[T any](t testing.TB, rows []T, options ...parquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, options...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const classLabel = `{"info": {"features": {"label": {"names": ["ant", "bee", "cat"], "_type": "ClassLabel"}}}}`

// The function 'promise' returns a copy of a Parquet file. In this copy, the function 'change' has rewritten
// the header of the first page.
func promise(t *testing.T, file []byte, change func(*meta.PageHeader)) []byte {
	t.Helper()
	var protocol thrift.CompactProtocol
	reader := protocol.NewReaderFromBytes(file[4:])
	var header meta.PageHeader
	if err := thrift.NewDecoder(reader).Decode(&header); err != nil {
		t.Fatal(err)
	}
	change(&header)
	changed, err := thrift.Marshal(&protocol, &header)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(file[:4], changed, file[4+reader.BytesRead():])
}

// TestParquetPromises checks that small files whose first page states a huge size are refused before memory is
// reserved.
func TestParquetPromises(t *testing.T) {
	png, err := os.ReadFile("testdata/images/bee/b.png")
	if err != nil {
		t.Fatal(err)
	}
	plain := parquetFile(t, hfRows(png, png))
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"compressed size": {promise(t, plain, func(h *meta.PageHeader) { h.CompressedPageSize = math.MaxInt32 }), "promises 2147483647 bytes, but"},
		"size":            {promise(t, plain, func(h *meta.PageHeader) { h.UncompressedPageSize = math.MaxInt32 }), "to 2147483647"},
		"negative":        {promise(t, plain, func(h *meta.PageHeader) { h.UncompressedPageSize = -1 }), "to -1"},
		"size, packed": {promise(t, parquetFile(t, hfRows(png, png), parquet.Compression(&parquet.Snappy)),
			func(h *meta.PageHeader) { h.UncompressedPageSize = math.MaxInt32 }), "to 2147483647"},
		"size, LZ4": {promise(t, parquetFile(t, hfRows(png, png), parquet.Compression(&parquet.Lz4Raw)),
			func(h *meta.PageHeader) { h.UncompressedPageSize = 1 << 28 }), "to 268435456"},
		"values": {promise(t, plain, func(h *meta.PageHeader) {
			h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues = math.MaxInt32, math.MaxInt32
		}), "promises 2147483647 values of 2 rows"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "d.parquet"), c.data)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Open(context.Background(), path, Options{})
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if reserved := after.TotalAlloc - before.TotalAlloc; reserved > 64<<20 {
				t.Errorf("%d bytes reserved for a file of %d", reserved, len(c.data))
			}
		})
	}
}

// TestParquetBombs checks that Open refuses pages that unpack to far more than their headers state. Open must not keep
// any part of such pages in memory.
func TestParquetBombs(t *testing.T) {
	bomb := slices.Repeat(hfRows(append(testFile(t, "images/bee/b.png"), make([]byte, 32<<10)...)), 1024)
	for name, c := range map[string]compress.Codec{
		"snappy": &parquet.Snappy, "gzip": &parquet.Gzip, "brotli": &parquet.Brotli, "zstd": &parquet.Zstd, "lz4": &parquet.Lz4Raw,
	} {
		for _, version := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, pages of version %d", name, version), func(t *testing.T) {
				whole := parquetFile(t, bomb, parquet.Compression(c), parquet.DataPageVersion(version), parquet.PageBufferSize(64<<20))
				if name == "zstd" && len(whole) > 1<<20 {
					t.Errorf("%d bytes", len(whole))
				}
				for less, want := range map[int32]string{0: "", 1 << 20: "unpacks to more than the promised", 32 << 20: "unpacks to more than the promised"} {
					data := promise(t, whole, func(h *meta.PageHeader) { h.UncompressedPageSize -= less })
					path := write(t, filepath.Join(t.TempDir(), "d.parquet"), data)
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					d, err := Open(context.Background(), path, Options{})
					runtime.ReadMemStats(&after)
					if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
						t.Errorf("%d bytes less: error %v, want %q", less, err, want)
					}
					if reserved := after.TotalAlloc - before.TotalAlloc; less > 1<<20 && reserved > 16<<20 {
						t.Errorf("%d bytes reserved", reserved)
					}
					if err == nil {
						d.Close()
					}
				}
			})
		}
	}
}

// TestParquetDamagedLZ4 damages each byte of a file's pages in turn. Open must refuse or parse each damaged file, and
// must take little memory. The Parquet library would grow its buffer for ever for a damaged LZ4 block, so rscert checks
// each block first.
func TestParquetDamagedLZ4(t *testing.T) {
	whole := parquetFile(t, hfRows(testFile(t, "images/bee/b.png")), parquet.Compression(&parquet.Lz4Raw))
	end := len(whole) - 8
	path := filepath.Join(t.TempDir(), "d.parquet")
	refused := 0
	for at := 4; at < end-int(binary.LittleEndian.Uint32(whole[end:])); at++ {
		data := slices.Clone(whole)
		data[at] ^= 0xff
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d, err := Open(context.Background(), write(t, path, data), Options{})
		runtime.ReadMemStats(&after)
		if err == nil {
			d.Close()
		} else {
			refused++
		}
		if reserved := after.TotalAlloc - before.TotalAlloc; reserved > 16<<20 {
			t.Errorf("byte %d: %d bytes reserved for a file of %d", at, reserved, len(data))
		}
	}
	if refused == 0 {
		t.Error("no damage was found")
	}
}

// TestParquetCodecs checks that Open refuses a file whose row groups use different codecs, and a file that uses
// Hadoop's LZ4. The library unpacks all row groups by the codec of the first row group, and does not know Hadoop's LZ4.
func TestParquetCodecs(t *testing.T) {
	for want, codecs := range map[string][2]meta.CompressionCodec{
		"row group 1, column 0: compressed by UNCOMPRESSED, but in row group 0 by ZSTD":       {meta.Zstd, meta.Uncompressed},
		"row group 0, column 0: compressed by LZ4, which is not read; in Python: t = pyarrow": {meta.Lz4, meta.Lz4},
	} {
		path := write(t, filepath.Join(t.TempDir(), "d.parquet"), withCodecs(t, codecs))
		if _, err := Open(context.Background(), path, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// withCodecs returns a file of two row groups that are packed by Zstandard. But the footer of the file states the given
// codecs.
func withCodecs(t *testing.T, codecs [2]meta.CompressionCodec) []byte {
	t.Helper()
	png := testFile(t, "images/bee/b.png")
	file := parquetFile(t, hfRows(png, png), parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(1))
	end := len(file) - 8
	start := end - int(binary.LittleEndian.Uint32(file[end:]))
	var protocol thrift.CompactProtocol
	var footer meta.FileMetaData
	if err := thrift.Unmarshal(&protocol, file[start:end], &footer); err != nil {
		t.Fatal(err)
	}
	for g, codec := range codecs {
		footer.RowGroups[g].Columns[0].MetaData.Codec = codec
	}
	changed, err := thrift.Marshal(&protocol, &footer)
	if err != nil {
		t.Fatal(err)
	}
	data := binary.LittleEndian.AppendUint32(slices.Concat(file[:start], changed), uint32(len(changed)))
	return append(data, "PAR1"...)
}

// TestParquet opens Parquet files in the form that Hugging Face's datasets use, with one or several row groups. It also
// checks the errors for files that do not fit this form.
func TestParquet(t *testing.T) {
	images := [][]byte{testFile(t, "images/bee/b.png"), testFile(t, "images/ant/b.png"), testFile(t, "images/bee/b.png")}
	folder, _ := rows(t, mustOpen(t, "testdata/images"))
	var hf = hfRows(images...)
	type text struct {
		Img   []byte `parquet:"img"`
		Class string `parquet:"class"`
		Other int32  `parquet:"other"`
	}
	texts := []text{{images[0], "cat", 5}, {images[1], "ant", 6}}
	path := "other/b.png"
	byPath := hfRows(images[0], nil)
	byPath[1].Image.Path = &path
	outside := "../b.png"
	byOutside := hfRows(nil)
	byOutside[0].Image.Path = &outside
	for name, c := range map[string]struct {
		data   []byte
		opt    Options
		labels []int
		want   string
	}{
		"one group":      {data: parquetFile(t, hf), labels: []int{0, 1, 2}},
		"three groups":   {data: parquetFile(t, hf, parquet.MaxRowsPerRowGroup(1)), labels: []int{0, 1, 2}},
		"compressed":     {data: parquetFile(t, hf, parquet.Compression(&parquet.Snappy)), labels: []int{0, 1, 2}},
		"gzip":           {data: parquetFile(t, hf, parquet.Compression(&parquet.Gzip)), labels: []int{0, 1, 2}},
		"brotli":         {data: parquetFile(t, hf, parquet.Compression(&parquet.Brotli)), labels: []int{0, 1, 2}},
		"zstd":           {data: parquetFile(t, hf, parquet.Compression(&parquet.Zstd)), labels: []int{0, 1, 2}},
		"classes":        {data: parquetFile(t, hf, parquet.KeyValueMetadata("huggingface", classLabel)), opt: Options{ClassNames: "cat\nbee\nant\n"}, labels: []int{2, 1, 0}},
		"other classes":  {data: parquetFile(t, hf, parquet.KeyValueMetadata("huggingface", classLabel)), opt: Options{ClassNames: "cow\nbee\nant\n"}, want: `row 2: label "cat" is not among`},
		"names":          {data: parquetFile(t, texts), opt: Options{ClassNames: "cat\nbee\nant\n"}, labels: []int{0, 2}},
		"names unknown":  {data: parquetFile(t, texts), want: `d.parquet: row 0: label "cat" is not a number; if labels are names, class-names`},
		"column":         {data: parquetFile(t, texts), opt: Options{LabelColumn: "other"}, labels: []int{5, 6}},
		"no column":      {data: parquetFile(t, texts), opt: Options{LabelColumn: "what"}, want: "no such column among"},
		"by path":        {data: parquetFile(t, byPath), labels: []int{0, 1}},
		"path outside":   {data: parquetFile(t, byOutside), want: "is not beside the Parquet file"},
		"nothing":        {data: parquetFile(t, hfRows(nil)), want: "row 0: neither bytes nor path"},
		"not an image":   {data: parquetFile(t, hfRows([]byte("hello"))), want: "d.parquet: row 0: image: unknown format"},
		"LZ4":            {data: parquetFile(t, hf, parquet.Compression(&parquet.Lz4Raw)), labels: []int{0, 1, 2}},
		"truncated":      {data: parquetFile(t, hf)[:200], want: "d.parquet: not a whole Parquet file"},
		"without images": {data: parquetFile(t, []struct{ A, Label float64 }{{1, 2}}), want: "no column of images among A, Label; if it is a table of numbers"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "other/b.png"), images[1])
			if c.opt.ClassNames != "" {
				c.opt.ClassNames = write(t, filepath.Join(dir, "names"), []byte(c.opt.ClassNames))
			}
			d := openWanted(t, write(t, filepath.Join(dir, "d.parquet"), c.data), c.opt, c.want)
			if d == nil {
				return
			}
			values, labels := rows(t, d)
			if !slices.Equal(labels, c.labels) || !slices.Equal(values[0], folder[3]) || slices.Equal(values[0], values[1]) {
				t.Errorf("labels %v, want %v; values %v", labels, c.labels, values)
			}
		})
	}
}

// TestShards checks that Open reads only the files of the test split, in the order of their names. It also checks that
// folders which may hold several splits are refused.
func TestShards(t *testing.T) {
	dir := t.TempDir()
	image := testFile(t, "images/bee/b.png")
	for k, name := range []string{"train-00000-of-00001.parquet", "test-00001-of-00002.parquet", "test-00000-of-00002.parquet"} {
		rows := hfRows(image)
		rows[0].Label = int64(k)
		write(t, filepath.Join(dir, "data", name), parquetFile(t, rows))
	}
	if _, labels := rows(t, mustOpen(t, dir)); !slices.Equal(labels, []int{2, 1}) {
		t.Errorf("labels %v of the test split, want [2 1]", labels)
	}
	write(t, filepath.Join(dir, "tars/a-0.tar"), tarFile(t, "0.png", string(image), "0.cls", "4"))
	if _, labels := rows(t, mustOpen(t, filepath.Join(dir, "tars"))); !slices.Equal(labels, []int{4}) {
		t.Errorf("labels %v", labels)
	}
	write(t, filepath.Join(dir, "tars/b-0.tar"), tarFile(t, "0.png", string(image), "0.cls", "4"))
	if _, err := Open(context.Background(), filepath.Join(dir, "tars"), Options{}); err == nil || !strings.Contains(err.Error(), "several splits") {
		t.Errorf("error %v", err)
	}
}

// TestArchivesChange changes archives after Open. Reading an example must then give an error, not other data.
func TestArchivesChange(t *testing.T) {
	image := testFile(t, "images/bee/b.png")
	for name, data := range map[string][]byte{
		"d.tar":     tarFile(t, "0.png", string(image), "0.cls", "3"),
		"d.parquet": parquetFile(t, hfRows(image)),
	} {
		path := write(t, filepath.Join(t.TempDir(), name), data)
		d := mustOpen(t, path)
		for i := range data {
			data[i] ^= 1
		}
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		if c, ok := d.closer.(closers); ok {
			c[0].(*checkedFile).in = -1 // drops the block in memory, so that Example reads the file again
		}
		if _, err := d.Example(0); err == nil || !strings.Contains(err.Error(), errChanged.Error()) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestArrayNames checks that Open finds the arrays of inputs and labels by their usual names.
func TestArrayNames(t *testing.T) {
	x, y := npyFile("|u1", "2, 3", []byte{1, 2, 3, 4, 5, 6}), npyFile("<i8", "2,", []int64{4, 1})
	hot := npyFile("|u1", "2, 3", []byte{0, 0, 1, 1, 0, 0})
	for _, pair := range arrayNames {
		dir := t.TempDir()
		write(t, filepath.Join(dir, pair[0]+".npy"), x)
		write(t, filepath.Join(dir, pair[1]+".npy"), y)
		for _, path := range []string{
			write(t, filepath.Join(dir, "d.npz"), npz(t, 0, pair[0], x, pair[1], y)), dir, filepath.Join(dir, pair[0]+".npy"),
		} {
			if _, labels := rows(t, mustOpen(t, path)); !slices.Equal(labels, []int{4, 1}) {
				t.Errorf("%s, %v: labels %v", path, pair, labels)
			}
		}
		if _, labels := rows(t, mustOpen(t, write(t, filepath.Join(dir, "h.npz"), npz(t, 0, pair[0], x, pair[1], hot)))); !slices.Equal(labels, []int{2, 0}) {
			t.Errorf("one-hot: labels %v", labels)
		}
	}
}
