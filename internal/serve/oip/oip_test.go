package oip

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// declarations returns the declarations in oip.proto: messages as "Message", fields as "Message.field=number type", and
// calls of the service as "Call(request) response". The syntax of oip.proto is so simple that the test can read the
// file line by line.
func declarations(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("oip.proto")
	if err != nil {
		t.Fatal(err)
	}
	var (
		message = regexp.MustCompile(`^message (\w+) \{(\})?$`)
		field   = regexp.MustCompile(`^(repeated )?([\w.]+|map<string, \w+>) (\w+) = (\d+);$`)
		call    = regexp.MustCompile(`^rpc (\w+)\((\w+)\) returns \((\w+)\) \{\}$`)
		found   = map[string]bool{}
		path    []string
	)
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "//")
		line = strings.TrimSpace(line)
		if m := message.FindStringSubmatch(line); m != nil {
			path = append(path, m[1])
			if m[2] != "" {
				found[strings.Join(path, ".")] = true
				path = path[:len(path)-1]
			}
		} else if m := field.FindStringSubmatch(line); m != nil {
			owner := strings.TrimSuffix(strings.Join(path, "."), ".oneof")
			found[owner] = true
			found[owner+"."+m[3]+"="+m[4]+" "+m[1]+m[2]] = true
		} else if m := call.FindStringSubmatch(line); m != nil {
			found[m[1]+"("+m[2]+") "+m[3]] = true
		} else if strings.HasPrefix(line, "oneof ") {
			path = append(path, "oneof")
		} else if strings.HasPrefix(line, "service ") {
			path = append(path, "service")
		} else if line == "}" {
			path = path[:len(path)-1]
		} else if line != "" && !strings.HasPrefix(line, "syntax") && !strings.HasPrefix(line, "package") && !strings.HasPrefix(line, "option") {
			t.Fatalf("a line of another form: %s", line)
		}
	}
	return found
}

// typeOf returns the type of a field as oip.proto spells it.
func typeOf(f protoreflect.FieldDescriptor) string {
	name := f.Kind().String()
	switch {
	case f.IsMap():
		return "map<string, " + string(f.MapValue().Message().Name()) + ">"
	case f.Kind() == protoreflect.MessageKind:
		name = string(f.Message().Name())
	}
	if f.IsList() {
		return "repeated " + name
	}
	return name
}

// TestGenerated checks that the generated code has the messages, fields and calls of oip.proto, and no others.
func TestGenerated(t *testing.T) {
	got := map[string]bool{}
	var add func(prefix string, messages protoreflect.MessageDescriptors)
	add = func(prefix string, messages protoreflect.MessageDescriptors) {
		for i := range messages.Len() {
			m := messages.Get(i)
			if m.IsMapEntry() {
				continue
			}
			name := prefix + string(m.Name())
			got[name] = true
			for k := range m.Fields().Len() {
				f := m.Fields().Get(k)
				got[name+"."+string(f.Name())+"="+strconv.Itoa(int(f.Number()))+" "+typeOf(f)] = true
			}
			add(name+".", m.Messages())
		}
	}
	add("", File_oip_proto.Messages())
	service := File_oip_proto.Services().Get(0)
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		got[string(m.Name())+"("+string(m.Input().Name())+") "+string(m.Output().Name())] = true
	}
	if name := service.FullName(); name != "inference.GRPCInferenceService" || string(name) != GRPCInferenceService_ServiceDesc.ServiceName {
		t.Errorf("service %s, %s", name, GRPCInferenceService_ServiceDesc.ServiceName)
	}
	want := declarations(t)
	for d := range want {
		if !got[d] {
			t.Errorf("oip.proto has %s, the generated code has not", d)
		}
	}
	for d := range got {
		if !want[d] {
			t.Errorf("the generated code has %s, oip.proto has not", d)
		}
	}
	if len(want) < 60 {
		t.Errorf("only %d declarations were read", len(want))
	}
}
