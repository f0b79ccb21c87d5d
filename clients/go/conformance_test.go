package tenon_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	tenon "github.com/tenon-tasks/tenon/clients/go"
	"github.com/tenon-tasks/tenon/clients/go/tenontest"
)

// The cases that every client runs: clients/conformance.

type typed struct {
	N int `json:"n"`
}

// conformance has the handlers of clients/conformance/README.md.
func conformance() *tenon.Mux {
	mux := &tenon.Mux{}
	type raw = json.RawMessage
	type said struct {
		Message string `json:"message"`
		Times   int    `json:"times"`
		MS      *int64 `json:"ms"`
		Bytes   int    `json:"bytes"`
		Text    string `json:"text"`
		Signal  string `json:"signal"`
	}
	ms := func(t *tenon.Task[said]) time.Duration { return time.Duration(*t.Payload.MS) * time.Millisecond }
	on := func(name string, run func(context.Context, *tenon.Task[said]) (any, error)) {
		tenon.HandleKind(mux, "conformance."+name, run)
	}
	tenon.HandleKind(mux, "conformance.echo", func(_ context.Context, t *tenon.Task[raw]) (any, error) { return t.Payload, nil })
	tenon.HandleKind(mux, "conformance.nothing", func(context.Context, *tenon.Task[raw]) (any, error) { return nil, nil })
	tenon.HandleKind(mux, "conformance.typed", func(_ context.Context, t *tenon.Task[typed]) (int, error) { return t.Payload.N + 1, nil })
	on("about", func(_ context.Context, t *tenon.Task[said]) (any, error) {
		return map[string]any{"id": strconv.FormatInt(t.ID, 10), "kind": t.Kind, "queue": t.Queue, "attempt": t.Attempt,
			"failures": t.Failures, "max_attempts": t.MaxAttempts, "claim": t.Claim, "trace": t.Trace, "progress": t.Checkpoint}, nil
	})
	on("fail", func(_ context.Context, t *tenon.Task[said]) (any, error) {
		return nil, errors.New(strings.Repeat(t.Payload.Message, max(t.Payload.Times, 1)))
	})
	on("retry", func(_ context.Context, t *tenon.Task[said]) (any, error) {
		return nil, tenon.RetryAfter(ms(t), errors.New(t.Payload.Message))
	})
	on("snooze", func(_ context.Context, t *tenon.Task[said]) (any, error) {
		if t.Payload.MS == nil {
			return nil, tenon.Snooze(0)
		}
		return nil, tenon.Snooze(ms(t))
	})
	on("dead", func(_ context.Context, t *tenon.Task[said]) (any, error) {
		return nil, tenon.Dead(errors.New(t.Payload.Message))
	})
	on("interrupt", func(context.Context, *tenon.Task[said]) (any, error) { return nil, tenon.ErrInterrupted })
	on("no_json", func(context.Context, *tenon.Task[said]) (any, error) { return math.NaN(), nil })
	on("large", func(_ context.Context, t *tenon.Task[said]) (any, error) {
		return strings.Repeat("x", t.Payload.Bytes), nil
	})
	on("print", func(_ context.Context, t *tenon.Task[said]) (any, error) {
		fmt.Println(t.Payload.Text)
		return "printed", nil
	})
	logger := slog.New(tenon.LogHandler(slog.NewTextHandler(io.Discard, nil)))
	on("log", func(ctx context.Context, t *tenon.Task[said]) (any, error) {
		logger.With("logger", "shop").WarnContext(ctx, t.Payload.Message)
		return "logged", nil
	})
	on("progress", func(_ context.Context, t *tenon.Task[said]) (any, error) {
		done := map[string]int{}
		_, err := t.Resume(&done)
		done["done"]++
		return nil, errors.Join(err, t.Progress(done))
	})
	on("extend", func(_ context.Context, t *tenon.Task[said]) (any, error) { return nil, t.Extend(ms(t)) })
	on("steps", func(ctx context.Context, t *tenon.Task[said]) (any, error) {
		one, err := tenon.Step(ctx, t, "one", func(context.Context) (int, error) { return 1, nil })
		if err != nil {
			return nil, err
		}
		two, err := tenon.Step(ctx, t, "two", func(context.Context) (typed, error) { return typed{one + 1}, nil })
		return one + two.N, err
	})
	on("wait", func(ctx context.Context, t *tenon.Task[said]) (any, error) {
		payload, came, err := tenon.WaitSignal[raw](ctx, t, t.Payload.Signal, ms(t))
		if !came {
			payload = raw("null")
		}
		return map[string]raw{"came": payload}, err
	})
	on("slow", func(ctx context.Context, t *tenon.Task[said]) (any, error) {
		select {
		case <-ctx.Done():
		case <-t.Draining():
		}
		return nil, tenon.ErrInterrupted
	})
	on("sleep", func(_ context.Context, t *tenon.Task[said]) (any, error) {
		time.Sleep(ms(t))
		return "slept", nil
	})
	return mux
}

