package tenontest

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	tenon "github.com/tenon-tasks/tenon/clients/go"
)

const (
	runsMax = 10_000 // more runs in one call are taken for tasks that enqueue each other without end
	snooze  = time.Minute

	mine = "SELECT m.id FROM tenon.mine() m"
	all  = "SELECT t.id FROM tenon.task t"

	taskEarlier = `UPDATE tenon.task SET run_at = run_at - $1::text::interval, wanted_at = wanted_at - $1::text::interval,
		start_before = start_before - $1::text::interval WHERE start_time IS NULL AND id IN (%s) RETURNING 1`
	waitEarlier  = `UPDATE tenon.waiting SET until = until - $1::text::interval, settled = false WHERE task_id IN (%s) RETURNING 1`
	limitEarlier = `UPDATE tenon.limit_task SET wanted_at = wanted_at - $1::text::interval
		WHERE state IN ('later', 'ending') AND task_id IN (%s) RETURNING 1`

	claim = `WITH c AS (UPDATE tenon.task t SET start_time = clock_timestamp(), claims = claims + 1, claim_key = $1::text::bigint,
			worker_id = '00000000-0000-0000-0000-000000000000'
		WHERE t.id = (SELECT d.id FROM tenon.task d WHERE d.id IN (%s) AND d.start_time IS NULL AND d.run_at <= clock_timestamp()
			AND d.kind IN (SELECT json_array_elements_text($2::text::json)) AND coalesce(d.start_before > clock_timestamp(), true)
			ORDER BY d.priority DESC, d.run_at, d.id LIMIT 1)
		RETURNING json_build_object('id', t.id, 'kind', t.kind, 'queue', t.queue, 'attempt', 1 + t.failures + t.crashes,
			'failures', t.failures, 'max_attempts', t.max_attempts, 'timeout_ms', t.timeout_ms, 'trace', t.trace,
			'claim', t.id || '/' || t.claims || '/' || lpad(to_hex(t.claim_key), 16, '0'), 'progress', t.progress, 'payload', t.payload,
			'steps', CASE WHEN t.step_count IS NOT NULL THEN tenon.steps_of(t.id) ELSE '{}' END)::text AS line)
		SELECT coalesce((SELECT line FROM c), '')`
	held     = "SELECT count(*)::text FROM tenon.task t WHERE t.id = $1::text::bigint AND t.claim_key = $2::text::bigint"
	step     = "SELECT tenon.step($1::text, $2::text, $3::text::jsonb)::text"
	progress = "SELECT coalesce(tenon.progress($1::text, $2::text::jsonb)::text, '')"
	finish   = "SELECT tenon.finish($1::text, $2::text::jsonb)::text"
	requeue  = `SELECT coalesce(min(r.state::text), '') FROM tenon.requeue(ARRAY[$1::text::bigint], ARRAY[$2::text::bigint], ARRAY[$3::text],
		ARRAY[NULLIF($4::text, '')], ARRAY[NULLIF($5::text, '')::bigint], ARRAY[NULLIF($6::text, '')], ARRAY[NULLIF($7::text, '')]) r`
)

// A DueOption changes what [RunDue] does.
type DueOption func(*due)

// Ahead acts as if this time had passed: delays, retries, snoozes and the time limits of signals within it are due.
func Ahead(d time.Duration) DueOption { return func(o *due) { o.ahead = d } }

// All runs the tasks that others have committed, too.
func All() DueOption { return func(o *due) { o.which = all } }

type due struct {
	ahead time.Duration
	which string
}

// RunDue runs those tasks of the transaction of db that are due and for which the mux has a handler. It ends them in the
// database as a worker does, so that retries, flows, limits and callbacks follow, and continues until no task is due. It
// commits nothing. A handler must leave the transaction usable: a statement that fails in it fails the test.
func RunDue[R tenon.Row](tb testing.TB, db tenon.DB[R], mux *tenon.Mux, opts ...DueOption) []Ended {
	tb.Helper()
	d := due{which: mine}
	for _, option := range opts {
		option(&d)
	}
	if d.ahead > 0 {
		for _, update := range []string{taskEarlier, waitEarlier, limitEarlier} {
			update = "WITH u AS (" + fmt.Sprintf(update, d.which) + ") SELECT count(*)::text FROM u"
			text(tb, db, update, fmt.Sprintf("%d microseconds", d.ahead.Microseconds()))
		}
	}
	kinds, _ := json.Marshal(slices.Sorted(slices.Values(mux.Kinds())))
	var runs []Ended
	for range runsMax {
		text(tb, db, "SELECT tenon.settle()::text")
		key := randomKey()
		task := text(tb, db, fmt.Sprintf(claim, d.which), key, string(kinds))
		if task == "" {
			return runs
		}
		runs = append(runs, runClaimed(tb, db, mux, key, task))
	}
	tb.Fatalf("%d runs, and there are still due tasks: do they enqueue each other?", runsMax)
	return nil
}

func randomKey() string {
	var bytes [8]byte
	_, _ = rand.Read(bytes[:])
	return strconv.FormatUint(binary.NativeEndian.Uint64(bytes[:])>>2+1, 10)
}

// text is what a query returns.
func text[R tenon.Row](tb testing.TB, db tenon.DB[R], query string, args ...any) (value string) {
	tb.Helper()
	if err := db.QueryRow(tb.Context(), query, args...).Scan(&value); err != nil {
		tb.Fatalf("run due tasks: %v", err)
	}
	return value
}

// runClaimed runs a task, and does what a worker does with the answer.
func runClaimed[R tenon.Row](tb testing.TB, db tenon.DB[R], mux *tenon.Mux, key, task string) Ended {
	tb.Helper()
	var l line
	var whole bytes.Buffer
	err := json.Unmarshal([]byte(task), &l)
	if err == nil {
		err = json.Compact(&whole, []byte(task)) // as a worker writes it
	}
	if err != nil {
		tb.Fatalf("run due tasks: %v", err)
	}
	ended, said := serve(tb, mux, l, whole.Bytes())
	id := strconv.FormatInt(l.ID, 10)
	if text(tb, db, held, id, key) == "0" {
		return ended // its handler has finished it, or it was cancelled
	}
	for _, m := range said {
		if m.Step != nil {
			text(tb, db, step, l.Claim, m.Step.Name, string(m.Step.Value))
		} else {
			text(tb, db, progress, l.Claim, string(m.Progress))
		}
	}
	if ended.Outcome == "done" {
		var result any
		if ended.Result != nil {
			result = string(ended.Result)
		}
		text(tb, db, finish, l.Claim, result)
		return ended
	}
	reason, delay := ended.Outcome, ""
	if ended.Delay > 0 {
		delay = strconv.FormatInt(ended.Delay.Milliseconds(), 10)
	} else if reason == "snooze" {
		delay = strconv.FormatInt(snooze.Milliseconds(), 10)
	}
	if reason == "interrupted" {
		reason = "released"
	}
	text(tb, db, requeue, id, key, reason, ended.Error, delay, ended.ErrorClass, ended.Signal)
	return ended
}
