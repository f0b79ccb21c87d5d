package tenon

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// A Task is what a handler gets: its payload, and the run.
type Task[P any] struct {
	*Run
	Payload P
}

// A Handler runs a task of any kind. Middleware is made of it; [Handle] takes functions with a typed payload.
type Handler func(ctx context.Context, run *Run) (result any, err error)

// Middleware wraps each run: func(next tenon.Handler) tenon.Handler.
type Middleware func(next Handler) Handler

// A Mux has the handlers of a process by their kinds. Its zero value is ready to use.
type Mux struct {
	handlers   map[string]handler
	middleware []Middleware
}

type handler struct {
	run     Handler
	options *options
}

// Handle registers the handler of a payload's kind. What it returns is the task's result, as JSON; nil is no result. An
// error is a failure, which is retried; [Dead], [Snooze], [RetryAfter] and [ErrInterrupted] are other outcomes.
//
// A handler may run twice for one task, after a crash or a timeout: make the second run harmless, with t.ID as an
// idempotency key, or with [Finish].
func Handle[P Args, R any](m *Mux, run func(ctx context.Context, t *Task[P]) (R, error)) {
	var zero P
	handle(m, zero.Kind(), zero, run)
}

// HandleKind registers the handler of a kind whose payload has no method Kind.
func HandleKind[P, R any](m *Mux, kind string, run func(ctx context.Context, t *Task[P]) (R, error), opts ...Option) {
	handle(m, kind, nil, run, opts...)
}

func handle[P, R any](m *Mux, kind string, of any, run func(context.Context, *Task[P]) (R, error), opts ...Option) {
	if _, ok := m.handlers[kind]; ok {
		panic("tenon: two handlers for " + kind)
	}
	if m.handlers == nil {
		m.handlers = map[string]handler{}
	}
	typed := func(ctx context.Context, r *Run) (any, error) {
		task := &Task[P]{Run: r}
		err := json.Unmarshal(r.Raw, &task.Payload)
		if err == nil {
			err = validate(task.Payload)
		}
		if err != nil {
			return nil, &outcome{name: "dead", err: &invalidPayload{kind, err}}
		}
		return run(ctx, task)
	}
	m.handlers[kind] = handler{typed, optionsOf(of, opts)}
}

// Use adds middleware. The first that was added is the outermost.
func (m *Mux) Use(middleware ...Middleware) {
	m.middleware = append(m.middleware, middleware...)
}

// Kinds are the kinds that have a handler, sorted.
func (m *Mux) Kinds() []string {
	kinds := make([]string, 0, len(m.handlers))
	for kind := range m.handlers {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds
}

// handler of a run, with the middleware around it.
func (m *Mux) handler(kind string) (handler, bool) {
	h, ok := m.handlers[kind]
	for _, wrap := range slices.Backward(m.middleware) {
		h.run = wrap(h.run)
	}
	return h, ok
}

type invalidPayload struct {
	kind string
	err  error
}

func (e *invalidPayload) Error() string {
	return fmt.Sprintf("the payload does not fit %s: %v", e.kind, e.err)
}
func (e *invalidPayload) Unwrap() error { return e.err }
