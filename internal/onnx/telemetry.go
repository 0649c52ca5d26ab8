package onnx

import (
	"os"
)

// noTelemetry is the name of an environment variable that ONNX Runtime reads once, at its start. If this variable is
// not set, official builds of version 1.29 or later run a shell, keep a machine identifier in the user's cache, and
// report to Microsoft what they run.
const noTelemetry = "ORT_DISABLE_TELEMETRY"

// disableTelemetry sets the environment variable ORT_DISABLE_TELEMETRY. It must be called before the library is opened.
// os.Setenv also sets the variable for C code in the process.
func disableTelemetry() error {
	return os.Setenv(noTelemetry, "1")
}