func cases[T any](t *testing.T, name string) (read T) {
	text, err := os.ReadFile("../conformance/" + name)
	must(t, err)
	must(t, json.Unmarshal(text, &read))
	return read
}

type step struct {
	Send          json.RawMessage  `json:"send"`
	Expect        map[string]any   `json:"expect"`
	ExpectAny     []map[string]any `json:"expect_any"`
	Absent        []string         `json:"absent"`
	ErrorContains string           `json:"error_contains"`
	ErrorWithout  []string         `json:"error_without"`
	ErrorBytesMax int              `json:"error_bytes_max"`
	ResultBegins  string           `json:"result_begins"`
	End           bool             `json:"end"`
	Exit          *int             `json:"exit"`
}

func TestProtocol(t *testing.T) {
	all := cases[struct {
		Hello map[string]any
		Kinds []string
		Cases []struct {
			Name  string
			Steps []step
		}
	}](t, "protocol.json")
	var child *pipes
	for _, c := range all.Cases {
		t.Run(c.Name, func(t *testing.T) {
			ends := slices.ContainsFunc(c.Steps, func(s step) bool { return s.End })
			if child == nil || ends || child.failed {
				child = childOf(t, all.Hello, all.Kinds)
			}
			for i, s := range c.Steps {
				if !child.do(t, s) {
					child.failed = true
					t.Fatalf("step %d", i)
				}
			}
			if ends {
				child = nil
			}
		})
	}
}

// pipes are a pool child's.
type pipes struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan []byte
	failed bool
}

func childOf(t *testing.T, hello map[string]any, kinds []string) *pipes {
	p := &pipes{cmd: exec.Command(self(t)), lines: make(chan []byte, 100)}
	p.cmd.Env = append(os.Environ(), "TENON_TEST_CHILD=conformance")
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	must(t, err)
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	must(t, p.cmd.Start())
	p.in = in
	go func() {
		defer close(p.lines)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			p.lines <- line
		}
	}()
	said := p.hear(t)
	if !includes(said, hello) || said["in_flight"].(float64) < 4 {
		t.Fatalf("the hello is %v", said)
	}
	for _, kind := range kinds {
		if !slices.Contains(said["kinds"].([]any), any(kind)) {
			t.Errorf("the hello lacks %s", kind)
		}
	}
	return p
}

func (p *pipes) hear(t *testing.T) (said map[string]any) {
	t.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			t.Fatal("the child has ended")
		}
		must(t, json.Unmarshal(line, &said))
	case <-time.After(patience):
		t.Fatal("no line came")
	}
	return said
}

