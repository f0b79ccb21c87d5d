package tenon_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	tenon "github.com/tenon-tasks/tenon/clients/go"
)

type mail struct {
	To string `json:"to"`
}

func (mail) Kind() string { return "mail" }

// report has options of its kind, and a check with a pointer as its receiver.
type report struct {
	Month int `json:"month"`
}

func (report) Kind() string { return "report" }
func (report) TaskOptions() []tenon.Option {
	return []tenon.Option{tenon.Queue("slow"), tenon.Priority(2), tenon.OnDead("alarm"), tenon.Timeout(20 * time.Minute)}
}
func (r *report) Validate() error {
	if r.Month < 1 || r.Month > 12 {
		return errors.New("month is not 1 to 12")
	}
	return nil
}

func waiting(t *testing.T, db *pgxpool.Pool) int64 {
	return value[int64](t, db, "SELECT count(*) FROM tenon.task")
}

func TestEnqueueInTheTransaction(t *testing.T) {
	ctx, db := t.Context(), pool(t)
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		_, err := tenon.Enqueue(ctx, tx, mail{"ann@example.org"})
		must(t, err)
		return errors.New("roll back")
	})
	if err == nil || waiting(t, db) != 0 {
		t.Fatal("a task of a transaction that was rolled back is there")
	}
	var id int64
	must(t, pgx.BeginFunc(ctx, db, func(tx pgx.Tx) (err error) {
		id, err = tenon.Enqueue(ctx, tx, mail{"ann@example.org"})
		return err
	}))
	payload := value[string](t, db, "SELECT payload::text FROM tenon.task WHERE id = $1 AND kind = 'mail'", id)
	if payload != `{"to": "ann@example.org"}` {
		t.Fatal(payload)
	}
}

func TestEnqueueOnEachConnection(t *testing.T) {
	ctx, db := t.Context(), pool(t)
	connection, err := db.Acquire(ctx)
	must(t, err)
	defer connection.Release()
	simple, err := pgx.ParseConfig(database(t))
	must(t, err)
	simple.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // as through a pooler
	plain, err := pgx.ConnectConfig(ctx, simple)
	must(t, err)
	defer plain.Close(ctx)
	std := standard(t)
	tx, err := std.BeginTx(ctx, nil)
	must(t, err)
	opts := []tenon.Option{tenon.LimitKeys("tenant:42", `a"b`), tenon.Delay(90 * time.Second)}
	var ids []int64
	note := func(id int64, err error) {
		t.Helper()
		must(t, err)
		ids = append(ids, id)
	}
	note(tenon.Enqueue(ctx, db, mail{"é"}, opts...))
	note(tenon.Enqueue(ctx, connection, mail{"é"}, opts...))
	note(tenon.Enqueue(ctx, connection.Conn(), mail{"é"}, opts...))
	note(tenon.Enqueue(ctx, plain, mail{"é"}, opts...))
	note(tenon.Enqueue(ctx, tenon.SQL(std), mail{"é"}, opts...))
	note(tenon.Enqueue(ctx, tenon.SQL(tx), mail{"é"}, opts...))
	must(t, tx.Commit())
	same := value[int64](t, db, `SELECT count(*) FROM tenon.tasks WHERE id = ANY($1) AND payload = '{"to": "é"}'
		AND limit_keys = ARRAY['tenant:42', 'a"b'] AND run_at - created_at BETWEEN '89 s' AND '91 s'`, ids)
	if same != 6 {
		t.Fatalf("%d of 6 tasks are as they should be", same)
	}
}

func TestOptionsOfTheKind(t *testing.T) {
	ctx, tx := t.Context(), begin(t)
	kept, err := tenon.Enqueue(ctx, tx, report{1})
	must(t, err)
	other, err := tenon.Enqueue(ctx, tx, report{2}, tenon.Priority(9))
	must(t, err)
	const query = "SELECT concat_ws(' ', queue, priority, timeout_ms) FROM tenon.task WHERE id = $1"
	if is := value[string](t, tx, query, kept); is != "slow 2 1200000" {
		t.Error(is)
	}
	if is := value[string](t, tx, query, other); is != "slow 9 1200000" {
		t.Error(is)
	}
}

