package table

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// BenchmarkScannersBesideStandardLibrary parses the same rows in two ways: with this package, and with the standard
// library alone (strconv, and encoding/csv or encoding/json). This package also verifies checksums and keeps the line
// numbers of rows for errors.
func BenchmarkScannersBesideStandardLibrary(b *testing.B) {
	var c, j bytes.Buffer
	c.WriteString("score,label\n")
	const rows = 200000
	for i := range rows {
		fmt.Fprintf(&c, "%.17g,%d\n", float64(i)/rows, i&1)
		fmt.Fprintf(&j, "{\"score\":%.17g,\"label\":%d}\n", float64(i)/rows, i&1)
	}
	opt := Options{Required: []string{"score", "label"}}
	own := func(data []byte) func(*testing.B) {
		return func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "table")
			if err := os.WriteFile(path, data, 0o644); err != nil {
				b.Fatal(err)
			}
			for range b.N {
				if _, err := Read(b.Context(), path, opt); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		}
	}
	b.Run("csv own", own(c.Bytes()))
	b.Run("csv encoding/csv", func(b *testing.B) {
		for range b.N {
			r := csv.NewReader(bytes.NewReader(c.Bytes()))
			r.ReuseRecord = true
			r.Read()
			var cols [2][]float64
			for {
				rec, err := r.Read()
				if err == io.EOF {
					break
				}
				for k := range cols {
					x, _ := strconv.ParseFloat(rec[k], 64)
					cols[k] = append(cols[k], x)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
	})
	b.Run("json own", own(j.Bytes()))
	b.Run("json encoding/json", func(b *testing.B) {
		for range b.N {
			d := json.NewDecoder(bytes.NewReader(j.Bytes()))
			var cols [2][]float64
			for {
				var m map[string]float64
				if d.Decode(&m) == io.EOF {
					break
				}
				cols[0] = append(cols[0], m["score"])
				cols[1] = append(cols[1], m["label"])
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
	})
}
