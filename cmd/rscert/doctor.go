package main

import "github.com/spf13/cobra"

func newDoctor(s streams) *cobra.Command {
	return &cobra.Command{Use: "doctor", Short: "Show the ONNX Runtime library, its providers, the GPU and versions", RunE: func(*cobra.Command, []string) error { return nil }}
}
