package tenon

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
)

type envelope struct {
	Why, Kind, What, Plain, Error string
	Envelope                      json.RawMessage
}

// The envelopes that every client writes and reads.
func TestEnvelopes(t *testing.T) {
	var all struct {
		Keys    map[string]string
		Sealed  []envelope
		Refused []envelope
	}
	text, err := os.ReadFile("../conformance/secrets.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all.Sealed {
		var parts map[string]sealed
		if err := json.Unmarshal(one.Envelope, &parts); err != nil {
			t.Fatal(err)
		}
		first := parts[envelopeKey]
		words := first.Key + ":" + all.Keys[first.Key]
		for id, key := range all.Keys {
			if id != first.Key {
				words += " " + id + ":" + key
			}
		}
		keys, err := ParseKeys(words)
		if err != nil {
			t.Fatal(err)
		}
		again, err := keys.seal([]byte(one.Plain), one.Kind, one.What, first.Nonce)
		if err != nil || !sameJSON(again, one.Envelope) {
			t.Errorf("%s, not %s: %v", again, one.Envelope, err)
		}
		if plain, err := keys.Decrypt(one.Envelope, one.Kind, one.What); string(plain) != one.Plain {
			t.Errorf("%s, not %s: %v", plain, one.Plain, err)
		}
	}
	words := "" // the newest first
	for id, key := range all.Keys {
		if word := id + ":" + key; word > words {
			words = word + " " + words
		} else {
			words += " " + word
		}
	}
	keys, _ := ParseKeys(words)
	for _, one := range all.Refused {
		_, err := keys.Decrypt(one.Envelope, one.Kind, one.What)
		var secret *SecretError
		if !errors.As(err, &secret) || !strings.Contains(err.Error(), one.Error) {
			t.Errorf("%s: %v, not %s", one.Why, err, one.Error)
		}
	}
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func TestKeys(t *testing.T) {
	for _, wrong := range []string{"", "a", "a:x!", ":AAAA", "a:AAAA", "b b:" + strings.Repeat("A", 43) + "="} {
		if _, err := ParseKeys(wrong); err == nil || strings.Contains(err.Error(), "AAAA") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
