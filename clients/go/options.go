package tenon

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// An Option is an argument of tenon.enqueue, whose documentation says what is allowed.
type Option func(*options)

type options struct {
	given   []argument
	wakeUps *WakeUps
	secret  Secret
}

// An argument of a SQL function, by its name. A list is sent as JSON, anything else as text.
type argument struct {
	name, cast string
	value      any
	kindOnly   bool // not of one task, but of a kind
}

// Queue is the queue in which the task waits: 1 to 63 of a-z 0-9 _ . -
func Queue(name string) Option { return set("queue", "text", name) }

// Priority is 0 to 9, higher first; 4 by default.
func Priority(n int) Option { return set("priority", "integer", n) }

// RunAt is the time before which the task does not start.
func RunAt(t time.Time) Option { return set("run_at", "timestamptz", moment(t)) }

// Delay is how long the task waits before it may start.
func Delay(d time.Duration) Option { return set("delay", "interval", interval(d)) }

// StartBefore is the time after which the task is expired, if it has not started.
func StartBefore(t time.Time) Option { return set("start_before", "timestamptz", moment(t)) }

// UniqueKey allows one waiting task of the kind with this key: enqueueing the key again returns the waiting task's id.
func UniqueKey(key string) Option { return set("unique_key", "text", key) }

// UniqueKeys has the unique key of each task of [EnqueueMany]; "" means none.
func UniqueKeys(keys ...string) Option { return set("unique_keys", "text[]", keys) }

// Queues has the queue of each task of [EnqueueMany]; "" means what the other options say.
func Queues(names ...string) Option { return set("queues", "text[]", names) }

// Priorities has the priority of each task of [EnqueueMany]; -1 means what the other options say.
func Priorities(ns ...int) Option {
	return set("priorities", "integer[]", listed(ns, func(n int) string { return strconv.Itoa(n) }, -1))
}

// RunAts has the time before which each task of [EnqueueMany] does not start; the zero time means what the other options
// say.
func RunAts(times ...time.Time) Option {
	return set("run_ats", "timestamptz[]", listed(times, moment, time.Time{}))
}

// OnConflict says what happens to a waiting task with the unique key: "keep", "replace" or "merge".
func OnConflict(what string) Option { return set("on_conflict", "text", what) }

// UniqueFor keeps the unique key reserved for this time, even after the task has ended.
func UniqueFor(d time.Duration) Option { return set("unique_for", "interval", interval(d)) }

// Debounce starts the task when its unique key has not been enqueued for this time.
func Debounce(d time.Duration) Option { return set("debounce", "interval", interval(d)) }

// DebounceMax starts a debounced task after this time at the latest.
func DebounceMax(d time.Duration) Option { return set("debounce_max", "interval", interval(d)) }

// MaxAttempts is the number of failures that makes the task dead, 1 to 1,000.
func MaxAttempts(n int) Option { return set("max_attempts", "integer", n) }

// Timeout is the time limit of one run, 1 ms to 30 days; an hour by default.
func Timeout(d time.Duration) Option { return set("timeout", "interval", interval(d)) }

// RetryPolicy is the delay before a retry: "polynomial", "exponential(10 s, 1 h)", "linear(...)" or "constant(...)".
func RetryPolicy(policy string) Option { return set("retry", "text", policy) }

// LimitKeys are 1 to 4 keys whose limits apply to the task, such as "tenant:42".
func LimitKeys(keys ...string) Option { return set("limit_keys", "text[]", keys) }

// Flow is the flow or batch to which the task is added.
func Flow(id int64) Option { return set("flow", "bigint", id) }

// DependsOn are tasks of flows that must be done before the task starts.
func DependsOn(ids ...int64) Option { return set("depends_on", "bigint[]", ids) }

// OnParentDead says what happens when one of DependsOn does not end as done: "wait", "run" or "cancel".
func OnParentDead(what string) Option { return set("on_parent_dead", "text", what) }

// Tags are up to 10 texts by which tasks are found: tenon list --tag import-7.
func Tags(tags ...string) Option { return set("tags", "text[]", tags) }

// Trace is a W3C traceparent, which the handler gets.
func Trace(traceparent string) Option { return set("trace", "text", traceparent) }

