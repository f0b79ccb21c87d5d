package tenon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	errorBytesMax  = 8191
	classBytesMax  = 100
	resultBytesMax = 2_000_000 // with the rest of its line less than the worker's 2 MiB
	noteBytesMax   = 500
)

// A reply is how an attempt ends, without its id.
type reply struct {
	Outcome    string          `json:"outcome"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      string          `json:"error,omitempty"`
	ErrorClass string          `json:"error_class,omitempty"`
	DelayMS    int64           `json:"delay_ms,omitempty"`
	Signal     string          `json:"signal,omitempty"`
	TimeoutMS  int64           `json:"timeout_ms,omitempty"`
}

func (r reply) line(id int64) []byte {
	text, err := encode(r)
	if err != nil {
		text, _ = encode(reply{Outcome: "failed", Error: cut(err.Error(), errorBytesMax)})
	}
	return append(fmt.Appendf(nil, `{"id":%d,`, id), text[1:]...)
}

// attempt runs a handler, and makes a reply of what comes of it.
func attempt(ctx context.Context, h handler, r *Run) (answer reply) {
	if err := r.open(h.options.secret); err != nil {
		return failure(ctx, err, r)
	}
	returned := false
	defer func() {
		if !returned {
			answer = panicked(recover(), r.hides)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.suspended != nil {
			answer = r.suspended.reply
		}
	}()
	result, err := h.run(ctx, r)
	returned = true
	if err != nil {
		return failure(ctx, err, r)
	}
	return done(result, r)
}

// done is the reply with a result. One that cannot be kept does not undo the work: a note replaces it, as the worker does.
func done(result any, r *Run) reply {
	if result == nil {
		return reply{Outcome: "done"}
	}
	text, err := encode(result)
	if err == nil {
		err = storable(text)
	}
	if err == nil {
		text, err = r.seal(text, "result")
	}
	if err == nil && len(text) > resultBytesMax {
		err = fmt.Errorf("it has %d bytes; at most %d are kept", len(text), resultBytesMax)
	}
	if err != nil {
		why := err.Error()
		if r.hides {
			why = classOf(err)
		}
		text, _ = encode("tenon: the result was not kept: " + cut(why, noteBytesMax))
	}
	return reply{Outcome: "done", Result: text}
}

// failure is the reply that an error stands for.
func failure(ctx context.Context, err error, r *Run) reply {
	var said *outcome
	if !errors.As(err, &said) {
		if wasStopped(ctx, err) {
			return reply{Outcome: "interrupted"}
		}
		said = &outcome{name: "failed"}
	} else if said.name == "interrupted" {
		return reply{Outcome: "interrupted"}
	}
	answer := reply{Outcome: said.name, Error: message(err, r.hides)}
	if said.name != "snooze" {
		answer.ErrorClass = classOf(err)
	}
	if said.delay > 0 {
		answer.DelayMS = milliseconds(min(said.delay, delayMax))
	}
	return answer
}

// wasStopped: the error says that the context was cancelled, because the task should stop; but not its time limit.
func wasStopped(ctx context.Context, err error) bool {
	why := context.Cause(ctx)
	for _, stop := range []error{ErrCancelled, ErrLost, ErrDrain} {
		if errors.Is(why, stop) {
			return errors.Is(err, context.Canceled) || errors.Is(err, why)
		}
	}
	return false
}

func panicked(why any, hides bool) reply {
	text, class := fmt.Sprintf("panic: %v", why), "panic"
	if err, ok := why.(error); ok {
		if named := classOf(err); named != plain {
			class = named
		}
	}
	if hides {
		text = class + " (its message is not kept, because the task is secret)"
	}
	return reply{Outcome: "failed", Error: cut(text+"\n\n"+stack(), errorBytesMax), ErrorClass: class}
}

// stack is where a panic came from, without the frames of recovering.
func stack() string {
	lines := strings.Split(string(debug.Stack()), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "panic(") && i+2 < len(lines) {
			return strings.Join(lines[i+2:], "\n")
		}
	}
	return strings.Join(lines, "\n")
}

// message of an error. One that was given on purpose is kept also if the task is secret.
func message(err error, hides bool) string {
	var said *outcome
	var invalid *invalidPayload
	var sealed *SecretError
	if hides && !errors.As(err, &sealed) && (!errors.As(err, &said) || errors.As(err, &invalid)) {
		return classOf(err) + " (its message is not kept, because the task is secret)"
	}
	return cut(err.Error(), errorBytesMax)
}

const plain = "error"

// classOf groups errors: by their SQLSTATE, or by the first type of their own among the wrapped ones, such as fs.PathError.
// Others are "error": the first word of their text, which the worker would take, says less.
func classOf(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) && state.SQLState() != "" {
		return state.SQLState()
	}
	if name := typeName(err); name != "" {
		return cut(name, classBytesMax)
	}
	return plain
}

func typeName(err error) string {
	of := reflect.TypeOf(err)
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch of.PkgPath() {
	case "", "errors", "fmt", reflect.TypeFor[outcome]().PkgPath():
		if of == reflect.TypeFor[SecretError]() {
			return of.String()
		}
	default:
		return of.String()
	}
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		if inner := wrapper.Unwrap(); inner != nil {
			return typeName(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wrapper.Unwrap() {
			if name := typeName(inner); name != "" {
				return name
			}
		}
	}
	return ""
}

// cut leaves out the middle of a text that has more bytes than this, and U+0000, which PostgreSQL cannot store.
func cut(text string, most int) string {
	text = strings.ReplaceAll(text, "\x00", "\ufffd")
	if len(text) <= most {
		return text
	}
	const gap = "\n[...]\n"
	half := (most - len(gap)) / 2
	head, tail := text[:half], text[len(text)-half:]
	for len(head) > 0 && !utf8.ValidString(head[max(0, len(head)-utf8.UTFMax):]) {
		head = head[:len(head)-1]
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return head + gap + tail
}

func milliseconds(d time.Duration) int64 {
	return max(d.Round(time.Millisecond).Milliseconds(), 1)
}
