package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// BenchmarkRows measures the processor time and the peak memory of 'rscert certify', 'rscert certify --resume' and
// 'rscert report'. The tables have 4 columns. A million rows should take at most 300 MB, and the time should be
// proportional to the number of rows. The model is linear, so it costs almost nothing.
func BenchmarkRows(b *testing.B) {
	for _, rows := range []int{100_000, 1_000_000} {
		dir := b.TempDir()
		data, run := filepath.Join(dir, "rows.csv"), filepath.Join(dir, "run")
		writeRows(b, data, rows)
		certify := []string{"certify", "--model", "testdata/linear.onnx", "--data", data, "--sigma", "0.2", "--n", "100", "--n0", "10",
			"--seed", "1", "--quiet", "--out", run}
		for _, command := range []struct {
			name string
			args []string
		}{{"certify", certify}, {"report", []string{"report", run}}, {"resume", append(certify, "--resume")}} {
			b.Run(fmt.Sprintf("%s/%d", command.name, rows), func(b *testing.B) {
				for b.Loop() {
					if command.name == "certify" {
						if err := os.RemoveAll(run); err != nil {
							b.Fatal(err)
						}
					}
					cmd := exec.CommandContext(b.Context(), os.Args[0], command.args...)
					cmd.Env = append(os.Environ(), asProgram+"=1")
					if out, err := cmd.CombinedOutput(); err != nil {
						b.Fatalf("%v\n%s", err, out)
					}
					used, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
					b.ReportMetric(float64(used.Maxrss)/1000, "MB")
					b.ReportMetric((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), "cpu-s")
				}
			})
		}
	}
}

// writeRows writes a table of random numbers with three decimals. The labels have 3 classes.
func writeRows(b *testing.B, path string, rows int) {
	b.Helper()
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "label,a,b,c,d")
	r := rand.New(rand.NewPCG(1, 2))
	for range rows {
		fmt.Fprintf(w, "%d,%.3f,%.3f,%.3f,%.3f\n", r.IntN(3), r.NormFloat64(), r.NormFloat64(), r.NormFloat64(), r.NormFloat64())
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
}