// NoNotify is for transactions that will be prepared (PREPARE TRANSACTION).
func NoNotify() Option { return set("notify", "boolean", false) }

// Wake collects the wake-up of the task: publish it after the commit.
func Wake(w *WakeUps) Option { return func(o *options) { o.wakeUps = w } }

// Encrypt says what of the tasks of a kind is encrypted, with the keys of [SetKeys]. It belongs into TaskOptions, so that
// producers and handlers agree.
func Encrypt(what Secret) Option { return func(o *options) { o.secret = what } }

// OnDead is the kind of the task that compensates for a dead one. Like the five below it is of a kind, so it belongs into
// TaskOptions: [Sync] sets it, and Enqueue ignores it.
func OnDead(kind string) Option { return ofKind("on_dead", kind) }

// OnTimeout is "retry", or "dead": a run that exceeds its time limit makes the task dead.
func OnTimeout(what string) Option { return ofKind("on_timeout", what) }

// MaxCrashes is the number of crashes in a row that makes a task dead, 2 to 100.
func MaxCrashes(n int) Option { return ofKind("max_crashes", n) }

// TimeoutMin is the shortest Timeout with which a task of the kind may be enqueued.
func TimeoutMin(d time.Duration) Option { return ofKind("timeout_min", interval(d)) }

// HistoryKeep is how long ended tasks of the kind stay in the history, at least an hour.
func HistoryKeep(d time.Duration) Option { return ofKind("history_keep", interval(d)) }

// DeadKeep is how long dead tasks of the kind are kept, at least an hour.
func DeadKeep(d time.Duration) Option { return ofKind("dead_keep", interval(d)) }

func ofKind(name string, value any) Option {
	return func(o *options) {
		o.given = append(o.given, argument{name: name, value: value, kindOnly: true})
	}
}

func set(name, cast string, value any) Option {
	return func(o *options) { o.set(name, cast, value) }
}

func (o *options) set(name, cast string, value any) {
	for i := range o.given {
		if o.given[i].name == name {
			o.given[i].value = value
			return
		}
	}
	o.given = append(o.given, argument{name: name, cast: cast, value: value})
}

func (o *options) value(name string) any {
	for _, a := range o.given {
		if a.name == name {
			return a.value
		}
	}
	return nil
}

// optionsOf has the options of a kind, and then those of a call.
func optionsOf(args any, opts []Option) *options {
	o := &options{}
	if kind, ok := args.(interface{ TaskOptions() []Option }); ok {
		for _, option := range kind.TaskOptions() {
			option(o)
		}
	}
	for _, option := range opts {
		option(o)
	}
	return o
}

// arguments are the named arguments of the SQL function.
func (o *options) arguments(c *call) string {
	text := ""
	for _, a := range o.given {
		if !a.kindOnly {
			text += ", " + a.name + " => " + a.sql(c)
		}
	}
	return text
}

// elements are the elements of a list in SQL; "" is NULL.
var elements = map[string]string{
	"text[]":        "NULLIF(e, '')",
	"integer[]":     "NULLIF(e, '')::integer",
	"bigint[]":      "e::bigint",
	"timestamptz[]": "NULLIF(e, '')::timestamptz",
}

func (a argument) sql(c *call) string {
	element, isList := elements[a.cast]
	if !isList {
		return c.param(a.cast, text(a.value))
	}
	list, _ := json.Marshal(a.value) // of strings or numbers: it is JSON
	return fmt.Sprintf("ARRAY(SELECT %s FROM json_array_elements_text(%s) WITH ORDINALITY l (e, n) ORDER BY n)",
		element, c.param("json", string(list)))
}

func interval(d time.Duration) string { return fmt.Sprintf("%d microseconds", d.Microseconds()) }
func moment(t time.Time) string       { return t.UTC().Format("2006-01-02 15:04:05.999999Z07:00") }

func text(value any) string {
	if raw, ok := value.(json.RawMessage); ok {
		return string(raw)
	}
	return fmt.Sprint(value)
}

// listed are the texts of a list, "" for none.
func listed[T comparable](list []T, text func(T) string, none T) []string {
	texts := make([]string, len(list))
	for i, one := range list {
		if one != none {
			texts[i] = text(one)
		}
	}
	return texts
}
