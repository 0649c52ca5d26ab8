package table

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	meta "github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// checkUnpacked goes through the compressed bytes of a page and refuses more than its header promises: the Parquet
// library unpacks to the end, whatever the header says. Nothing of it is kept.
func checkUnpacked(f io.ReaderAt, at int64, h meta.PageHeader, codec meta.CompressionCodec) error {
	if codec == meta.Uncompressed {
		return nil
	}
	packed, size := int64(h.CompressedPageSize), int64(h.UncompressedPageSize)
	// The levels before the values are not compressed. A dictionary is read whatever the type is.
	if h.Type == meta.DataPageV2 && !h.DictionaryPageHeader.Valid {
		v2 := h.DataPageHeaderV2.V
		if v2.IsCompressed.Valid && !v2.IsCompressed.V {
			return nil
		}
		levels := max(0, int64(v2.RepetitionLevelsByteLength)) + max(0, int64(v2.DefinitionLevelsByteLength))
		at, packed = at+levels, max(0, packed-levels)
	}
	n, err := unpackedLength(io.NewSectionReader(f, at, packed), codec, size)
	if err != nil {
		return fmt.Errorf("%v: %w", codec, err)
	}
	if n > size {
		return fmt.Errorf("unpacks to more than the promised %d bytes", size)
	}
	return nil
}

// unpackedLength counts the bytes that a page's compressed bytes stand for, up to one more than most.
func unpackedLength(packed io.Reader, codec meta.CompressionCodec, most int64) (n int64, err error) {
	in := bufio.NewReader(packed)
	var out io.Reader
	switch codec {
	case meta.Snappy: // says it first, and the library holds it to that
		n, err := binary.ReadUvarint(in)
		return int64(min(n, 1<<62)), err
	case meta.Lz4Raw: // of what is no LZ4 the library makes ever larger buffers
		data, err := io.ReadAll(in)
		if err != nil {
			return 0, err
		}
		n, err := lz4.UncompressBlock(data, make([]byte, most+1))
		return int64(n), err
	case meta.Gzip:
		out, err = gzip.NewReader(in)
	case meta.Brotli:
		out = brotli.NewReader(in)
	case meta.Zstd:
		var d *zstd.Decoder
		d, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow(most)))
		if err == nil {
			defer d.Close()
		}
		out = d
	default:
		return 0, errors.New("not read")
	}
	if err != nil {
		return 0, err
	}
	return io.Copy(io.Discard, io.LimitReader(out, most+1))
}

// zstdWindow is how far back copies may reach in bytes: 8 MiB, as RFC 8878 asks of every decoder, or what a page of that
// size may have.
func zstdWindow(size int64) uint64 { return max(8<<20, 2*uint64(size)) }
