package tenon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	tenon "github.com/tenon-tasks/tenon/clients/go"
	"github.com/tenon-tasks/tenon/clients/go/tenontest"
)

// These tests need no server: tenontest is the worker.

// running runs a handler of the kind "k".
func running(t *testing.T, run func(context.Context, *tenon.Task[json.RawMessage]) (any, error), opts ...tenontest.Option) tenontest.Ended {
	t.Helper()
	mux := &tenon.Mux{}
	tenon.HandleKind(mux, "k", run)
	return tenontest.Run(t, mux, tenon.Of("k", map[string]int{}), opts...)
}

func TestOutcomesOfErrors(t *testing.T) {
	_, noFile := os.Open("/nowhere")
	for name, c := range map[string]struct {
		err  error
		want tenontest.Ended
	}{
		"an error":   {errors.New("a"), tenontest.Ended{Outcome: "failed", Error: "a", ErrorClass: "error"}},
		"its type":   {fmt.Errorf("b: %w", noFile), tenontest.Ended{Outcome: "failed", Error: "b: open /nowhere: no such file or directory", ErrorClass: "fs.PathError"}},
		"SQLSTATE":   {fmt.Errorf("c: %w", state{}), tenontest.Ended{Outcome: "failed", Error: "c: state", ErrorClass: "23505"}},
		"dead":       {tenon.Dead(noFile), tenontest.Ended{Outcome: "dead", Error: noFile.Error(), ErrorClass: "fs.PathError"}},
		"dead, nil":  {tenon.Dead(nil), tenontest.Ended{Outcome: "dead", Error: "dead", ErrorClass: "error"}},
		"retry":      {tenon.RetryAfter(time.Minute, errors.New("d")), tenontest.Ended{Outcome: "failed", Error: "d", ErrorClass: "error", Delay: time.Minute}},
		"snooze":     {fmt.Errorf("busy: %w", tenon.Snooze(30*time.Second)), tenontest.Ended{Outcome: "snooze", Error: "busy: snoozed for 30s", Delay: 30 * time.Second}},
		"interrupt":  {fmt.Errorf("e: %w", tenon.ErrInterrupted), tenontest.Ended{Outcome: "interrupted"}},
		"cancelled":  {context.Canceled, tenontest.Ended{Outcome: "failed", Error: "context canceled", ErrorClass: "error"}}, // of a context of its own
		"joined":     {errors.Join(errors.New("x"), noFile), tenontest.Ended{Outcome: "failed", Error: "x\n" + noFile.Error(), ErrorClass: "fs.PathError"}},
		"no message": {errors.New(""), tenontest.Ended{Outcome: "failed", ErrorClass: "error"}},
	} {
		c.want.Kind, c.want.Steps = "k", map[string]json.RawMessage{}
		got := running(t, func(context.Context, *tenon.Task[json.RawMessage]) (any, error) { return nil, c.err })
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, not %+v", name, got, c.want)
		}
	}
}

type state struct{}

func (state) Error() string    { return "state" }
func (state) SQLState() string { return "23505" }

func TestPanics(t *testing.T) {
	got := running(t, func(context.Context, *tenon.Task[json.RawMessage]) (any, error) {
		panic(&fs.PathError{Op: "x", Err: fs.ErrExist})
	})
	if got.Outcome != "failed" || got.ErrorClass != "fs.PathError" || !strings.HasPrefix(got.Error, "panic: x : file already exists\n") ||
		!strings.Contains(got.Error, "TestPanics") {
		t.Errorf("%+v", got)
	}
	got = running(t, func(context.Context, *tenon.Task[json.RawMessage]) (any, error) { panic(errors.New("x")) })
	if got.ErrorClass != "panic" {
		t.Errorf("%+v", got)
	}
	got = running(t, func(context.Context, *tenon.Task[json.RawMessage]) (any, error) { runtime.Goexit(); return nil, nil })
	if got.Outcome != "failed" || got.ErrorClass != "Goexit" {
		t.Errorf("%+v", got)
	}
}

