package table

import (
	"bytes"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	meta "github.com/parquet-go/parquet-go/format"
)

// The test compresses highly compressible data with the encoders of the Parquet library. Packed data must never unpack
// to more bytes than mostUnpacked returns.
func TestMostUnpacked(t *testing.T) {
	zeros := make([]byte, 1<<22)
	for codec, c := range map[meta.CompressionCodec]compress.Codec{
		meta.Snappy: &parquet.Snappy, meta.Gzip: &parquet.Gzip, meta.Zstd: &parquet.Zstd, meta.Lz4Raw: &parquet.Lz4Raw,
	} {
		packed, err := c.Encode(nil, zeros)
		if err != nil {
			t.Fatal(err)
		}
		most := mostUnpacked(codec, int64(len(packed)))
		if most < int64(len(zeros)) || codec != meta.Zstd && most > 3*int64(len(zeros)) {
			t.Errorf("%v: %d bytes stand for %d, at most %d are taken for possible", codec, len(packed), len(zeros), most)
		}
	}
}

// TestUnpackedLength tests every codec. For a whole page, unpackedLength must return the original length. For a page
// that is longer than the argument 'most', it must return a length above 'most' or an error. For half of a page, it
// must return an error, except with Snappy, where it reads only the length at the start of the page.
func TestUnpackedLength(t *testing.T) {
	plain := bytes.Repeat([]byte("0123456789abcdef"), 1000)
	for codec, c := range map[meta.CompressionCodec]compress.Codec{
		meta.Snappy: &parquet.Snappy, meta.Gzip: &parquet.Gzip, meta.Zstd: &parquet.Zstd, meta.Brotli: &parquet.Brotli, meta.Lz4Raw: &parquet.Lz4Raw,
	} {
		packed, err := c.Encode(nil, plain)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := unpackedLength(bytes.NewReader(packed), codec, int64(len(plain))); err != nil || n != int64(len(plain)) {
			t.Errorf("%v: %d bytes, %v, want %d", codec, n, err, len(plain))
		}
		most := int64(len(plain) / 2)
		if n, err := unpackedLength(bytes.NewReader(packed), codec, most); err == nil && n <= most {
			t.Errorf("%v: %d bytes of %d", codec, n, len(plain))
		}
		if n, err := unpackedLength(bytes.NewReader(packed[:len(packed)/2]), codec, int64(len(plain))); err == nil && codec != meta.Snappy {
			t.Errorf("%v: %d bytes of half a page", codec, n)
		}
	}
}
