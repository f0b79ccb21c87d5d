package tenon

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Ended is how a task has ended, or its state.
type Ended struct {
	ID int64 `json:"id"`
	// State is "done", "dead", "cancelled", "expired", or what the task does now, such as "ready"; "" if there is no such
	// task, or no longer.
	State string `json:"state"`
	// Result is what the handler returned; nil if the task is not done, or returned nothing.
	Result json.RawMessage `json:"result,omitempty"`
	// Error is the last error, if the task is not done.
	Error string `json:"error,omitempty"`
	// Progress is what a task that has not ended reported last; nil: nothing.
	Progress json.RawMessage `json:"progress,omitempty"`
}

// Over is whether the task has ended, or does not exist.
func (e Ended) Over() bool {
	switch e.State {
	case "done", "dead", "cancelled", "expired", "":
		return true
	}
	return false
}

// Into reads the result into value. It fails if the task is not done.
func (e Ended) Into(value any) error {
	if e.State != "done" {
		return fmt.Errorf("task %d is %s: %s", e.ID, e.State, e.Error)
	}
	if e.Result == nil {
		return nil
	}
	return json.Unmarshal(e.Result, value)
}

// Result returns how a task has ended, or its state; it does not wait. For the role that enqueued it, and for readers.
func Result[R Row](ctx context.Context, db DB[R], id int64) (Ended, error) {
	c := &call{}
	c.text = "SELECT to_jsonb(r)::text FROM tenon.result(" + c.param("bigint", number(id)) + ") r"
	text, err := one[string](ctx, db, c)
	if err != nil {
		return Ended{}, err
	}
	e := Ended{ID: id}
	err = json.Unmarshal([]byte(text), &e)
	if string(e.Result) == "null" {
		e.Result = nil
	}
	if string(e.Progress) == "null" {
		e.Progress = nil
	}
	return e, err
}

// Cancel cancels a task that has not ended, also if it runs; it returns whether there was one.
func Cancel[R Row](ctx context.Context, db DB[R], id int64) (bool, error) {
	c := &call{}
	c.text = "SELECT tenon.cancel(" + c.param("bigint", number(id)) + ")"
	return one[bool](ctx, db, c)
}

// Retry makes a dead, cancelled or expired task ready again. From a step on, if fromStep is not "": that step and those
// recorded after it are forgotten. For operators.
func Retry[R Row](ctx context.Context, db DB[R], id int64, fromStep string) (bool, error) {
	c := &call{}
	step := ""
	if fromStep != "" {
		step = ", from_step => " + c.param("text", fromStep)
	}
	c.text = "SELECT tenon.retry(" + c.param("bigint", number(id)) + step + ")"
	return one[bool](ctx, db, c)
}

// RunNow makes a scheduled or retrying task ready at once; it returns whether it did. For operators.
func RunNow[R Row](ctx context.Context, db DB[R], id int64) (bool, error) {
	c := &call{}
	c.text = "SELECT tenon.run_now(" + c.param("bigint", number(id)) + ")"
	return one[bool](ctx, db, c)
}

// Signal sends a signal to the tasks that wait for it, or will soon. It returns whether this is the first of that name.
func Signal[R Row](ctx context.Context, db DB[R], name string, payload any) (bool, error) {
	text, err := encode(payload)
	if err != nil {
		return false, err
	}
	c := &call{}
	c.text = "SELECT tenon.signal(" + c.param("text", name) + ", " + c.param("jsonb", string(text)) + ")"
	return one[bool](ctx, db, c)
}

// NewFlow makes an empty flow, for the option [Flow].
func NewFlow[R Row](ctx context.Context, db DB[R], name string) (int64, error) {
	c := &call{}
	c.text = "SELECT tenon.flow(NULLIF(" + c.param("text", name) + ", ''))"
	return one[int64](ctx, db, c)
}

// A Batch is a flow that enqueues other tasks when all of its own have ended. Its fields are the arguments of tenon.batch.
type Batch struct {
	OnDone, OnDead, OnEnd string // kinds
	Payload               any    // of these tasks
	Name                  string
}

// NewBatch makes a batch, for the option [Flow]. It is open until [CloseBatch].
func NewBatch[R Row](ctx context.Context, db DB[R], b Batch) (int64, error) {
	c := &call{}
	payload, err := payloadOr(b.Payload)
	if err != nil {
		return 0, err
	}
	kind := func(name string) string { return "NULLIF(" + c.param("text", name) + ", '')" }
	c.text = fmt.Sprintf("SELECT tenon.batch(on_done => %s, on_dead => %s, on_end => %s, payload => %s, name => %s)",
		kind(b.OnDone), kind(b.OnDead), kind(b.OnEnd), c.param("jsonb", payload), kind(b.Name))
	return one[int64](ctx, db, c)
}

// CloseBatch says that all tasks of a batch have been added; it returns whether it was open.
func CloseBatch[R Row](ctx context.Context, db DB[R], id int64) (bool, error) {
	c := &call{}
	c.text = "SELECT tenon.close(" + c.param("bigint", number(id)) + ")"
	return one[bool](ctx, db, c)
}

// CancelFlow cancels the tasks of a flow or batch that have not ended; it returns how many it cancelled at once.
func CancelFlow[R Row](ctx context.Context, db DB[R], id int64) (int, error) {
	c := &call{}
	c.text = "SELECT tenon.cancel_flow(" + c.param("bigint", number(id)) + ")"
	return one[int](ctx, db, c)
}

// A Parent is one of the tasks in DependsOn of a task, and what it returned.
type Parent struct {
	ID     int64           `json:"id"`
	Name   string          `json:"name"`
	State  string          `json:"state"`
	Result json.RawMessage `json:"result"`
}

// Parents returns what the parents of a running task returned.
func Parents[R Row](ctx context.Context, db DB[R], t Runner) (parents []Parent, err error) {
	c, list := &call{}, ""
	c.text = "SELECT coalesce(json_agg(p), '[]')::text FROM tenon.parent_results(" + c.param("text", t.run().Claim) + ") p"
	if err := query(ctx, db, c, &list); err != nil {
		return nil, err
	}
	err = json.Unmarshal([]byte(list), &parents)
	return parents, err
}

// TakeLimit takes n of the rate of a limit key, for a handler that calls a limited service itself. It returns 0 if they
// were taken, and else how long to wait before asking again.
func TakeLimit[R Row](ctx context.Context, db DB[R], key string, n int) (wait time.Duration, err error) {
	c, ms := &call{}, int64(0)
	c.text = "SELECT tenon.take_limit(" + c.param("text", key) + ", " + c.param("integer", strconv.Itoa(n)) + ")"
	err = query(ctx, db, c, &ms)
	return time.Duration(ms) * time.Millisecond, err
}

func payloadOr(payload any) (string, error) {
	if payload == nil {
		return "{}", nil
	}
	text, err := encode(payload)
	return string(text), err
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