func (p *pipes) do(t *testing.T, s step) bool {
	t.Helper()
	switch {
	case s.Send != nil:
		_, err := p.in.Write(append(lineOf(t, s.Send), '\n'))
		return err == nil
	case s.End:
		return p.in.Close() == nil
	case s.Exit != nil:
		for range p.lines {
			t.Error("there is one more line")
		}
		_ = p.cmd.Wait()
		return p.cmd.ProcessState.ExitCode() == *s.Exit
	}
	said := p.hear(t)
	wanted := s.ExpectAny
	if s.Expect != nil {
		wanted = append(wanted, s.Expect)
	}
	if !slices.ContainsFunc(wanted, func(one map[string]any) bool { return includes(said, one) }) {
		t.Errorf("%.300v, not %v", said, wanted)
		return false
	}
	text, _ := said["error"].(string)
	result, _ := said["result"].(string)
	ok := strings.Contains(text, s.ErrorContains) && strings.HasPrefix(result, s.ResultBegins)
	ok = ok && (s.ErrorBytesMax == 0 || len(text) <= s.ErrorBytesMax)
	for _, without := range s.ErrorWithout {
		ok = ok && !strings.Contains(text, without)
	}
	for _, key := range s.Absent {
		_, there := said[key]
		ok = ok && !there
	}
	if !ok {
		t.Errorf("%.300v, against %+v", said, s)
	}
	return ok
}

// lineOf a step: an object, a text, or parts of which some are repeated.
func lineOf(t *testing.T, send json.RawMessage) []byte {
	var line bytes.Buffer
	var text string
	var parts []any
	switch {
	case json.Unmarshal(send, &text) == nil:
		return []byte(text)
	case json.Unmarshal(send, &parts) == nil:
		for _, part := range parts {
			if list, ok := part.([]any); ok {
				line.WriteString(strings.Repeat(list[0].(string), int(list[1].(float64))))
			} else {
				line.WriteString(part.(string))
			}
		}
		return line.Bytes()
	}
	must(t, json.Compact(&line, send))
	return line.Bytes()
}

// includes: said has these keys with these values, and so have the objects in it.
func includes(said, wanted map[string]any) bool {
	for key, value := range wanted {
		if !reflect.DeepEqual(said[key], value) {
			return false
		}
	}
	return true
}

// --- enqueue ---------------------------------------------------------------------------------------

type enqueueCase struct {
	Name     string
	Needs    []string
	Payload  json.RawMessage
	Payloads []json.RawMessage
	Options  map[string]any
	First    *enqueueCase
	SameID   bool `json:"same_id"`
	Row      map[string]any
	Rows     []map[string]any
	Task     map[string]any
	DelayMS  *float64 `json:"delay_ms"`
	Error    string
}

func texts(value any) (list []string) {
	for _, one := range value.([]any) {
		text, _ := one.(string)
		list = append(list, text)
	}
	return list
}

func at(t *testing.T, value any) time.Time {
	text, ok := value.(string)
	if !ok {
		return time.Time{}
	}
	moment, err := time.Parse(time.RFC3339, text)
	must(t, err)
	return moment
}

// span is a length of time as the cases have it: "10 min".
func span(t *testing.T, value any) time.Duration {
	number, unit, _ := strings.Cut(value.(string), " ")
	if unit == "d" {
		n, err := strconv.Atoi(number)
		must(t, err)
		return time.Duration(n) * 24 * time.Hour
	}
	d, err := time.ParseDuration(number + strings.TrimSuffix(unit, "in"))
	must(t, err)
	return d
}