func TestResultsThatAreNotKept(t *testing.T) {
	for _, result := range []any{make(chan int), strings.Repeat("x", 3<<20), "a\x00b", json.RawMessage("{")} {
		got := running(t, func(context.Context, *tenon.Task[json.RawMessage]) (any, error) { return result, nil })
		if got.Outcome != "done" || !strings.HasPrefix(string(got.Result), `"tenon: the result was not kept: `) {
			t.Errorf("%.200v", got)
		}
	}
	got := running(t, func(context.Context, *tenon.Task[json.RawMessage]) (any, error) { return "<&>", nil })
	if string(got.Result) != `"<&>"` {
		t.Errorf("%s", got.Result)
	}
}

func TestWhyItStops(t *testing.T) {
	for why, c := range map[string]struct {
		cause   error
		outcome string
	}{
		"cancelled": {tenon.ErrCancelled, "interrupted"},
		"lost":      {tenon.ErrLost, "interrupted"},
		"timeout":   {tenon.ErrTimeout, "failed"},
	} {
		var cause error
		opts := []tenontest.Option{tenontest.Stop(why)}
		if why == "timeout" {
			opts = []tenontest.Option{tenontest.Timeout(time.Millisecond)}
		}
		got := running(t, func(ctx context.Context, _ *tenon.Task[json.RawMessage]) (any, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil, fmt.Errorf("a query: %w", ctx.Err())
		}, opts...)
		if cause != c.cause || got.Outcome != c.outcome {
			t.Errorf("%s: %v, %+v", why, cause, got)
		}
	}
	got := running(t, func(ctx context.Context, task *tenon.Task[json.RawMessage]) (any, error) {
		<-task.Draining()
		return ctx.Err() == nil, nil // it may end its work
	}, tenontest.Stop("drain"))
	if string(got.Result) != "true" {
		t.Errorf("%+v", got)
	}
}

func TestExtendMovesTheDeadline(t *testing.T) {
	got := running(t, func(ctx context.Context, task *tenon.Task[json.RawMessage]) (any, error) {
		if err := task.Extend(time.Hour); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(200 * time.Millisecond): // longer than its first time limit
			return time.Until(task.Deadline()) > 59*time.Minute, task.Extend(0)
		}
	}, tenontest.Timeout(50*time.Millisecond))
	if got.Outcome != "failed" || !strings.HasPrefix(got.Error, "extend by 1 ms") || len(got.Extended) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestProgressAndSteps(t *testing.T) {
	got := running(t, func(ctx context.Context, task *tenon.Task[json.RawMessage]) (any, error) {
		var before map[string]int
		if ok, err := task.Resume(&before); !ok || err != nil || before["done"] != 7 {
			t.Errorf("%v %v %v", before, ok, err)
		}
		if err := task.Progress(strings.Repeat("x", 65<<10)); err == nil {
			t.Error("progress of 65 KiB")
		}
		if err := task.Progress(map[string]int{"done": 8}); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"", strings.Repeat("x", 101), "a\x00"} {
			if _, err := tenon.Step(ctx, task, name, func(context.Context) (int, error) { return 1, nil }); err == nil {
				t.Errorf("a step %q", name)
			}
		}
		_, err := tenon.Step(ctx, task, "outer", func(ctx context.Context) (int, error) {
			return tenon.Step(ctx, task, "outer", func(context.Context) (int, error) { return 1, nil })
		})
		if err == nil {
			t.Error("a step in itself")
		}
		if _, err := tenon.Step(ctx, task, "failing", func(context.Context) (int, error) { return 0, errors.New("no") }); err == nil {
			t.Error("a step that failed")
		}
		at, err := tenon.Step(ctx, task, "at", func(context.Context) (time.Time, error) { return time.Unix(1, 5), nil })
		if !at.Equal(time.Unix(1, 5)) || len(task.Steps()) != 2 {
			t.Error(at, err, task.Steps())
		}
		return tenon.Step(ctx, task, "charge", func(context.Context) (string, error) { return "again", nil })
	}, tenontest.Attempt(2), tenontest.Checkpoint(map[string]int{"done": 7}), tenontest.Steps(map[string]any{"charge": "once"}))
	if string(got.Result) != `"once"` || len(got.Progress) != 1 || len(got.Steps) != 1 {
		t.Errorf("%+v", got)
	}
}

