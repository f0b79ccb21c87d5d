package tenon

import (
	"errors"
	"fmt"
	"time"
)

// Why the context of a handler is cancelled: context.Cause(ctx) is one of these, or wraps it.
var (
	// ErrCancelled: the task was cancelled.
	ErrCancelled = errors.New("the task was cancelled")
	// ErrLost: the claim is no longer valid, because the task was recovered; it may run elsewhere.
	ErrLost = errors.New("the claim is lost: the task may run elsewhere")
	// ErrTimeout: the time limit of the run has passed.
	ErrTimeout = errors.New("the time limit has passed")
	// ErrDrain: the worker ends, and waits for this process no longer. Before that, [Run.Draining] is closed.
	ErrDrain = errors.New("the worker ends")
)

// ErrInterrupted, returned by a handler, ends the attempt early: the task is ready again at once, and no failure counts.
// A handler that returns the error of its cancelled context is interrupted too, unless its time limit has passed.
var ErrInterrupted error = &outcome{name: "interrupted", err: errors.New("interrupted")}

// Dead, returned by a handler, makes the task dead: it can never succeed, and is not retried.
func Dead(err error) error {
	if err == nil {
		err = errors.New("dead")
	}
	return &outcome{name: "dead", err: err}
}

// RetryAfter, returned by a handler, is a failure; the next attempt starts after this time instead of the retry policy's.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		err = fmt.Errorf("to be retried after %v", d)
	}
	return &outcome{name: "failed", delay: max(d, time.Millisecond), err: err}
}

// Snooze, returned by a handler, runs the task again after this time, and no failure counts; 0 means 60 s. To say why, wrap
// it: fmt.Errorf("too many requests: %w", tenon.Snooze(30*time.Second)).
func Snooze(d time.Duration) error {
	return &outcome{name: "snooze", delay: d, err: fmt.Errorf("snoozed for %v", d)}
}

type outcome struct {
	name  string
	delay time.Duration
	err   error
}

func (o *outcome) Error() string { return o.err.Error() }
func (o *outcome) Unwrap() error { return o.err }

// Suspended is the error of [WaitSignal] and [Sleep] when the task is to continue later: return it. The attempt ends
// without a failure, also if the handler ignores this error.
type Suspended struct {
	reply reply
}

func (s *Suspended) Error() string { return "the task continues later: return this error" }
