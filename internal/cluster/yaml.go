package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// YAML writes the manifest as people edit it: the fields of its JSON, in their order.
func (m Manifest) YAML() (string, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return "", err
	}
	d := json.NewDecoder(&text)
	d.UseNumber()
	var b strings.Builder
	token, err := d.Token()
	if err == nil {
		err = writeYAML(&b, d, token, "", "")
	}
	return b.String(), err
}

// writeYAML writes the value that token begins. Its first line comes after lead, further ones after indent.
func writeYAML(b *strings.Builder, d *json.Decoder, token json.Token, lead, indent string) error {
	delimiter, nested := token.(json.Delim)
	if !nested {
		fmt.Fprintf(b, "%s %s\n", strings.TrimSuffix(lead, " "), scalar(token))
		return nil
	}
	for first := true; d.More(); first = false {
		begin := indent
		if first && strings.HasSuffix(lead, "- ") {
			begin = lead
		} else if first {
			b.WriteString(lead)
			if lead != "" {
				b.WriteString("\n")
			}
		}
		inner := indent + "  "
		if delimiter == '{' {
			key, err := d.Token()
			if err != nil {
				return err
			}
			begin += scalar(key) + ":"
		} else {
			begin += "- "
		}
		value, err := d.Token()
		if err != nil {
			return err
		}
		if err := writeYAML(b, d, value, begin, inner); err != nil {
			return err
		}
	}
	_, err := d.Token() // the end
	return err
}

var (
	plainScalar = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9._/-]*$`)
	otherKind   = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|true|false|null)$`) // that YAML 1.1 takes for no string
)

// scalar is a string, a number or a truth value in YAML, of which JSON's are a part.
func scalar(token json.Token) string {
	s, text := token.(string)
	if !text {
		return fmt.Sprint(token)
	}
	if plainScalar.MatchString(s) && !otherKind.MatchString(s) {
		return s
	}
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return strings.TrimSpace(quoted.String())
}