func TestPayloadsThatDoNotFit(t *testing.T) {
	ctx, tx := t.Context(), begin(t)
	for name, args := range map[string]tenon.Args{
		"month is not 1 to 12": report{13},
		"NaN":                  tenon.Of("mail", math.NaN()),
		"chan":                 tenon.Of("mail", make(chan int)),
		`\u0000`:               mail{"a\\\x00"},
		"nil":                  nil,
	} {
		if _, err := tenon.Enqueue(ctx, tx, args); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// none of them has aborted the transaction
	if _, err := tenon.Enqueue(ctx, tx, mail{`a\u0000`}); err != nil {
		t.Error(err)
	}
}

func TestArgumentsThatAreRefused(t *testing.T) {
	_, err := tenon.Enqueue(t.Context(), begin(t), mail{}, tenon.Priority(12))
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "22023" {
		t.Fatal(err)
	}
}

func TestUniqueKey(t *testing.T) {
	ctx, tx := t.Context(), begin(t)
	first, err := tenon.Enqueue(ctx, tx, mail{"a"}, tenon.UniqueKey("k"))
	must(t, err)
	second, err := tenon.Enqueue(ctx, tx, mail{"b"}, tenon.UniqueKey("k"), tenon.OnConflict("replace"))
	must(t, err)
	if first != second || value[string](t, tx, "SELECT payload->>'to' FROM tenon.task WHERE id = $1", first) != "b" {
		t.Fatal(first, second)
	}
}

func TestEnqueueMany(t *testing.T) {
	ctx, tx := t.Context(), begin(t)
	none, err := tenon.EnqueueMany(ctx, tx, []mail{})
	if err != nil || len(none) != 0 {
		t.Fatal(none, err)
	}
	ids, err := tenon.EnqueueMany(ctx, tx, []mail{{"a"}, {"b"}, {"c"}}, tenon.UniqueKeys("x", "", "y"), tenon.MaxAttempts(3))
	must(t, err)
	is := value[string](t, tx, `SELECT string_agg(concat(t.payload->>'to', t.unique_key, t.max_attempts), ' ' ORDER BY i.n)
		FROM unnest($1::bigint[]) WITH ORDINALITY i (id, n) JOIN tenon.task t USING (id)`, ids)
	if is != "ax3 b3 cy3" {
		t.Fatal(is)
	}
	if _, err := tenon.EnqueueMany(ctx, tx, []tenon.Args{mail{}, report{1}}); err == nil {
		t.Error("two kinds in one call")
	}
}

func TestWakeUps(t *testing.T) {
	ctx, tx := t.Context(), begin(t)
	var wake tenon.WakeUps
	one, err := tenon.Enqueue(ctx, tx, mail{"a"}, tenon.Wake(&wake))
	must(t, err)
	many, err := tenon.EnqueueMany(ctx, tx, []report{{1}, {2}}, tenon.Wake(&wake))
	must(t, err)
	exchange := value[string](t, tx, "SELECT exchange FROM tenon.route_of('mail')")
	want := []tenon.WakeUp{{one, exchange, "default/mail"}, {many[0], exchange, "slow/report"}, {many[1], exchange, "slow/report"}}
	got := wake.Take()
	for i := range got {
		got[i].RoutingKey = strings.TrimPrefix(got[i].RoutingKey, exchange+".")
	}
	if !reflect.DeepEqual(got, want) || len(wake.Take()) != 0 {
		t.Fatalf("%v, not %v", got, want)
	}
}

func TestFlowsAndBatches(t *testing.T) {
	ctx, tx := t.Context(), begin(t)
	flow, err := tenon.CreateFlow(ctx, tx, tenon.FlowDescription{Name: "nightly", Tasks: []tenon.FlowTask{
		{Name: "fetch", Task: mail{"a"}, Options: []tenon.Option{tenon.Delay(time.Hour), tenon.LimitKeys("x", "y")}},
		{Name: "ship", Task: report{3}, DependsOn: []string{"fetch"}},
	}})
	must(t, err)
	if n := value[int64](t, tx, "SELECT count(*) FROM tenon.task WHERE flow = $1", flow); n != 2 {
		t.Error(n)
	}
	batch, err := tenon.NewBatch(ctx, tx, tenon.Batch{OnDone: "report", Payload: map[string]int{"month": 4}})
	must(t, err)
	_, err = tenon.EnqueueMany(ctx, tx, []mail{{"a"}, {"b"}}, tenon.Flow(batch))
	must(t, err)
	if was, err := tenon.CloseBatch(ctx, tx, batch); err != nil || !was {
		t.Error(was, err)
	}
	if n, err := tenon.CancelFlow(ctx, tx, batch); err != nil || n != 2 {
		t.Error(n, err)
	}
	empty, err := tenon.NewFlow(ctx, tx, "")
	must(t, err)
	parent, err := tenon.Enqueue(ctx, tx, mail{"a"}, tenon.Flow(empty))
	must(t, err)
	child, err := tenon.Enqueue(ctx, tx, mail{"b"}, tenon.Flow(empty), tenon.DependsOn(parent), tenon.OnParentDead("cancel"))
	must(t, err)
	if e, err := tenon.Result(ctx, tx, child); err != nil || e.State != "blocked" || e.Over() {
		t.Error(e, err)
	}
	if ok, err := tenon.Cancel(ctx, tx, parent); err != nil || !ok {
		t.Error(ok, err)
	}
	if first, err := tenon.Signal(ctx, tx, "paid:1", json.RawMessage(`{"amount": 30}`)); err != nil || !first {
		t.Error(first, err)
	}
}

func TestSchedulesAndLimits(t *testing.T) {
	ctx, tx := t.Context(), begin(t)
	next, err := tenon.SetSchedule(ctx, tx, tenon.Schedule{Name: "nightly", Cron: "30 3 * * *", Zone: "Europe/Berlin",
		Task: report{1}, Overlap: "skip"})
	if err != nil || next.Before(time.Now()) {
		t.Fatal(next, err)
	}
	is := value[string](t, tx, "SELECT concat_ws(' ', kind, queue, payload, overlap) FROM tenon.schedules WHERE name = 'nightly'")
	if is != `report slow {"month": 1} skip` {
		t.Error(is)
	}
	if was, err := tenon.RemoveSchedule(ctx, tx, "nightly"); err != nil || !was {
		t.Error(was, err)
	}
	must(t, tenon.SetLimit(ctx, tx, tenon.Limit{Name: "api", MaxStarts: 1, Per: time.Minute}))
	if wait, err := tenon.TakeLimit(ctx, tx, "api", 1); err != nil || wait != 0 {
		t.Error(wait, err)
	}
	if wait, err := tenon.TakeLimit(ctx, tx, "api", 1); err != nil || wait <= 0 || wait > time.Minute {
		t.Error(wait, err)
	}
	if was, err := tenon.RemoveLimit(ctx, tx, "api"); err != nil || !was {
		t.Error(was, err)
	}
}

func TestContextOfACall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tenon.Enqueue(ctx, pool(t), mail{"a"}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
