package runfolder

import (
	"testing"

	"github.com/rscert/rscert/internal/certify"
)

// hasPlainKeys must accept the lines that rscert writes.
func TestHasPlainKeys(t *testing.T) {
	for _, v := range []struct {
		line any
		keys []string
	}{
		{votesLine{Votes: certify.Votes{N: 4, Counts: []int64{1, 3}, N0: 1, Counts0: []int64{1, 0}}, Compared: 2, Scores: "a\"]}b"}, votesKeys},
		{certify.Certificate{Method: "margin", Bounds: map[string]float64{"p_a": .5, "p_b": .25}}, certificateKeys},
	} {
		text, err := encode(v.line, "")
		if err != nil {
			t.Fatal(err)
		}
		if !hasPlainKeys(text, v.keys) {
			t.Errorf("%s", text)
		}
		if hasPlainKeys(text, append(v.keys, "other")) {
			t.Errorf("%s: has no key 'other'", text)
		}
	}
}

// FuzzPlainKeys checks that checkAnyKeys accepts everything that hasPlainKeys accepts.
func FuzzPlainKeys(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"a":1}`, `{"a":1,"a":2}`, `{"a":1,"A":2}`, `{"a":null}`, `{"a":[1,null]}`, `{"a":{"b":1,"b":2}}`, `{"a":{"b":{}},"b":[]}`,
		`{"a":"\"}","b":[[],{},{"a":1}]}`, `{"a":1} {"b":2}`, `{"a":1`, ` {"a" : [ 1 , 2 ] } `, `{"\u0061":1,"a":2}`, `{"K":1,"k":2}`, `[1]`, `{"a":-1.5e3,"b":true}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !hasPlainKeys(text, []string{"a"}) {
			return
		}
		if err := checkAnyKeys(text, []string{"a"}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	text := []byte(`{"index":1,"label":1,"prediction":1,"correct":true,"radius":0.230738259,"norm":"l2","margin":2.3082746,"method":"margin","margin_kind":"second","alpha":0.001,"sigma":0.2,"n":100,"sound":true,"arithmetic":"exact","precision":"f32","bounds":{"p_a":0.740258495,"p_b":0.259741505}}`)
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			if !hasPlainKeys(text, certificateKeys) {
				b.Fatal()
			}
		}
	})
	b.Run("any", func(b *testing.B) {
		for b.Loop() {
			if checkAnyKeys(text, certificateKeys) != nil {
				b.Fatal()
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		f := fileFormat[certify.Certificate]{keys: certificateKeys, valid: func(certify.Certificate) error { return nil }}
		for b.Loop() {
			if _, _, err := f.decode(line{text: text}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
