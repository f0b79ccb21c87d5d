package tenon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

const (
	progressBytesMax = 64 << 10
	delayMax         = 30 * 24 * time.Hour
	// late is how long after the deadline the context is cancelled: the worker is to be the first that says so.
	late = 50 * time.Millisecond
)

// A Run is one attempt of a task: what its handler knows about it, and may say about it. Its methods may be called from
// several goroutines, until the handler returns.
type Run struct {
	ID    int64 // the same for all attempts: an idempotency key
	Kind  string
	Queue string
	// Attempt is 1 + failures + crashes.
	Attempt, Failures, MaxAttempts int
	// Trace is the W3C traceparent that was given when the task was enqueued, or "".
	Trace string
	// Claim is the claim token, for SQL of your own. It is a secret while the task runs.
	Claim string
	// Raw is the payload as JSON.
	Raw json.RawMessage
	// Checkpoint is the progress that this or an earlier attempt recorded last, as JSON; nil: none.
	Checkpoint json.RawMessage

	say      func(line []byte)
	cancel   context.CancelCauseFunc
	draining chan struct{}
	secret   Secret
	hides    bool // errors without their messages

	mu        sync.Mutex
	ended     bool
	deadline  time.Time
	timer     *time.Timer
	steps     map[string]json.RawMessage
	uncertain map[string]bool      // recorded in a transaction that may have rolled back
	doing     map[string]bool      // steps that are being done
	asked     map[string]chan bool // steps that the worker has not confirmed
	over      error                // why it confirms no more
	suspended *Suspended
}

type runKey struct{}

// RunFrom returns the run of the handler that ctx was given to, for logs and traces.
func RunFrom(ctx context.Context) (*Run, bool) {
	run, ok := ctx.Value(runKey{}).(*Run)
	return run, ok
}

// Deadline is when the time limit of this run is reached.
func (r *Run) Deadline() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deadline
}

// Draining is closed when the worker begins to drain. The context remains valid until the worker's drain limit (25 s by
// default). A handler that takes longer should return [ErrInterrupted], to continue elsewhere from its checkpoint.
func (r *Run) Draining() <-chan struct{} {
	return r.draining
}

// Progress records a value, however often it is called: the worker stores the last one about once a second, and the
// next attempt finds it in Checkpoint. At most 64 KiB.
func (r *Run) Progress(value any) error {
	text, err := encode(value)
	if err == nil {
		err = storable(text)
	}
	if err != nil {
		return fmt.Errorf("the progress of %s is not JSON for PostgreSQL: %w", r.Kind, err)
	}
	sealed, err := r.seal(text, "progress")
	if err != nil {
		return err
	}
	if n := printedBytes(sealed); n > progressBytesMax {
		return fmt.Errorf("the progress of %s has %d bytes; at most %d are kept", r.Kind, n, progressBytesMax)
	}
	r.mu.Lock()
	r.Checkpoint = text
	r.mu.Unlock()
	r.tell(fmt.Appendf(nil, `{"id":%d,"progress":%s}`, r.ID, sealed))
	return nil
}

// Resume reads the checkpoint into value and returns whether there was one.
func (r *Run) Resume(value any) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Checkpoint == nil {
		return false, nil
	}
	return true, json.Unmarshal(r.Checkpoint, value)
}

// Extend moves the deadline to this time from now, if that is later; 1 ms to 30 days.
func (r *Run) Extend(d time.Duration) error {
	if d < time.Millisecond || d > delayMax {
		return fmt.Errorf("extend by 1 ms to 30 days, not by %v", d)
	}
	r.mu.Lock()
	if until := time.Now().Add(d); until.After(r.deadline) {
		r.deadline = until
		r.timer.Reset(d + late)
	}
	r.mu.Unlock()
	r.tell(fmt.Appendf(nil, `{"id":%d,"extend_ms":%d}`, r.ID, d.Milliseconds()))
	return nil
}

// Steps are the recorded steps and the signals that came, as JSON by their names.
func (r *Run) Steps() map[string]json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.steps)
}

func (r *Run) run() *Run { return r }

// A taskLine is what the worker says of a task.
type taskLine struct {
	ID          int64                      `json:"id"`
	Kind        string                     `json:"kind"`
	Queue       string                     `json:"queue"`
	Attempt     int                        `json:"attempt"`
	Failures    int                        `json:"failures"`
	MaxAttempts int                        `json:"max_attempts"`
	TimeoutMS   int64                      `json:"timeout_ms"`
	Claim       string                     `json:"claim"`
	Trace       string                     `json:"trace"`
	Progress    json.RawMessage            `json:"progress"`
	Steps       map[string]json.RawMessage `json:"steps"`
	Payload     json.RawMessage            `json:"payload"`
}

func newRun(parent context.Context, line *taskLine, draining chan struct{}, say func([]byte)) (context.Context, *Run) {
	r := &Run{
		ID: line.ID, Kind: line.Kind, Queue: line.Queue, Attempt: line.Attempt, Failures: line.Failures,
		MaxAttempts: line.MaxAttempts, Trace: line.Trace, Claim: line.Claim, Raw: line.Payload,
		say: say, draining: draining, steps: line.Steps,
		uncertain: map[string]bool{}, doing: map[string]bool{}, asked: map[string]chan bool{},
	}
	if string(line.Progress) != "null" {
		r.Checkpoint = line.Progress
	}
	if r.steps == nil {
		r.steps = map[string]json.RawMessage{}
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, runKey{}, r))
	r.cancel = cancel
	limit := time.Duration(line.TimeoutMS) * time.Millisecond
	r.deadline = time.Now().Add(limit)
	r.timer = time.AfterFunc(limit+late, func() { r.stop(ErrTimeout) })
	return ctx, r
}

// open decrypts what came encrypted. If all of the task is secret, what it says is encrypted from here on.
func (r *Run) open(secret Secret) (err error) {
	r.secret = secret
	r.hides = secret != NotSecret || isEnvelope(r.Raw) || isEnvelope(r.Checkpoint)
	open := func(value json.RawMessage, what string) json.RawMessage {
		r.hides = r.hides || isEnvelope(value)
		plain, e := unseal(value, r.Kind, what)
		err = errors.Join(err, e)
		return plain
	}
	r.Raw = open(r.Raw, "payload")
	r.Checkpoint = open(r.Checkpoint, "progress")
	for name, value := range r.steps {
		r.steps[name] = open(value, "step:"+name)
	}
	return err
}

// seal makes of JSON text what leaves this process.
func (r *Run) seal(text []byte, what string) ([]byte, error) {
	if r.secret != SecretAll {
		return text, nil
	}
	return seal(text, r.Kind, what)
}

// stop cancels the context; the worker confirms no more steps.
func (r *Run) stop(why error) {
	r.cancel(why)
	r.endOfSteps(why)
}

// end makes what is said from now on too late.
func (r *Run) end() {
	r.mu.Lock()
	r.ended = true
	r.timer.Stop()
	r.mu.Unlock()
	r.cancel(nil)
}

func (r *Run) tell(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.say(line)
	}
}