func (c enqueueCase) options(t *testing.T) (opts []tenon.Option) {
	for name, value := range c.Options {
		of := map[string]func() tenon.Option{
			"queue":        func() tenon.Option { return tenon.Queue(value.(string)) },
			"priority":     func() tenon.Option { return tenon.Priority(int(value.(float64))) },
			"delay":        func() tenon.Option { return tenon.Delay(span(t, value)) },
			"run_at":       func() tenon.Option { return tenon.RunAt(at(t, value)) },
			"start_before": func() tenon.Option { return tenon.StartBefore(at(t, value)) },
			"max_attempts": func() tenon.Option { return tenon.MaxAttempts(int(value.(float64))) },
			"timeout":      func() tenon.Option { return tenon.Timeout(span(t, value)) },
			"retry":        func() tenon.Option { return tenon.RetryPolicy(value.(string)) },
			"limit_keys":   func() tenon.Option { return tenon.LimitKeys(texts(value)...) },
			"tags":         func() tenon.Option { return tenon.Tags(texts(value)...) },
			"trace":        func() tenon.Option { return tenon.Trace(value.(string)) },
			"unique_key":   func() tenon.Option { return tenon.UniqueKey(value.(string)) },
			"unique_keys":  func() tenon.Option { return tenon.UniqueKeys(texts(value)...) },
			"on_conflict":  func() tenon.Option { return tenon.OnConflict(value.(string)) },
			"unique_for":   func() tenon.Option { return tenon.UniqueFor(span(t, value)) },
			"debounce":     func() tenon.Option { return tenon.Debounce(span(t, value)) },
			"debounce_max": func() tenon.Option { return tenon.DebounceMax(span(t, value)) },
			"queues":       func() tenon.Option { return tenon.Queues(texts(value)...) },
			"priorities": func() tenon.Option {
				var list []int
				for _, one := range value.([]any) {
					if n, ok := one.(float64); ok {
						list = append(list, int(n))
					} else {
						list = append(list, -1)
					}
				}
				return tenon.Priorities(list...)
			},
			"run_ats": func() tenon.Option {
				var list []time.Time
				for _, one := range value.([]any) {
					list = append(list, at(t, one))
				}
				return tenon.RunAts(list...)
			},
		}[name]
		if of == nil {
			t.Fatalf("there is no option %s", name)
		}
		opts = append(opts, of())
	}
	return opts
}

func (c enqueueCase) args(kind string, payload json.RawMessage) tenon.Args {
	if payload == nil {
		return tenon.Of(kind, struct{}{})
	}
	return tenon.Of(kind, payload)
}

func TestEnqueueCases(t *testing.T) {
	all := cases[struct {
		Kind        string
		Enqueue     []enqueueCase
		EnqueueMany []enqueueCase `json:"enqueue_many"`
	}](t, "enqueue.json")
	for _, c := range all.Enqueue {
		t.Run(c.Name, func(t *testing.T) {
			tx := inUTC(t)
			var first int64
			if c.First != nil {
				var err error
				first, err = tenon.Enqueue(t.Context(), tx, c.args(all.Kind, c.First.Payload), c.First.options(t)...)
				must(t, err)
			}
			id, err := tenon.Enqueue(t.Context(), tx, c.args(all.Kind, c.Payload), c.options(t)...)
			if c.Error != "" {
				wantState(t, err, c.Error)
				return
			}
			must(t, err)
			if c.SameID && id != first {
				t.Errorf("%d, not %d", id, first)
			}
			c.check(t, tx, id)
		})
	}
	for _, c := range all.EnqueueMany {
		t.Run("many: "+c.Name, func(t *testing.T) {
			tx := inUTC(t)
			var list []tenon.Args
			for _, payload := range c.Payloads {
				list = append(list, c.args(all.Kind, payload))
			}
			ids, err := tenon.EnqueueMany(t.Context(), tx, list, c.options(t)...)
			if c.Error != "" {
				wantState(t, err, c.Error)
				return
			}
			must(t, err)
			if len(ids) != len(c.Rows) {
				t.Fatal(ids)
			}
			for i, row := range c.Rows {
				enqueueCase{Row: row}.check(t, tx, ids[i])
			}
		})
	}
}

func inUTC(t *testing.T) pgx.Tx {
	tx := begin(t)
	_, err := tx.Exec(t.Context(), "SET LOCAL timezone = 'UTC'")
	must(t, err)
	return tx
}

func (c enqueueCase) check(t *testing.T, tx pgx.Tx, id int64) {
	t.Helper()
	for table, wanted := range map[string]map[string]any{"tasks": c.Row, "task": c.Task} {
		if wanted == nil {
			continue
		}
		var row map[string]any
		text := value[string](t, tx, "SELECT to_jsonb(t)::text FROM tenon."+table+" t WHERE t.id = $1", id)
		must(t, json.Unmarshal([]byte(text), &row))
		if !includes(row, wanted) {
			t.Errorf("tenon.%s has %s, not %v", table, text, wanted)
		}
	}
	if c.DelayMS != nil {
		ms := value[float64](t, tx, "SELECT extract(epoch FROM run_at - created_at)::float8 * 1000 FROM tenon.tasks WHERE id = $1", id)
		if math.Abs(ms-*c.DelayMS) > 1000 {
			t.Errorf("the delay is %v ms, not %v", ms, *c.DelayMS)
		}
	}
}