// Sleeping and waiting end the attempt, also if the handler ignores their error.
func TestSuspended(t *testing.T) {
	got := running(t, func(ctx context.Context, task *tenon.Task[json.RawMessage]) (any, error) {
		_ = tenon.Sleep(ctx, task, "night", time.Hour)
		_, err := tenon.Step(ctx, task, "afterwards", func(context.Context) (int, error) { t.Error("it was done"); return 1, nil })
		var suspended *tenon.Suspended
		if !errors.As(err, &suspended) {
			t.Error(err)
		}
		return "done", nil
	})
	if got.Outcome != "snooze" || got.Delay < 59*time.Minute || len(got.Steps) != 1 {
		t.Errorf("%+v", got)
	}
	wait := func(ctx context.Context, task *tenon.Task[json.RawMessage]) (any, error) {
		amount, came, err := tenon.WaitSignal[int](ctx, task, "paid", 0)
		return []any{amount, came}, err
	}
	if got := running(t, wait); got.Outcome != "wait_signal" || got.Signal != "paid" || got.Delay != 365*24*time.Hour {
		t.Errorf("%+v", got)
	}
	if got := running(t, wait, tenontest.Steps(map[string]any{"paid": 30})); string(got.Result) != "[30,true]" {
		t.Errorf("%+v", got)
	}
	if got := running(t, wait, tenontest.Steps(map[string]any{"paid": nil})); string(got.Result) != "[0,false]" {
		t.Errorf("%+v", got)
	}
}

func TestMiddleware(t *testing.T) {
	mux, order := &tenon.Mux{}, []string{}
	note := func(name string) tenon.Middleware {
		return func(next tenon.Handler) tenon.Handler {
			return func(ctx context.Context, run *tenon.Run) (any, error) {
				order = append(order, name+" "+run.Kind)
				result, err := next(ctx, run)
				order = append(order, fmt.Sprint(name, " ", result, " ", err))
				return result, err
			}
		}
	}
	mux.Use(note("outer"), note("inner"))
	tenon.Handle(mux, func(context.Context, *tenon.Task[mail]) (int, error) { return 5, nil })
	tenontest.Run(t, mux, mail{"a"})
	if want := []string{"outer mail", "inner mail", "inner 5 <nil>", "outer 5 <nil>"}; !reflect.DeepEqual(order, want) {
		t.Error(order)
	}
	defer func() {
		if recover() == nil {
			t.Error("two handlers for one kind")
		}
	}()
	tenon.Handle(mux, func(context.Context, *tenon.Task[mail]) (int, error) { return 5, nil })
}

type card struct {
	Number string `json:"number"`
}

func (card) Kind() string                { return "charge_card" }
func (card) TaskOptions() []tenon.Option { return []tenon.Option{tenon.Encrypt(tenon.SecretAll)} }

func TestSecretTasks(t *testing.T) {
	keys, err := tenon.ParseKeys("a:" + strings.Repeat("A", 43) + "=")
	must(t, err)
	tenon.SetKeys(keys)
	defer tenon.SetKeys(nil)
	envelope, err := keys.Encrypt(card{"4111"}, "charge_card", "payload")
	must(t, err)
	mux := &tenon.Mux{}
	var fail error
	tenon.Handle(mux, func(ctx context.Context, task *tenon.Task[card]) (any, error) {
		return map[string]string{"charged": task.Payload.Number}, errors.Join(task.Progress("4111"), fail)
	})
	got := tenontest.Run(t, mux, tenon.Of("charge_card", envelope))
	plain, err := keys.Decrypt(got.Result, "charge_card", "result")
	if err != nil || string(plain) != `{"charged":"4111"}` || bytes.Contains(got.Progress[0], []byte("4111")) {
		t.Errorf("%+v %s %v", got, plain, err)
	}
	fail = &fs.PathError{Op: "no such card", Path: "4111", Err: fs.ErrInvalid}
	if got := tenontest.Run(t, mux, tenon.Of("charge_card", envelope)); strings.Contains(got.Error, "4111") || got.Outcome != "failed" {
		t.Errorf("%+v", got)
	}
	fail = tenon.Dead(errors.New("said on purpose"))
	if got := tenontest.Run(t, mux, tenon.Of("charge_card", envelope)); got.Error != "said on purpose" {
		t.Errorf("%+v", got)
	}
	tenon.SetKeys(nil)
	if got := tenontest.Run(t, mux, tenon.Of("charge_card", envelope)); got.Outcome != "failed" || got.ErrorClass != "tenon.SecretError" ||
		!strings.Contains(got.Error, "there are no keys") {
		t.Errorf("%+v", got)
	}
}

