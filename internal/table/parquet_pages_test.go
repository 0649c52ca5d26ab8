package table

import (
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	meta "github.com/parquet-go/parquet-go/format"
)

// The factors of mostUnpacked are reached by no encoder that the Parquet library has, on what packs best.
func TestMostUnpacked(t *testing.T) {
	zeros := make([]byte, 1<<22)
	for codec, c := range map[meta.CompressionCodec]compress.Codec{
		meta.Snappy: &parquet.Snappy, meta.Gzip: &parquet.Gzip, meta.Zstd: &parquet.Zstd,
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
