package tenon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	nameBytesMax = 100
	stepBytesMax = 1 << 20
	waitMax      = 365 * 24 * time.Hour
)

// A Runner is a *Task of any payload, or a *Run.
type Runner interface {
	run() *Run
}

// Step does work once, even after a crash: its value is recorded, and later attempts return it without doing the work.
//
// The worker records the step after it was done. If the record is lost before Step returns, the next attempt does it once
// more: give the other side an idempotency key. A step in your own database is done exactly once by [StepTx].
func Step[T any](ctx context.Context, t Runner, name string, work func(context.Context) (T, error)) (T, error) {
	return step[T](t.run(), name, func(r *Run) (value json.RawMessage, err error) {
		text, err := worked(ctx, r, name, work)
		if err != nil {
			return nil, err
		}
		return text, r.record(ctx, name, text)
	})
}

// StepTx is [Step] for work in your own transaction tx, which it does not commit: the work and its record commit
// together, so it is done exactly once. The driver's error with SQLSTATE 55000 means that the claim is lost: roll back.
func StepTx[T any, R Row](ctx context.Context, tx DB[R], t Runner, name string, work func(context.Context) (T, error)) (T, error) {
	return step[T](t.run(), name, func(r *Run) (json.RawMessage, error) {
		if kept, err := recorded(ctx, tx, r, name); kept != nil || err != nil {
			return kept, err
		}
		text, err := worked(ctx, r, name, work)
		if err != nil {
			return nil, err
		}
		sealed, err := r.seal(text, "step:"+name)
		if err != nil {
			return nil, err
		}
		c, kept := &call{}, ""
		c.text = "SELECT tenon.step(" + c.param("text", r.Claim) + ", " + c.param("text", name) + ", " +
			c.param("jsonb", string(sealed)) + ")::text"
		if err := query(ctx, tx, c, &kept); err != nil {
			return nil, err
		}
		r.mu.Lock()
		r.uncertain[name] = true // until the transaction has committed, which nobody says
		r.mu.Unlock()
		return unseal([]byte(kept), r.Kind, "step:"+name)
	})
}

// Sleep lets the task continue this long after it was first reached, without a worker meanwhile. Return its error: a
// [*Suspended] ends this attempt; the handler runs again from its start, with its steps.
func Sleep(ctx context.Context, t Runner, name string, d time.Duration) error {
	until, err := Step(ctx, t, name, func(context.Context) (time.Time, error) { return time.Now().Add(d).UTC(), nil })
	if left := time.Until(until); err == nil && left > 0 {
		return t.run().suspend(reply{Outcome: "snooze", DelayMS: milliseconds(min(left, delayMax))})
	}
	return err
}

// WaitSignal returns the payload of a signal, and false if it did not come within timeout (at most 365 days; 0 means
// that). Return its error: while the signal has not come, a [*Suspended] ends this attempt, and the task waits without a
// worker; then the handler runs again from its start, with its steps.
func WaitSignal[T any](_ context.Context, t Runner, name string, timeout time.Duration) (payload T, came bool, err error) {
	r := t.run()
	text, err := r.signal(name, timeout)
	if err != nil || string(text) == "null" {
		return payload, false, err
	}
	err = json.Unmarshal(text, &payload)
	return payload, true, err
}

func (r *Run) signal(name string, timeout time.Duration) (json.RawMessage, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if timeout == 0 {
		timeout = waitMax
	}
	if timeout < time.Millisecond || timeout > waitMax {
		return nil, fmt.Errorf("wait for a signal for 1 ms to 365 days, not for %v", timeout)
	}
	r.mu.Lock()
	text, suspended := r.steps[name], r.suspended
	r.mu.Unlock()
	switch {
	case suspended != nil:
		return nil, suspended
	case text != nil:
		return text, nil
	}
	return nil, r.suspend(reply{Outcome: "wait_signal", Signal: name, TimeoutMS: timeout.Milliseconds()})
}

// step returns the recorded value, or what do records; of one name only once at a time.
func step[T any](r *Run, name string, do func(*Run) (json.RawMessage, error)) (value T, err error) {
	text, err := r.begin(name)
	if err != nil {
		return value, err
	}
	if text == nil {
		text, err = do(r)
		r.mu.Lock()
		delete(r.doing, name)
		r.mu.Unlock()
		if err != nil {
			return value, err
		}
	}
	if err := json.Unmarshal(text, &value); err != nil {
		return value, fmt.Errorf("the step %s: %w", name, err)
	}
	return value, nil
}

