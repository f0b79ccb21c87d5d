// Package tenontest tests tasks without a worker: what a transaction has enqueued, and what handlers make of it.
package tenontest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	tenon "github.com/tenon-tasks/tenon/clients/go"
)

// Enqueued is a task that a transaction has enqueued.
type Enqueued struct {
	ID        int64           `json:"id"`
	Kind      string          `json:"kind"`
	Queue     string          `json:"queue"`
	State     string          `json:"state"` // "ready", or "scheduled" with a delay, or "blocked" with limits or parents
	Priority  int             `json:"priority"`
	RunAt     time.Time       `json:"run_at"`
	UniqueKey string          `json:"unique_key"`
	Payload   json.RawMessage `json:"payload"`
}

// Mine returns the tasks that the transaction of db has enqueued so far, in order. Roll the transaction back afterwards.
func Mine[R tenon.Row](tb testing.TB, db tenon.DB[R]) []Enqueued {
	tb.Helper()
	var list string
	const query = `SELECT coalesce(json_agg(t ORDER BY t.id), '[]')::text FROM (
		SELECT m.id, m.kind, m.queue, m.state, m.priority, m.run_at, m.unique_key, m.payload FROM tenon.mine() m) t`
	var tasks []Enqueued
	err := db.QueryRow(tb.Context(), query).Scan(&list)
	if err == nil {
		err = json.Unmarshal([]byte(list), &tasks)
	}
	if err != nil {
		tb.Fatalf("could not read what the transaction has enqueued: %v", err)
	}
	return tasks
}

// Payloads returns the payloads of one kind that the transaction of db has enqueued: tenontest.Payloads[WelcomeMail](t, tx).
func Payloads[P tenon.Args, R tenon.Row](tb testing.TB, db tenon.DB[R]) []P {
	tb.Helper()
	var payloads []P
	for _, task := range Mine(tb, db) {
		var payload P
		if task.Kind != payload.Kind() {
			continue
		}
		if err := json.Unmarshal(task.Payload, &payload); err != nil {
			tb.Fatalf("the payload of task %d: %v", task.ID, err)
		}
		payloads = append(payloads, payload)
	}
	return payloads
}

// RunMine runs the handlers of what the transaction of db has enqueued, in order, in this process. Nothing is committed,
// and no task is finished. A handler that opens a connection of its own does not see what the transaction has written:
// give it the test's.
func RunMine[R tenon.Row](tb testing.TB, db tenon.DB[R], mux *tenon.Mux) []Ended {
	tb.Helper()
	var runs []Ended
	for _, task := range Mine(tb, db) {
		runs = append(runs, run(tb, mux, line{ID: task.ID, Kind: task.Kind, Queue: task.Queue, Payload: task.Payload}))
	}
	return runs
}

// Ended is how a run ended, and what the handler said meanwhile.
type Ended struct {
	Kind              string
	Outcome           string // "done", "failed", "snooze", "wait_signal", "dead" or "interrupted"
	Result            json.RawMessage
	Error, ErrorClass string
	Delay             time.Duration              // of a snooze or failure; or how long it waits for the signal
	Signal            string                     // that it waits for
	Steps             map[string]json.RawMessage // those that the worker was told to record, not those in a transaction
	Progress          []json.RawMessage          // in order
	Extended          []time.Duration
}

// Into reads the result of a run into value; it fails the test if the run is not done.
func (e Ended) Into(tb testing.TB, value any) {
	tb.Helper()
	if e.Outcome != "done" {
		tb.Fatalf("%s is %s: %s", e.Kind, e.Outcome, e.Error)
	}
	if err := json.Unmarshal(e.Result, value); err != nil {
		tb.Fatalf("the result of %s: %v", e.Kind, err)
	}
}

// An Option says what a handler is to see; without any, it is a first attempt.
type Option func(*line)

// Attempt is the number of the attempt, from 1.
func Attempt(n int) Option { return func(l *line) { l.Attempt, l.Failures = n, n-1 } }

// ID is the id of the task.
func ID(id int64) Option { return func(l *line) { l.ID = id } }

// Claim is the claim token of the run.
func Claim(claim string) Option { return func(l *line) { l.Claim = claim } }

// Checkpoint is the progress that an earlier attempt recorded.
func Checkpoint(value any) Option { return func(l *line) { l.Progress = value } }

// Steps are the steps that earlier attempts recorded, and the signals that came.
func Steps(steps map[string]any) Option { return func(l *line) { l.Steps = steps } }

// Timeout is the time limit of the run; an hour by default.
func Timeout(d time.Duration) Option { return func(l *line) { l.TimeoutMS = d.Milliseconds() } }

// Stop stops the run from its beginning: "cancelled", "lost" or "drain".
func Stop(why string) Option { return func(l *line) { l.stop = why } }

// Run runs the handler of a payload in this process. The payload goes through JSON as on its way to a worker.
func Run(tb testing.TB, mux *tenon.Mux, args tenon.Args, opts ...Option) Ended {
	tb.Helper()
	l := line{ID: 1, Kind: args.Kind(), Queue: "default", Payload: args}
	for _, option := range opts {
		option(&l)
	}
	return run(tb, mux, l)
}

