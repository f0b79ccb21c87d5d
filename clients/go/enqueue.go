package tenon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
)

// Args is the payload of a task: a struct that encoding/json can encode, and that names its kind.
//
// It may also have a method TaskOptions() []tenon.Option, the options of every task of the kind; and a method
// Validate() error, which is called before the payload is enqueued and before it is handled.
type Args interface {
	Kind() string
}

// Of makes Args of any payload, for a kind that is handled in another language.
func Of(kind string, payload any) Args {
	return of{kind, payload}
}

type of struct {
	kind    string
	payload any
}

func (o of) Kind() string                 { return o.kind }
func (o of) MarshalJSON() ([]byte, error) { return json.Marshal(o.payload) }

// Enqueue enqueues one task in the transaction of db and returns its id: the task runs if the transaction commits, and
// never if it rolls back. With a connection or a pool instead of a transaction, it runs at once.
//
// Options of this call override those of args. What tenon does not allow is the driver's error with SQLSTATE 22023.
func Enqueue[R Row](ctx context.Context, db DB[R], args Args, opts ...Option) (int64, error) {
	given := optionsOf(args, opts)
	payload, err := given.payload(args)
	if err != nil {
		return 0, err
	}
	c := &call{}
	in := c.param("text", args.Kind()) + ", " + c.param("text", payload) + given.arguments(c)
	if given.wakeUps == nil {
		c.text = "SELECT tenon.enqueue(" + in + ")"
		return one[int64](ctx, db, c)
	}
	var up WakeUp
	c.text = "SELECT id, exchange, routing_key FROM tenon.enqueue_routed(" + in + ")"
	if err := query(ctx, db, c, &up.ID, &up.Exchange, &up.RoutingKey); err != nil {
		return 0, err
	}
	given.wakeUps.add(up)
	return up.ID, nil
}

// EnqueueMany enqueues up to 100,000 tasks of one kind in one statement, and returns their ids in the same order. The
// options apply to all of them, except [UniqueKeys], which has a key for each.
func EnqueueMany[P Args, R Row](ctx context.Context, db DB[R], args []P, opts ...Option) ([]int64, error) {
	if len(args) == 0 {
		return nil, nil
	}
	kind, given := args[0].Kind(), optionsOf(args[0], opts)
	payloads := make([]json.RawMessage, len(args))
	for i, one := range args {
		payload, err := given.payload(one)
		if err == nil && one.Kind() != kind {
			err = fmt.Errorf("it is of the kind %q, and the first one of %q", one.Kind(), kind)
		}
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		payloads[i] = json.RawMessage(payload)
	}
	all, err := encode(payloads)
	if err != nil {
		return nil, err
	}
	c := given.enqueueMany(kind, string(all))
	var list string
	var up WakeUp
	if err := query(ctx, db, c, &list, &up.Exchange, &up.RoutingKey); err != nil {
		return nil, err
	}
	var ids []int64
	if err := json.Unmarshal([]byte(list), &ids); err != nil {
		return nil, err
	}
	for _, up.ID = range ids {
		given.wakeUps.add(up)
	}
	return ids, nil
}

func (o *options) enqueueMany(kind, payloads string) *call {
	c := &call{}
	in := fmt.Sprintf("%s, ARRAY(SELECT json_array_elements(%s))%s",
		c.param("text", kind), c.param("json", payloads), o.arguments(c))
	if o.wakeUps == nil {
		c.text = fmt.Sprintf("SELECT to_json(tenon.enqueue_many(%s))::text, '', ''", in)
		return c
	}
	route := fmt.Sprintf("tenon.route_of(%s, %s)", c.param("text", kind), c.param("text", o.value("queue")))
	c.text = fmt.Sprintf(`SELECT to_json(tenon.enqueue_many(%s, announced => true))::text, r.exchange, r.routing_key
		FROM %s r`, in, route)
	return c
}

// payload is the JSON text of args, sealed if its task is secret.
func (o *options) payload(args Args) (string, error) {
	if args == nil {
		return "", errors.New("the payload is nil; give a struct with a method Kind")
	}
	if err := validate(args); err != nil {
		return "", fmt.Errorf("the payload does not fit %s: %w", args.Kind(), err)
	}
	text, err := encode(args)
	if err == nil {
		err = storable(text)
	}
	if err != nil {
		return "", fmt.Errorf("the payload of %s is not JSON for PostgreSQL: %w", args.Kind(), err)
	}
	if o.secret == NotSecret {
		return string(text), nil
	}
	if o.value("on_conflict") == "merge" {
		return "", fmt.Errorf("%s is secret: the database cannot merge encrypted payloads; use OnConflict(\"replace\")", args.Kind())
	}
	text, err = seal(text, args.Kind(), "payload")
	return string(text), err
}

// validate calls Validate of a payload, also if its receiver is a pointer.
func validate(payload any) error {
	type validator interface{ Validate() error }
	if v, ok := payload.(validator); ok {
		return v.Validate()
	}
	if payload == nil {
		return nil
	}
	at := reflect.New(reflect.TypeOf(payload))
	if v, ok := at.Interface().(validator); ok {
		at.Elem().Set(reflect.ValueOf(payload))
		return v.Validate()
	}
	return nil
}

// A WakeUp is a message that starts a task at once: publish its Body to its Exchange with its RoutingKey.
type WakeUp struct {
	ID                   int64
	Exchange, RoutingKey string
}

// Body is the text of the message: the id.
func (w WakeUp) Body() []byte {
	return strconv.AppendInt(nil, w.ID, 10)
}

// WakeUps collects the wake-ups of one transaction, for producers that publish them through RabbitMQ after the commit.
// Otherwise a cleaner wakes the workers. A lost wake-up costs about a second, never a task.
type WakeUps struct {
	waiting []WakeUp
}

func (w *WakeUps) add(up WakeUp) {
	if w != nil {
		w.waiting = append(w.waiting, up)
	}
}

// Take returns the wake-ups and forgets them. Call it after the commit.
func (w *WakeUps) Take() []WakeUp {
	taken := w.waiting
	w.waiting = nil
	return taken
}