func (r *Run) begin(name string) (json.RawMessage, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.suspended != nil {
		return nil, r.suspended
	}
	if text, ok := r.steps[name]; ok {
		return text, nil
	}
	if r.doing[name] {
		return nil, fmt.Errorf("the step %s is being done: give the other another name", name)
	}
	r.doing[name] = true
	return nil, nil
}

func worked[T any](ctx context.Context, r *Run, name string, work func(context.Context) (T, error)) ([]byte, error) {
	value, err := work(ctx)
	if err != nil {
		return nil, err
	}
	text, err := encode(value)
	if err == nil {
		err = storable(text)
	}
	if err != nil {
		return nil, fmt.Errorf("the step %s of %s is not JSON for PostgreSQL: %w", name, r.Kind, err)
	}
	return text, nil
}

// record lets the worker record a step, and waits for its word.
func (r *Run) record(ctx context.Context, name string, text []byte) error {
	sealed, err := r.seal(text, "step:"+name)
	if err != nil {
		return err
	}
	if n := printedBytes(sealed); n > stepBytesMax {
		return fmt.Errorf("the step %s has %d bytes; all steps of a task have at most %d", name, n, stepBytesMax)
	}
	quoted, _ := encode(name)
	told := make(chan bool, 1)
	r.mu.Lock()
	over := r.over
	if over == nil {
		r.asked[name] = told
	}
	r.mu.Unlock()
	if over != nil {
		return over
	}
	r.tell(fmt.Appendf(nil, `{"id":%d,"step":{"name":%s,"value":%s}}`, r.ID, quoted, sealed))
	select {
	case recorded, ok := <-told:
		return r.toldOf(name, text, recorded, ok)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *Run) toldOf(name string, text []byte, recorded, ok bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !ok {
		return r.over
	}
	if !recorded {
		return fmt.Errorf("the step %s was refused: a task has at most 1,000 steps, of 1 MiB in all", name)
	}
	r.steps[name] = text
	return nil
}

// told is the worker's word on a step.
func (r *Run) told(name string, recorded bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if asked, ok := r.asked[name]; ok {
		asked <- recorded
		delete(r.asked, name)
	}
}

// endOfSteps: the worker confirms none from now on.
func (r *Run) endOfSteps(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over == nil {
		r.over = why
	}
	for name, asked := range r.asked {
		close(asked)
		delete(r.asked, name)
	}
}

// recorded looks whether a step of this attempt, in a transaction that was rolled back or not, is there.
func recorded[R Row](ctx context.Context, tx DB[R], r *Run, name string) (json.RawMessage, error) {
	r.mu.Lock()
	uncertain := r.uncertain[name]
	r.mu.Unlock()
	if !uncertain {
		return nil, nil
	}
	c, text := &call{}, ""
	c.text = "SELECT tenon.steps(" + c.param("text", r.Claim) + ")::text"
	if err := query(ctx, tx, c, &text); err != nil {
		return nil, err
	}
	var steps map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &steps); err != nil {
		return nil, err
	}
	return unseal(steps[name], r.Kind, "step:"+name)
}

func (r *Run) suspend(how reply) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.suspended == nil {
		r.suspended = &Suspended{how}
	}
	return r.suspended
}

func checkName(name string) error {
	if len(name) < 1 || len(name) > nameBytesMax || strings.Contains(name, "\x00") {
		return errors.New("the name of a step or signal is a text of 1 to 100 bytes, not " + fmt.Sprintf("%.40q", name))
	}
	return nil
}

// Finish finishes the task in your own transaction tx, which it does not commit: the handler's effects and the end of the
// task commit together, so they happen exactly once. The driver's error with SQLSTATE 55000 means that the claim is no
// longer valid: roll back, and return the error.
func Finish[R Row](ctx context.Context, tx DB[R], t Runner, result any) error {
	r, c := t.run(), &call{}
	text := any(nil)
	if result != nil {
		plain, err := encode(result)
		if err == nil {
			err = storable(plain)
		}
		if err != nil {
			return fmt.Errorf("the result of %s is not JSON for PostgreSQL: %w", r.Kind, err)
		}
		sealed, err := r.seal(plain, "result")
		if err != nil {
			return err
		}
		text = string(sealed)
	}
	var none string
	c.text = "SELECT tenon.finish(" + c.param("text", r.Claim) + ", " + c.param("jsonb", text) + ")::text"
	return query(ctx, tx, c, &none)
}
