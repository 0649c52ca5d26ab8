package checksum

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
)

// castagnoli is an independent implementation of the checksum. It computes CRC-32C bit by bit, from the reflected
// polynomial.
func castagnoli(text string) uint32 {
	sum := ^uint32(0)
	for _, b := range []byte(text) {
		sum ^= uint32(b)
		for range 8 {
			sum = sum>>1 ^ 0x82f63b78*(sum&1)
		}
	}
	return ^sum
}

func TestForms(t *testing.T) {
	if got := castagnoli("123456789"); got != 0xe3069283 { // the check value for the polynomial of RFC 3720
		t.Fatalf("%x", got)
	}
	cell := func(text string) string { return string(appendCell(nil, castagnoli(text))) }
	if got, want := string(Seed(0).AppendJSON([]byte(`{"a":1}`))), `{"a":1,"check":"`+cell(`{"a":1`)+`"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := string(Seal([]byte("{\n  \"a\": 1\n}\n"))), "{\n  \"a\": 1,\n  \"check\": \""+cell("{\n  \"a\": 1")+"\"\n}\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := string(Seed(0).AppendCSV([]byte("a,check"), []byte("1"))), "1,"+cell("a,check\n1"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

var bodies = []string{
	`{"a":1}`,
	`{"index":12,"label":7,"n0":100,"counts0":[90,10],"n":1000,"counts":[900,100]}`,
	`{"text":"crc32c:00000000","nested":{"check":"crc32c:12345678"}}`,
	"{\"odd\":\"J*é\\n\"}",
	`{"check":1,"b":0}`,
}

func TestRoundTrip(t *testing.T) {
	for _, body := range bodies {
		line := Seed(0).AppendJSON([]byte(body))
		if got, state := Seed(0).VerifyJSON(line); state != Good || string(got) != body {
			t.Errorf("%s: %v %s", line, state, got)
		}
		if !json.Valid(line) {
			t.Errorf("%s is not JSON", line)
		}
		doc := strings.TrimSuffix(body, "}") + "\n}\n"
		sealed := Seal([]byte(doc))
		if got, state := VerifySealed(sealed); state != Good || string(got) != doc {
			t.Errorf("%s: %v %s", sealed, state, got)
		}
		if !json.Valid(sealed) {
			t.Errorf("%s is not JSON", sealed)
		}
	}
	header := []byte("index,lower,check")
	row := Seed(0).AppendCSV(header, []byte("1,0.25"))
	if got, state := Seed(0).VerifyCSV(header, row); state != Good || string(got) != "1,0.25" {
		t.Errorf("%s: %v %s", row, state, got)
	}
	if cells, err := csv.NewReader(bytes.NewReader(row)).Read(); err != nil || len(cells) != 3 {
		t.Errorf("%q %v", cells, err)
	}
}

// Lines that other programs wrote have no checksum, and verifying must return such lines unchanged.
func TestAbsent(t *testing.T) {
	for _, line := range []string{``, `{}`, `{"a":1}`, `{"checked":true}`, `{"crc32c":"12345678"}`, "}", `{"check":1,` + strings.Repeat(" ", 80) + `"a":2}`} {
		if got, state := Seed(0).VerifyJSON([]byte(line)); state != Absent || string(got) != line {
			t.Errorf("%s: %v %s", line, state, got)
		}
		if got, state := VerifySealed([]byte(line)); state != Absent || string(got) != line {
			t.Errorf("sealed %s: %v %s", line, state, got)
		}
	}
	for _, c := range [][2]string{{"", ""}, {"a,b", "1,2"}, {"check", "1"}, {"a,check", "1,0"}, {"a,check", "1,"}, {"a,b", "1,crc"}, {"check,a", "crc32c:12345678,1"}} {
		if got, state := Seed(0).VerifyCSV([]byte(c[0]), []byte(c[1])); state != Absent || string(got) != c[1] {
			t.Errorf("%q: %v %s", c, state, got)
		}
	}
}

// The function 'flips' calls the function 'check' with every text that differs from the argument 'text' in one bit. It
// returns the number of these texts.
func flips(text []byte, check func(flipped []byte, at int)) (n int) {
	for i := range text {
		for bit := range 8 {
			flipped := bytes.Clone(text)
			flipped[i] ^= 1 << bit
			check(flipped, i)
			n++
		}
	}
	return n
}

func TestEveryFlipIsBad(t *testing.T) {
	n := 0
	for _, body := range bodies {
		n += flips(Seed(0).AppendJSON([]byte(body)), func(line []byte, at int) {
			if _, state := Seed(0).VerifyJSON(line); state != Bad {
				t.Errorf("byte %d: %v: %q", at, state, line)
			}
		})
		n += flips(Seal([]byte(strings.TrimSuffix(body, "}")+"\n}\n")), func(doc []byte, at int) {
			if _, state := VerifySealed(doc); state != Bad {
				t.Errorf("byte %d: %v: %q", at, state, doc)
			}
		})
	}
	for _, row := range []string{"", "1", "1,0.25,0.75", `"a,b",0`, "b0b,bbb"} {
		header := []byte("index,lower,check")
		whole := Seed(0).AppendCSV(header, []byte(row))
		n += flips(whole, func(flipped []byte, at int) {
			if _, state := Seed(0).VerifyCSV(header, flipped); state != Bad {
				t.Errorf("byte %d: %v: %q", at, state, flipped)
			}
		})
		n += flips(header, func(flipped []byte, at int) {
			if _, state := Seed(0).VerifyCSV(flipped, whole); state != Bad {
				t.Errorf("header's byte %d: %v: %q", at, state, flipped)
			}
		})
	}
	t.Logf("%d flips", n)
}

// If a correct checksum follows a tab instead of a comma, or stands alone in the row, the row must be bad.
func TestSeparator(t *testing.T) {
	header := []byte("a,check")
	cell := appendCell(nil, Seed(0).rowSum(header, nil))
	for _, row := range []string{"\t" + string(cell), string(cell)} {
		if _, state := Seed(0).VerifyCSV(header, []byte(row)); state != Bad {
			t.Errorf("%q: %v", row, state)
		}
	}
	if _, state := Seed(0).VerifyCSV(header, []byte(","+string(cell))); state != Good {
		t.Error(state)
	}
}

// A line that lost or gained bytes at either end must be bad if the prefix of its checksum, "crc32c:", remains.
func TestCut(t *testing.T) {
	line := Seed(0).AppendJSON([]byte(bodies[1]))
	for cut := 1; cut <= cellLen; cut++ {
		if _, state := Seed(0).VerifyJSON(line[:len(line)-cut]); state != Bad {
			t.Errorf("cut by %d: %v", cut, state)
		}
	}
	for _, other := range [][]byte{line[1:], append([]byte{' '}, line...), append(bytes.Clone(line), ' '), append(bytes.Clone(line), line...)} {
		if _, state := Seed(0).VerifyJSON(other); state != Bad {
			t.Errorf("%s: %v", other, state)
		}
	}
}

func TestNoObject(t *testing.T) {
	for _, text := range []string{"", "{}", "[1]", "}"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was given a checksum", text)
				}
			}()
			Seed(0).AppendJSON([]byte(text))
		}()
	}
}

// FuzzVerify checks that only lines from AppendJSON, Seal or AppendCSV are good, and that verifying these lines returns
// the original.
func FuzzVerify(f *testing.F) {
	for _, body := range bodies {
		f.Add([]byte("a,check"), Seed(0).AppendJSON([]byte(body)))
		f.Add([]byte("a,check"), Seal([]byte(strings.TrimSuffix(body, "}")+"\n}\n")))
	}
	f.Add([]byte("a,check"), Seed(0).AppendCSV([]byte("a,check"), []byte("1")))
	f.Add([]byte("a\tcheck"), []byte("1\tcrc32c:00000000"))
	f.Fuzz(func(t *testing.T, header, text []byte) {
		for name, again := range map[string]func() ([]byte, State, func([]byte) []byte){
			"JSON": func() ([]byte, State, func([]byte) []byte) {
				b, s := Seed(0).VerifyJSON(text)
				return b, s, Seed(0).AppendJSON
			},
			"sealed": func() ([]byte, State, func([]byte) []byte) { b, s := VerifySealed(text); return b, s, Seal },
			"CSV": func() ([]byte, State, func([]byte) []byte) {
				b, s := Seed(0).VerifyCSV(header, text)
				return b, s, func(row []byte) []byte { return Seed(0).AppendCSV(header, row) }
			},
		} {
			body, state, add := again()
			if state == Absent && !bytes.Equal(body, text) {
				t.Errorf("%s: without a checksum, %q became %q", name, text, body)
			}
			if state != Good {
				continue
			}
			if whole := add(body); !bytes.Equal(whole, text) {
				t.Errorf("%s: good is %q, but %q is written", name, text, whole)
			}
		}
	})
}
