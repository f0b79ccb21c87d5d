package tenon

import (
	"bytes"
	"encoding/json"
	"errors"
)

// encode is the JSON text of a value on one line, without the escapes that only HTML needs.
func encode(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

// storable fails for JSON text with U+0000, which PostgreSQL has in no text: its own error would abort the transaction.
func storable(text []byte) error {
	for at := 0; ; at++ {
		found := bytes.Index(text[at:], []byte(`\u0000`))
		if found < 0 {
			return nil
		}
		at += found
		before := at
		for before > 0 && text[before-1] == '\\' {
			before--
		}
		if (at-before)%2 == 0 {
			return errors.New(`it has \u0000 in a text`)
		}
	}
}

// printedBytes is how long PostgreSQL prints JSON text at most: it puts a blank behind commas and colons.
func printedBytes(text []byte) int {
	return len(text) + bytes.Count(text, []byte(",")) + bytes.Count(text, []byte(":"))
}