func wantState(t *testing.T, err error, state string) {
	t.Helper()
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != state {
		t.Errorf("%v, not %s", err, state)
	}
}

// The same on database/sql.
func TestEnqueueOnDatabaseSQL(t *testing.T) {
	tx, err := standard(t).BeginTx(t.Context(), &sql.TxOptions{})
	must(t, err)
	defer tx.Rollback()
	ids, err := tenon.EnqueueMany(t.Context(), tenon.SQL(tx), []mail{{"a"}, {"b"}}, tenon.UniqueKeys("x", "y"), tenon.Delay(time.Hour))
	if err != nil || len(ids) != 2 {
		t.Fatal(ids, err)
	}
	if e, err := tenon.Result(t.Context(), tenon.SQL(tx), ids[1]); err != nil || e.State != "scheduled" {
		t.Fatal(e, err)
	}
}

type waits struct{}

func (waits) Kind() string { return "conformance.waits" }

func TestWaitFor(t *testing.T) {
	all := cases[struct {
		Name  string
		Cases []struct {
			Name     string
			Tasks    []string
			WaitedMS int64 `json:"waited_ms"`
			Outcome  string
			States   []*string
			DelayMS  []int64 `json:"delay_ms"`
		}
	}](t, "wait_for.json")
	since := all.Name + ":since"
	run := func(t *testing.T, db tenon.DB[pgx.Row], ids []int64, steps map[string]any) tenontest.Ended {
		mux := &tenon.Mux{}
		tenon.Handle(mux, func(ctx context.Context, task *tenon.Task[waits]) ([]*string, error) {
			ended, err := tenon.WaitFor(ctx, db, task, all.Name, ids...)
			states := make([]*string, len(ended))
			for i := range ended {
				if ended[i].State != "" {
					states[i] = &ended[i].State
				}
			}
			return states, err
		})
		return tenontest.Run(t, mux, waits{}, tenontest.Steps(steps))
	}
	for _, c := range all.Cases {
		t.Run(c.Name, func(t *testing.T) {
			tx := begin(t)
			ids, recorded := []int64{}, map[string]any{}
			for i, state := range c.Tasks {
				ids = append(ids, taskIn(t, tx, state, ids, i))
			}
			if c.WaitedMS > 0 {
				recorded[since] = time.Now().UnixMilli() - c.WaitedMS
			}
			ended := run(t, tx, ids, recorded)
			names := slices.Collect(maps.Keys(ended.Steps))
			switch {
			case ended.Outcome != c.Outcome:
				t.Fatalf("%s: %s", ended.Outcome, ended.Error)
			case c.Outcome == "done":
				var states []*string
				ended.Into(t, &states)
				again := run(t, nil, ids, map[string]any{all.Name: ended.Steps[all.Name]})
				if !reflect.DeepEqual(states, c.States) || !slices.Equal(names, []string{all.Name}) || len(again.Steps) > 0 ||
					!bytes.Equal(ended.Result, again.Result) {
					t.Errorf("%s, steps %v; then %s, steps %v", ended.Result, names, again.Result, again.Steps)
				}
			case ended.Delay.Milliseconds() < c.DelayMS[0] || ended.Delay.Milliseconds() > c.DelayMS[1]:
				t.Errorf("a delay of %v", ended.Delay)
			case c.WaitedMS > 0 && len(names) > 0, c.WaitedMS == 0 && !slices.Equal(names, []string{since}):
				t.Errorf("steps %v", names)
			}
		})
	}
}

func taskIn(t *testing.T, tx pgx.Tx, state string, before []int64, i int) int64 {
	switch state {
	case "same":
		return before[i-1]
	case "missing":
		return 999999999999
	}
	id, err := tenon.Enqueue(t.Context(), tx, waits{})
	must(t, err)
	if state == "cancelled" {
		_, err = tenon.Cancel(t.Context(), tx, id)
		must(t, err)
	}
	return id
}