// The end of the input is the end of the worker's words: a step that it has not confirmed is not waited for.
func TestEndOfInputWhileAStepIsAsked(t *testing.T) {
	mux := &tenon.Mux{}
	tenon.HandleKind(mux, "k", func(ctx context.Context, task *tenon.Task[json.RawMessage]) (any, error) {
		return tenon.Step(ctx, task, "one", func(context.Context) (int, error) { return 1, nil })
	})
	in := strings.NewReader(`{"id":5,"kind":"k","timeout_ms":60000,"claim":"5/1/0","progress":null,"payload":{}}` + "\n")
	var out locked
	must(t, mux.ServeOn(in, &out))
	if said := out.String(); !strings.Contains(said, `{"id":5,"outcome":"failed","error":"the worker says nothing more`) {
		t.Error(said)
	}
}

// Records of slog with the context of a task are log lines, with their attributes and groups as fields, and reach the next handler.
func TestLogLines(t *testing.T) {
	var next, out locked
	mux := &tenon.Mux{}
	logger := slog.New(tenon.LogHandler(slog.NewTextHandler(&next, nil))).With("a", 1)
	tenon.HandleKind(mux, "k", func(ctx context.Context, task *tenon.Task[json.RawMessage]) (any, error) {
		logger.WithGroup("g").ErrorContext(ctx, "b\xff", "c", "d")
		logger.DebugContext(ctx, "unseen")
		logger.Info("without the context")
		task.Log(slog.LevelDebug, "by hand", map[string]any{"n": math.NaN()})
		return nil, nil
	})
	in := strings.NewReader(`{"id":5,"kind":"k","timeout_ms":60000,"claim":"5/1/0","progress":null,"payload":{}}` + "\n")
	must(t, mux.ServeOn(in, &out))
	for _, want := range []string{
		`{"id":5,"log":{"level":"error","message":"b\ufffd","fields":{"a":1,"g":{"c":"d"}}}}` + "\n",
		`{"id":5,"log":{"level":"debug","message":"by hand"}}` + "\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Error(out.String(), "lacks", want)
		}
	}
	if strings.Count(out.String(), `"log"`) != 2 || strings.Count(next.String(), "\n") != 2 {
		t.Error(out.String(), next.String())
	}
}

// TERM ends the contexts of all runs, and then the process.
func TestTerminated(t *testing.T) {
	child := childOf(t, nil, nil)
	if !child.do(t, step{Send: json.RawMessage(`{"id":1,"kind":"conformance.slow","timeout_ms":60000,"claim":"1/1/0","payload":{}}`)}) {
		t.Fatal("it takes no task")
	}
	// it answers the second one when it has begun with the first one
	child.do(t, step{Send: json.RawMessage(`{"id":2,"kind":"conformance.echo","timeout_ms":60000,"claim":"2/1/0","payload":1}`)})
	child.do(t, step{Expect: map[string]any{"id": 2.0}})
	must(t, child.cmd.Process.Signal(syscall.SIGTERM))
	child.do(t, step{Expect: map[string]any{"id": 1.0, "outcome": "interrupted"}})
	status := 0
	if !child.do(t, step{Exit: &status}) {
		t.Error("it did not end well")
	}
}

// When the worker is gone, so are the answers.
func TestBrokenPipe(t *testing.T) {
	in, out := io.Pipe()
	out.Close()
	mux := &tenon.Mux{}
	if err := mux.ServeOn(in, closed{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	if err := mux.ServeOn(in, closed{}, tenon.Concurrency(0)); err == nil || errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

type locked struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *locked) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
