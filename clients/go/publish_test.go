package tenon_test

import (
	"encoding/hex"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5"

	tenon "github.com/tenon-tasks/tenon/clients/go"
)

type publishCase struct {
	Name       string
	Exchange   string
	RoutingKey string `json:"routing_key"`
	Text       any
	Hex        any
	JSON       json.RawMessage
	Options    map[string]any
	Row        map[string]any
	Rows       []map[string]any
	BodyHex    *string           `json:"body_hex"`
	BodyJSON   json.RawMessage   `json:"body_json"`
	BodiesHex  []string          `json:"bodies_hex"`
	BodiesJSON []json.RawMessage `json:"bodies_json"`
	ExpiresMS  int               `json:"expires_ms"`
	Error      string
}

func (c publishCase) options(t *testing.T) (opts []tenon.PublishOption) {
	for name, value := range c.Options {
		of := map[string]func() tenon.PublishOption{
			"headers":      func() tenon.PublishOption { return tenon.Headers(value) },
			"properties":   func() tenon.PublishOption { return tenon.Properties(value.(map[string]any)) },
			"message_id":   func() tenon.PublishOption { return tenon.MessageID(value.(string)) },
			"message_ids":  func() tenon.PublishOption { return tenon.MessageIDs(texts(value)...) },
			"content_type": func() tenon.PublishOption { return tenon.ContentType(value.(string)) },
			"order_key":    func() tenon.PublishOption { return tenon.OrderKey(value.(string)) },
			"expires":      func() tenon.PublishOption { return tenon.Expires(span(t, value)) },
			"trace":        func() tenon.PublishOption { return tenon.MessageTrace(value.(string)) },
			"notify":       tenon.PublishNoNotify,
		}[name]
		opts = append(opts, of())
	}
	return opts
}

func unhex(t *testing.T, text string) []byte {
	bytes, err := hex.DecodeString(text)
	must(t, err)
	return bytes
}

func (c publishCase) publish(t *testing.T, tx pgx.Tx) (int64, error) {
	var body any = c.JSON
	switch {
	case c.Hex != nil:
		body = unhex(t, c.Hex.(string))
	case c.Text != nil:
		body = c.Text
	}
	return tenon.Publish(t.Context(), tx, c.Exchange, c.RoutingKey, body, c.options(t)...)
}

func (c publishCase) publishMany(t *testing.T, tx pgx.Tx) ([]int64, error) {
	if c.Hex != nil {
		var bodies [][]byte
		for _, one := range texts(c.Hex) {
			bodies = append(bodies, unhex(t, one))
		}
		return tenon.PublishMany(t.Context(), tx, c.Exchange, c.RoutingKey, bodies, c.options(t)...)
	}
	if c.Text != nil {
		return tenon.PublishMany(t.Context(), tx, c.Exchange, c.RoutingKey, texts(c.Text), c.options(t)...)
	}
	var bodies []any
	must(t, json.Unmarshal(c.JSON, &bodies))
	return tenon.PublishMany(t.Context(), tx, c.Exchange, c.RoutingKey, bodies, c.options(t)...)
}

func checkMessage(t *testing.T, tx pgx.Tx, id int64, wanted map[string]any, hexBody *string, jsonBody json.RawMessage) {
	t.Helper()
	var row map[string]any
	must(t, json.Unmarshal([]byte(value[string](t, tx, "SELECT to_jsonb(o)::text FROM tenon.outbox o WHERE id = $1", id)), &row))
	for key, want := range wanted {
		if !reflect.DeepEqual(row[key], want) {
			t.Errorf("%s is %v, not %v", key, row[key], want)
		}
	}
	got := value[string](t, tx, "SELECT encode(body, 'hex') FROM tenon.outbox WHERE id = $1", id)
	if hexBody != nil {
		if got != *hexBody {
			t.Errorf("the body is %s, not %s", got, *hexBody)
		}
		return
	}
	var have, want any
	must(t, json.Unmarshal(unhex(t, got), &have))
	must(t, json.Unmarshal(jsonBody, &want))
	if !reflect.DeepEqual(have, want) {
		t.Errorf("the body is %v, not %v", have, want)
	}
}

func TestPublishCases(t *testing.T) {
	all := cases[struct {
		Publish     []publishCase
		PublishMany []publishCase `json:"publish_many"`
	}](t, "publish.json")
	for _, c := range all.Publish {
		t.Run(c.Name, func(t *testing.T) {
			tx := inUTC(t)
			id, err := c.publish(t, tx)
			if c.Error != "" {
				wantState(t, err, c.Error)
				return
			}
			must(t, err)
			checkMessage(t, tx, id, c.Row, c.BodyHex, c.BodyJSON)
			if c.ExpiresMS > 0 {
				ms := value[int](t, tx, "SELECT (extract(epoch FROM expires_at - created_at) * 1000)::int FROM tenon.outbox WHERE id = $1", id)
				if ms != c.ExpiresMS {
					t.Errorf("it expires after %d ms, not %d", ms, c.ExpiresMS)
				}
			}
		})
	}
	for _, c := range all.PublishMany {
		t.Run("many: "+c.Name, func(t *testing.T) {
			tx := inUTC(t)
			ids, err := c.publishMany(t, tx)
			if c.Error != "" {
				wantState(t, err, c.Error)
				return
			}
			must(t, err)
			if len(ids) != len(c.Rows) {
				t.Fatal(ids)
			}
			for i, row := range c.Rows {
				if c.BodiesHex != nil {
					checkMessage(t, tx, ids[i], row, &c.BodiesHex[i], nil)
				} else {
					checkMessage(t, tx, ids[i], row, nil, c.BodiesJSON[i])
				}
			}
		})
	}
}

func TestPublishManyOfDifferentForms(t *testing.T) {
	if _, err := tenon.PublishMany(t.Context(), inUTC(t), "a", "b", []any{[]byte{1}, "text"}); err == nil {
		t.Error("no error")
	}
}
