package table

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	meta "github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"

	"github.com/rscert/rscert/internal/memory"
)

// CheckPages checks the headers of all pages of the given leaf columns. Call it before you read the columns. The
// Parquet library itself does not check the headers: it reserves the size that a header states, up to 2 GiB even for a
// tiny file. It also uses the codec of the first row group for all row groups.
func (p *Parquet) CheckPages(ctx context.Context, columns ...int) error {
	groups := p.Metadata().RowGroups
	for g, group := range groups {
		for _, column := range columns {
			if column >= len(group.Columns) {
				return fmt.Errorf("damaged: row group %d has no column %d", g, column)
			}
			chunk := group.Columns[column].MetaData
			if chunk.Codec == meta.Lz4 || chunk.Codec == meta.LZO {
				return fmt.Errorf(`row group %d, column %d: compressed by %v, which is not read; in Python: t = pyarrow.parquet.read_table(FILE); `+
					`pyarrow.parquet.write_table(t, "data.parquet", compression="zstd")`, g, column, chunk.Codec)
			}
			if first := groups[0].Columns[column].MetaData.Codec; chunk.Codec != first {
				return fmt.Errorf("row group %d, column %d: compressed by %v, but in row group 0 by %v", g, column, chunk.Codec, first)
			}
			if err := p.checkChunk(ctx, chunk, group.NumRows); err != nil {
				return fmt.Errorf("row group %d, column %d: %w", g, column, err)
			}
		}
	}
	return nil
}

// checkChunk checks the pages of one column of a row group.
func (p *Parquet) checkChunk(ctx context.Context, chunk meta.ColumnMetaData, rows int64) error {
	at := chunk.DataPageOffset
	if chunk.DictionaryPageOffset != 0 {
		at = chunk.DictionaryPageOffset
	}
	end := at + chunk.TotalCompressedSize
	if at < 0 || chunk.TotalCompressedSize < 0 || end > p.Size() || end < at {
		return fmt.Errorf("bytes %d to %d, but the file has %d", at, end, p.Size())
	}
	for at < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		header, n, err := pageHeader(p.src, at, end)
		if err == nil {
			err = checkPage(header, chunk.Codec, end-at-n, rows)
		}
		if err == nil {
			err = checkUnpacked(p.src, at+n, header, chunk.Codec)
		}
		if err != nil {
			return fmt.Errorf("damaged page at byte %d: %w", at, err)
		}
		at += n + int64(header.CompressedPageSize)
	}
	return nil
}

// pageHeader decodes the page header at the offset 'at'. It returns the header and the header's length in bytes.
func pageHeader(f io.ReaderAt, at, end int64) (header meta.PageHeader, n int64, err error) {
	var protocol thrift.CompactProtocol
	for window := int64(4 << 10); ; window *= 16 {
		window = min(window, end-at)
		bytes := make([]byte, window)
		if _, err := f.ReadAt(bytes, at); err != nil && err != io.EOF {
			return header, 0, err
		}
		reader := protocol.NewReaderFromBytes(bytes) // allocates at most len(bytes), whatever sizes the header states
		header = meta.PageHeader{}
		err = thrift.NewDecoder(reader).Decode(&header)
		if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) || window == end-at || window > mostHeader {
			return header, int64(reader.BytesRead()), err
		}
	}
}

// mostHeader is a size in bytes that no real page header exceeds, even with statistics. If pageHeader has read more
// bytes than this and still finds no complete header, it gives up.
const mostHeader = 1 << 20

// mostUnpacked returns the maximum length of an unpacked page, in bytes. The argument 'packed' is the length of the
// packed page. The maximum follows from the compression format. In Snappy, 3 packed bytes can stand for 64 bytes. In
// LZ4, each byte of a length field can stand for 255 bytes. In Deflate, 2 bits can stand for 258 bytes. In Zstandard, 4
// bytes can stand for 131,072 bytes. Brotli has no limit, so mostUnpacked applies the limit of Zstandard to it.
func mostUnpacked(codec meta.CompressionCodec, packed int64) int64 {
	const start = 64 // a margin for very short pages
	switch codec {
	case meta.Uncompressed:
		return packed
	case meta.Snappy:
		return start + 22*packed
	case meta.Lz4Raw:
		return start + 255*packed
	case meta.Gzip:
		return start + 1032*packed
	}
	return start + 1<<15*packed
}

// checkPage refuses a page if its header states more packed bytes than are left in the column chunk. It also refuses a
// page if the header states more values than there are rows in the row group. It also refuses a page if the codec
// cannot reach the unpacked length in the header, or if this length exceeds memory.Limit.
func checkPage(h meta.PageHeader, codec meta.CompressionCodec, left, rows int64) error {
	packed, size := int64(h.CompressedPageSize), int64(h.UncompressedPageSize)
	if size < 0 || size > mostUnpacked(codec, packed) {
		return fmt.Errorf("promises to unpack %d bytes to %d", packed, size)
	}
	values := max(h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues, h.DictionaryPageHeader.V.NumValues)
	if int64(values) > rows {
		return fmt.Errorf("promises %d values of %d rows", values, rows)
	}
	if packed < 0 || packed > left {
		return fmt.Errorf("promises %d bytes, but %d are left", packed, left)
	}
	return memory.Check(size)
}

// checkUnpacked unpacks a page without keeping the result. It returns an error if the unpacked page is longer than its
// header states. The Parquet library itself would unpack the whole page, whatever length the header states.
func checkUnpacked(f io.ReaderAt, at int64, h meta.PageHeader, codec meta.CompressionCodec) error {
	if codec == meta.Uncompressed {
		return nil
	}
	packed, size := int64(h.CompressedPageSize), int64(h.UncompressedPageSize)
	// In a data page of version 2, the repetition and definition levels before the values are not compressed. If the
	// field DictionaryPageHeader is set, the library reads the page as a dictionary, whatever Type says.
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

// unpackedLength returns the unpacked length of a page. The argument 'most' is the length that the page's header
// states. For a longer page, unpackedLength returns a length above 'most' or an error.
func unpackedLength(packed io.Reader, codec meta.CompressionCodec, most int64) (n int64, err error) {
	in := bufio.NewReader(packed)
	var out io.Reader
	switch codec {
	// the block begins with its unpacked length, and the Parquet library never unpacks the block to more than this
	// length
	case meta.Snappy:
		n, err := binary.ReadUvarint(in)
		return int64(min(n, 1<<62)), err
	// for a damaged block, the Parquet library would grow its buffer for ever, so this case calls the package lz4
	// itself
	case meta.Lz4Raw:
		data, err := io.ReadAll(in)
		if err != nil {
			return 0, err
		}
		n, err := lz4.UncompressBlock(data, make([]byte, most+1))
		if err != nil {
			err = fmt.Errorf("damaged, or unpacks to more than the promised %d bytes", most)
		}
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

// zstdWindow returns the largest allowed window, in bytes. It is the larger of 8 MiB and twice the unpacked size of the
// page. RFC 8878 recommends that decoders support windows of up to 8 MB.
func zstdWindow(size int64) uint64 { return max(8<<20, 2*uint64(size)) }
