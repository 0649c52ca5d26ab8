package graph

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

func TestRecipeSHA256(t *testing.T) {
	entry := func(key, value string) *onnxpb.StringStringEntryProto {
		return &onnxpb.StringStringEntryProto{Key: proto.String(key), Value: proto.String(value)}
	}
	for _, tt := range []struct {
		entries []*onnxpb.StringStringEntryProto
		want    string
	}{
		{nil, ""},
		{[]*onnxpb.StringStringEntryProto{entry("other", "abc")}, ""},
		// The standard FIPS 180-2 gives the digest of "abc" as an example.
		{[]*onnxpb.StringStringEntryProto{entry("other", ""), entry("rscert.recipe", "abc")},
			"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
	} {
		f := File{Model: &onnxpb.ModelProto{MetadataProps: tt.entries}}
		if got := f.RecipeSHA256(); got != tt.want {
			t.Errorf("metadata %v: %q, want %q", tt.entries, got, tt.want)
		}
	}
}