// A line is the task line of the protocol.
type line struct {
	ID          int64          `json:"id"`
	Kind        string         `json:"kind"`
	Queue       string         `json:"queue"`
	Attempt     int            `json:"attempt"`
	Failures    int            `json:"failures"`
	MaxAttempts int            `json:"max_attempts"`
	TimeoutMS   int64          `json:"timeout_ms"`
	Claim       string         `json:"claim"`
	Progress    any            `json:"progress"`
	Steps       map[string]any `json:"steps,omitempty"`
	Payload     any            `json:"payload"`

	stop string
}

// run is the worker of one task.
func run(tb testing.TB, mux *tenon.Mux, l line) Ended {
	tb.Helper()
	if !slices.Contains(mux.Kinds(), l.Kind) {
		tb.Fatalf("task %d: the mux has no handler for %s", l.ID, l.Kind)
	}
	l.Attempt, l.MaxAttempts = max(l.Attempt, 1), 25
	if l.TimeoutMS == 0 {
		l.TimeoutMS = time.Hour.Milliseconds()
	}
	if l.Claim == "" {
		l.Claim = "1/1/0000000000000000"
	}
	text, err := json.Marshal(l)
	if err != nil {
		tb.Fatalf("the payload of %s: %v", l.Kind, err)
	}
	ended, _ := serve(tb, mux, l, text)
	return ended
}

// serve gives the mux one task as a worker does; it returns also what the handler said before its answer.
func serve(tb testing.TB, mux *tenon.Mux, l line, text []byte) (Ended, []message) {
	tb.Helper()
	in, toChild := io.Pipe()
	fromChild, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- mux.ServeOn(in, out); out.Close() }()
	w := worker{lines: bufio.NewReader(fromChild), to: toChild, ended: Ended{Kind: l.Kind, Steps: map[string]json.RawMessage{}}}
	err := w.until(tb.Context(), l, text)
	toChild.Close()
	fromChild.Close()
	if e := <-served; err == nil {
		err = e
	}
	if err != nil {
		tb.Fatalf("%s: %v", l.Kind, err)
	}
	return w.ended, w.said
}

type worker struct {
	lines *bufio.Reader
	to    io.Writer
	ended Ended
	said  []message // steps and progress, in order
}

// A message is a line of a handler.
type message struct {
	Outcome    string          `json:"outcome"`
	Result     json.RawMessage `json:"result"`
	Error      string          `json:"error"`
	ErrorClass string          `json:"error_class"`
	DelayMS    int64           `json:"delay_ms"`
	TimeoutMS  int64           `json:"timeout_ms"`
	Signal     string          `json:"signal"`
	Progress   json.RawMessage `json:"progress"`
	ExtendMS   int64           `json:"extend_ms"`
	Step       *struct {
		Name  string          `json:"name"`
		Value json.RawMessage `json:"value"`
	} `json:"step"`
	ID int64 `json:"id"`
}

// until gives the child its task, and listens until the task is answered.
func (w *worker) until(ctx context.Context, l line, text []byte) error {
	if _, err := w.lines.ReadBytes('\n'); err != nil { // the hello
		return err
	}
	switch {
	case l.stop == "drain":
		text = append(text, "\n{\"stop\":null,\"why\":\"drain\"}"...)
	case l.stop != "":
		text = fmt.Appendf(text, "\n{\"stop\":%d,\"why\":%q}", l.ID, l.stop)
	}
	if _, err := fmt.Fprintf(w.to, "%s\n", text); err != nil {
		return err
	}
	for ctx.Err() == nil {
		answered, err := w.hear()
		if answered || err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (w *worker) hear() (answered bool, err error) {
	var said message
	text, err := w.lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(text, &said)
	}
	if err != nil {
		return false, err
	}
	e := &w.ended
	switch {
	case said.Step != nil:
		e.Steps[said.Step.Name] = said.Step.Value
		w.said = append(w.said, said)
		name, _ := json.Marshal(said.Step.Name)
		_, err = fmt.Fprintf(w.to, `{"step":%d,"name":%s,"recorded":true}`+"\n", said.ID, name)
	case said.Progress != nil:
		e.Progress = append(e.Progress, said.Progress)
		w.said = append(w.said, said)
	case said.ExtendMS > 0:
		e.Extended = append(e.Extended, time.Duration(said.ExtendMS)*time.Millisecond)
	case said.Outcome != "":
		e.Outcome, e.Result, e.Error, e.ErrorClass = said.Outcome, said.Result, said.Error, said.ErrorClass
		e.Delay, e.Signal = time.Duration(said.DelayMS+said.TimeoutMS)*time.Millisecond, said.Signal
		return true, nil
	}
	return false, err
}

var set sync.Map // databases that Setup has set up

// Setup makes tenon's schema in a test database, once a process: it runs the program tenon.
func Setup(tb testing.TB, databaseURL string) {
	tb.Helper()
	once, _ := set.LoadOrStore(databaseURL, sync.OnceValue(func() error {
		command := exec.Command("tenon", "setup")
		command.Env = append(command.Environ(), "DATABASE_URL="+databaseURL)
		said, err := command.CombinedOutput()
		if err != nil {
			return fmt.Errorf("tenon setup: %w: %s", err, said)
		}
		return nil
	}))
	if err := once.(func() error)(); err != nil {
		tb.Fatal(err)
	}
}
