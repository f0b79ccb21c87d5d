package tenon

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A PublishOption is an argument of tenon.publish, whose documentation says what is allowed.
type PublishOption func(*publishing)

type publishing struct {
	options
	err error
}

// Headers are the headers of the message: a map or struct that encoding/json makes an object of.
func Headers(headers any) PublishOption { return publishJSON("headers", headers) }

// Properties are AMQP properties: type, app_id, correlation_id, reply_to, content_encoding and priority.
func Properties(properties map[string]any) PublishOption {
	return publishJSON("properties", properties)
}

// MessageID is the AMQP property message-id; a random UUID by default.
func MessageID(id string) PublishOption { return publishSet("message_id", "text", id) }

// MessageIDs has the message id of each message of [PublishMany]; "" means a random one.
func MessageIDs(ids ...string) PublishOption { return publishSet("message_ids", "text[]", ids) }

// ContentType is the AMQP property content-type; by default what the body is.
func ContentType(text string) PublishOption { return publishSet("content_type", "text", text) }

// OrderKey is shared by messages that are sent one after the other, in the order of their commits.
func OrderKey(key string) PublishOption { return publishSet("order_key", "text", key) }

// Expires is the time after which the message is not sent any more, and RabbitMQ discards it.
func Expires(d time.Duration) PublishOption { return publishSet("expires", "interval", interval(d)) }

// MessageTrace is a W3C traceparent, which becomes the header traceparent.
func MessageTrace(traceparent string) PublishOption {
	return publishSet("trace", "text", traceparent)
}

// PublishNoNotify is for transactions that will be prepared (PREPARE TRANSACTION).
func PublishNoNotify() PublishOption { return publishSet("notify", "boolean", false) }

func publishSet(name, cast string, value any) PublishOption {
	return func(p *publishing) { p.set(name, cast, value) }
}

func publishJSON(name string, value any) PublishOption {
	return func(p *publishing) {
		text, err := encode(value)
		if err == nil {
			err = storable(text)
		}
		if err != nil {
			p.err = fmt.Errorf("%s is not JSON for PostgreSQL: %w", name, err)
		}
		p.set(name, "jsonb", json.RawMessage(text))
	}
}

// Publish publishes a message to an exchange of RabbitMQ in the transaction of db, and returns its number in
// tenon.outbox. It is sent after the commit, and never if the transaction rolls back. The body is []byte, a string, or
// anything else that encoding/json can encode.
func Publish[R Row](ctx context.Context, db DB[R], exchange, routingKey string, body any, opts ...PublishOption) (int64, error) {
	form, text, err := formOf(body)
	if err != nil {
		return 0, err
	}
	c := &call{}
	in := c.param("text", exchange) + ", " + c.param("text", routingKey) + ", " + c.param(form, text)
	options, err := publishArguments(c, opts)
	if err != nil {
		return 0, err
	}
	c.text = "SELECT tenon.publish(" + in + options + ")"
	return one[int64](ctx, db, c)
}

// PublishMany publishes up to 100,000 messages in one statement, and returns their numbers in the same order. The bodies
// are all []byte, all strings, or all JSON.
func PublishMany[B any, R Row](ctx context.Context, db DB[R], exchange, routingKey string, bodies []B, opts ...PublishOption) ([]int64, error) {
	form, list, err := formOfAll(bodies)
	if err != nil {
		return nil, err
	}
	c := &call{}
	elements := "json_array_elements_text"
	if form == "json" {
		elements = "json_array_elements"
	}
	in := fmt.Sprintf("%s, %s, ARRAY(SELECT e::%s FROM %s(%s) WITH ORDINALITY l (e, n) ORDER BY n)",
		c.param("text", exchange), c.param("text", routingKey), form, elements, c.param("json", list))
	options, err := publishArguments(c, opts)
	if err != nil {
		return nil, err
	}
	c.text = "SELECT to_json(tenon.publish_many(" + in + options + "))::text"
	all, err := one[string](ctx, db, c)
	if err != nil {
		return nil, err
	}
	var ids []int64
	return ids, json.Unmarshal([]byte(all), &ids)
}

func publishArguments(c *call, opts []PublishOption) (string, error) {
	p := &publishing{}
	for _, option := range opts {
		option(p)
	}
	return p.arguments(c), p.err
}

// formOf is what a body is in SQL, and its text.
func formOf(body any) (form, text string, err error) {
	switch b := body.(type) {
	case []byte:
		return "bytea", `\x` + hex.EncodeToString(b), nil
	case string:
		return "text", b, nil
	}
	encoded, err := encode(body)
	if err == nil {
		err = storable(encoded)
	}
	if err != nil {
		return "", "", fmt.Errorf("the body is not JSON for PostgreSQL: %w", err)
	}
	return "json", string(encoded), nil
}

// formOfAll is the same of many, as a JSON array; for JSON, texts among them are JSON as well.
func formOfAll[B any](bodies []B) (form, list string, err error) {
	texts, forms := make([]string, len(bodies)), map[string]bool{}
	for i, body := range bodies {
		if form, texts[i], err = formOf(body); err != nil {
			return "", "", fmt.Errorf("element %d: %w", i, err)
		}
		forms[form] = true
	}
	if forms["bytea"] && len(forms) > 1 {
		return "", "", errors.New("the bodies are of different forms; they should all be bytes, strings or JSON")
	}
	var all any = texts
	if forms["json"] {
		form, all = "json", bodies
	} else if len(bodies) == 0 {
		form = "text"
	}
	encoded, err := encode(all)
	return form, string(encoded), err
}
