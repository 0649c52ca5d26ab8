package onnx

import (
	"os"
)

// noTelemetry is the variable that ONNX Runtime reads, once, when it starts. Without it the official builds from 1.29 on
// run a shell, keep an identifier of the machine in the user's cache, and send what is run to their maker.
const noTelemetry = "ORT_DISABLE_TELEMETRY"

// disableTelemetry is called before the library is opened. Go sets the variable for the C code of the process, too.
func disableTelemetry() error {
	return os.Setenv(noTelemetry, "1")
}
