package cluster

import (
	"reflect"
	"testing"
)

// The test parses lines that Slurm 22.05 printed.
func TestParseQueue(t *testing.T) {
	got, err := parseQueue("0|COMPLETED|None|0\n1|FAILED|NonZeroExitCode|512\n2|RUNNING|None|0\n5|PENDING|Resources|0\n7|FAILED|RaisedSignal:9(Killed)|9\n")
	want := map[int]Task{
		0: {"COMPLETED", "None", 0, 0}, 1: {"FAILED", "NonZeroExitCode", 2, 0}, 2: {"RUNNING", "None", 0, 0},
		5: {"PENDING", "Resources", 0, 0}, 7: {"FAILED", "RaisedSignal:9(Killed)", 0, 9},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"0|COMPLETED|None\n", "N/A|RUNNING|None|0\n", "0|RUNNING|None|x\n"} {
		if got, err := parseQueue(bad); err == nil {
			t.Errorf("%q: %v, want an error", bad, got)
		}
	}
}

func TestParseAccounting(t *testing.T) {
	got, err := parseAccounting("12_0|COMPLETED|0:0\n12_1|CANCELLED by 1000|0:15\n12_10|FAILED|2:0\n12_[11-13]|PENDING|0:0\n12_3.batch|FAILED|1:0\n")
	want := map[int]Task{0: {State: "COMPLETED"}, 1: {State: "CANCELLED", Signal: 15}, 10: {State: "FAILED", Exit: 2}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"12_0|COMPLETED\n", "12_0|COMPLETED|0\n"} {
		if got, err := parseAccounting(bad); err == nil {
			t.Errorf("%q: %v, want an error", bad, got)
		}
	}
}

func TestParseJob(t *testing.T) {
	for text, want := range map[string]Job{"17\n": {ID: "17"}, "17;east\n": {ID: "17", Cluster: "east"}, "": {}, "Submitted batch job 17": {}} {
		got, err := parseJob(text)
		if (err != nil) != (want.ID == "") || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestTaskEnded(t *testing.T) {
	for state, want := range map[string]bool{"": true, "COMPLETED": true, "CANCELLED": true, "OUT_OF_MEMORY": true, "TIMEOUT": true,
		"COMPLETING": false, "RUNNING": false, "PENDING": false, "REQUEUED": false, "SUSPENDED": false, "NEW_IN_A_LATER_SLURM": false} {
		if got := (Task{State: state}).Ended(); got != want {
			t.Errorf("%q: ended is %v", state, got)
		}
	}
}
