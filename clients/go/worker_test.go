package tenon_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	tenon "github.com/tenon-tasks/tenon/clients/go"
	"github.com/tenon-tasks/tenon/clients/go/tenontest"
)

// These tests run a worker, whose handlers are in app_test.go.

func enqueue(t *testing.T, db *pgxpool.Pool, args tenon.Args, opts ...tenon.Option) int64 {
	t.Helper()
	id, err := tenon.Enqueue(t.Context(), db, args, opts...)
	must(t, err)
	return id
}

// ended waits for the end of a task.
func ended(t *testing.T, db *pgxpool.Pool, id int64) tenon.Ended {
	t.Helper()
	await(t, db, "SELECT state IN ('done', 'dead', 'cancelled', 'expired') FROM tenon.result($1)", id)
	e, err := tenon.Result(t.Context(), db, id)
	must(t, err)
	return e
}

func TestTwentyAtOnce(t *testing.T) {
	db := pool(t)
	all := make([]counted, 2000)
	for i := range all {
		all[i].N = i
	}
	_, err := tenon.EnqueueMany(t.Context(), db, all)
	must(t, err)
	w := worker(t, "app", "--slots", "1", "--until-empty")
	if code := w.wait(); code != 0 {
		t.Fatal(code)
	}
	is := value[string](t, db, `SELECT concat_ws(' ', count(*), count(DISTINCT payload->>'n'), bool_and(result->'n' = payload->'n'),
		max((result->>'most')::int)) FROM tenon.history WHERE outcome = 'done' AND kind = 'counted'`)
	if is != "2000 2000 t 20" {
		t.Fatal(is)
	}
}

func TestOutcomes(t *testing.T) {
	db := pool(t)
	sent := enqueue(t, db, mail{"ann@example.org"})
	wrong := enqueue(t, db, tenon.Of("mail", map[string]int{"to": 5}))
	panics := enqueue(t, db, tenon.Of("panics", map[string]string{}), tenon.MaxAttempts(1))
	children := enqueue(t, db, parent{3})
	worker(t, "app", "--slots", "2")
	if e := ended(t, db, sent); string(e.Result) != `{"sent": "ann@example.org"}` {
		t.Error(e)
	}
	if e := ended(t, db, wrong); e.State != "dead" || !strings.Contains(e.Error, "does not fit mail") {
		t.Error(e)
	}
	if e := ended(t, db, panics); !strings.HasPrefix(e.Error, "panic: runtime error: index out of range") ||
		!strings.Contains(e.Error, "app_test.go") {
		t.Error(e)
	}
	if e := ended(t, db, children); string(e.Result) != `"done done done"` {
		t.Error(e)
	}
}

// Whenever its process dies, an effect in the database happens once, and a step elsewhere at most once more.
func TestSagaKilledAtEachStep(t *testing.T) {
	db := pool(t)
	_, err := db.Exec(t.Context(), "CREATE TABLE public.note (id bigint, what text)")
	must(t, err)
	points := []string{"begin", "reserving", "reserved", "charging", "charged", "paid", "rested", "none"}
	ids := map[string]int64{}
	for i, point := range points {
		ids[point] = enqueue(t, db, saga{point, int64(i)}, tenon.RetryPolicy("constant(1 ms)"))
	}
	worker(t, "one by one", "--slots", "2")
	await(t, db, "SELECT count(*) FILTER (WHERE state = 'blocked') = $1 FROM tenon.tasks WHERE kind = 'saga'", len(points))
	for i := range points {
		_, err := tenon.Signal(t.Context(), db, fmt.Sprint("paid:", i), 30)
		must(t, err)
	}
	for _, point := range points {
		id := ids[point]
		if e := ended(t, db, id); string(e.Result) != fmt.Sprintf(`"receipt-%d 30 true"`, id) {
			t.Error(point, e)
		}
		count := func(what string) int64 {
			return value[int64](t, db, "SELECT count(*) FROM public.note WHERE id = $1 AND what = $2", id, what)
		}
		charged := int64(1)
		if point == "charging" {
			charged = 2
		}
		killed := int64(1)
		if point == "none" {
			killed = 0
		}
		if count("reserved") != 1 || count("charged") != charged || count("killed") != killed {
			t.Errorf("%s: reserved %d, charged %d, killed %d", point, count("reserved"), count("charged"), count("killed"))
		}
	}
}

func TestFinishInTheHandlersTransaction(t *testing.T) {
	db := pool(t)
	_, err := db.Exec(t.Context(), "CREATE TABLE public.account (balance integer)")
	must(t, err)
	_, err = db.Exec(t.Context(), "INSERT INTO public.account VALUES (0)")
	must(t, err)
	paid, killed, lost := enqueue(t, db, pay{1, ""}), enqueue(t, db, pay{10, "die"}), enqueue(t, db, pay{100, "lose"})
	worker(t, "app", "--slots", "1")
	if e := ended(t, db, paid); string(e.Result) != `{"paid": 1}` {
		t.Error(e)
	}
	if e := ended(t, db, killed); string(e.Result) != `{"paid": 10}` {
		t.Error(e)
	}
	if e := ended(t, db, lost); e.State != "cancelled" {
		t.Error(e)
	}
	if balance := value[int](t, db, "SELECT balance FROM public.account"); balance != 11 {
		t.Errorf("the balance is %d, not 11", balance)
	}
}

// A step whose transaction was rolled back is done again, in the same attempt too; one that was committed is not.
func TestStepTxOfARolledBackTransaction(t *testing.T) {
	db, mux, done := pool(t), &tenon.Mux{}, 0
	id := enqueue(t, db, mail{"a"})
	claim := value[string](t, db, `UPDATE tenon.task SET start_time = now(), claim_key = tenon.random_key(), worker_id = gen_random_uuid(),
		claims = 1 WHERE id = $1 RETURNING concat_ws('/', id, claims, lpad(to_hex(claim_key), 16, '0'))`, id)
	tenon.Handle(mux, func(ctx context.Context, task *tenon.Task[mail]) (any, error) {
		var values []int
		for _, commits := range []bool{false, true, true} {
			tx, err := db.Begin(ctx)
			if err != nil {
				return nil, err
			}
			value, err := tenon.StepTx(ctx, tx, task, "one", func(context.Context) (int, error) { done++; return done, nil })
			values = append(values, value)
			if commits && err == nil {
				err = tx.Commit(ctx)
			} else {
				err = errors.Join(err, tx.Rollback(ctx))
			}
			if err != nil {
				return nil, err
			}
		}
		return values, nil
	})
	run := tenontest.Run(t, mux, mail{"a"}, tenontest.ID(id), tenontest.Claim(claim))
	if string(run.Result) != "[1,2,2]" {
		t.Errorf("%+v", run)
	}
	// a claim that is lost undoes the work
	if _, err := tenon.Cancel(t.Context(), db, id); err != nil {
		t.Fatal(err)
	}
	run = tenontest.Run(t, mux, mail{"a"}, tenontest.ID(id), tenontest.Claim(claim))
	if run.Outcome != "failed" || run.ErrorClass != "55000" {
		t.Errorf("%+v", run)
	}
}

func TestCancel(t *testing.T) {
	db := pool(t)
	id := enqueue(t, db, slow{})
	w := worker(t, "app", "--slots", "1")
	await(t, db, "SELECT coalesce((SELECT progress->>'done' = '7' FROM tenon.task WHERE id = $1), false)", id)
	if e, err := tenon.Result(t.Context(), db, id); err != nil || e.State != "running" || string(e.Progress) != `{"done": 7}` {
		t.Error(e, err) // its producer sees the progress
	}
	if ok, err := tenon.Cancel(t.Context(), db, id); !ok || err != nil {
		t.Fatal(ok, err)
	}
	// the process lives, and runs the next one
	if e := ended(t, db, enqueue(t, db, mail{"a"})); e.State != "done" {
		t.Error(e)
	}
	w.cmd.Process.Signal(syscall.SIGTERM)
	if code := w.wait(); code != 0 {
		t.Errorf("the worker ended with %d", code)
	}
	if strings.Contains(w.log(), "KILL") {
		t.Error("its handler was killed")
	}
}

// A task that is interrupted by a drain is not charged, and continues from its checkpoint.
func TestDrain(t *testing.T) {
	for _, how := range []string{"interrupt", "wait"} {
		t.Run(how, func(t *testing.T) {
			db := pool(t)
			id := enqueue(t, db, slow{how})
			w := worker(t, "app", "--slots", "1", "--drain-limit", "1s")
			await(t, db, "SELECT coalesce((SELECT progress->>'done' = '7' FROM tenon.task WHERE id = $1), false)", id)
			begin := time.Now()
			w.cmd.Process.Signal(syscall.SIGTERM)
			w.wait()
			if took := time.Since(begin); how == "interrupt" && took > 20*time.Second {
				t.Errorf("it took %v to drain", took)
			}
			is := value[string](t, db, "SELECT concat_ws(' ', state, failures, crashes) FROM tenon.tasks WHERE id = $1", id)
			if is != "ready 0 0" {
				t.Error(is)
			}
			worker(t, "app", "--slots", "1")
			if e := ended(t, db, id); string(e.Result) != `{"done": 7}` {
				t.Error(e)
			}
		})
	}
}

// A task gets what its parents returned; a dead one is made ready again.
func TestParentsAndRetry(t *testing.T) {
	db := pool(t)
	flow, err := tenon.NewFlow(t.Context(), db, "sum")
	must(t, err)
	first := enqueue(t, db, counted{7}, tenon.Flow(flow))
	child := enqueue(t, db, sum{}, tenon.Flow(flow), tenon.DependsOn(first))
	wrong := enqueue(t, db, tenon.Of("mail", map[string]int{"to": 5}))
	worker(t, "app", "--slots", "1")
	if e := ended(t, db, child); string(e.Result) != "7" {
		t.Error(e)
	}
	if e := ended(t, db, wrong); e.State != "dead" {
		t.Error(e)
	}
	if ok, err := tenon.Retry(t.Context(), db, wrong, ""); !ok || err != nil {
		t.Error(ok, err)
	}
	soon := enqueue(t, db, counted{8}, tenon.Delay(time.Hour))
	if ok, err := tenon.RunNow(t.Context(), db, soon); !ok || err != nil {
		t.Error(ok, err)
	}
	if e := ended(t, db, soon); e.State != "done" {
		t.Error(e)
	}
	if ok, err := tenon.Retry(t.Context(), db, child, ""); ok || err != nil {
		t.Error("a task that is done is retried:", ok, err)
	}
}

// One section of the handlers file serves all kinds of a mux.
func TestWildcard(t *testing.T) {
	db := pool(t)
	id := enqueue(t, db, mail{"ann@example.org"})
	start(t, program(t), "worker", "--handler", fmt.Sprintf("*=pool:TENON_TEST_CHILD=app exec '%s'", self(t)))
	if e := ended(t, db, id); e.State != "done" {
		t.Error(e)
	}
}
