package tenonpgx_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	tenon "github.com/tenon-tasks/tenon/clients/go"
	"github.com/tenon-tasks/tenon/clients/go/tenonpgx"
)

func connected(t *testing.T) (*pgxpool.Pool, *tenonpgx.Waiter) {
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		t.Skip("needs DATABASE_URL")
	}
	db, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	waiter := tenonpgx.NewWaiter(func(ctx context.Context) (*pgx.Conn, error) {
		config, err := pgx.ParseConfig(url)
		if err == nil {
			config.RuntimeParams["application_name"] = "waiter"
		}
		return pgx.ConnectConfig(ctx, config)
	})
	t.Cleanup(waiter.Close)
	return db, waiter
}

func enqueue(t *testing.T, db *pgxpool.Pool) int64 {
	t.Helper()
	id, err := tenon.Enqueue(t.Context(), db, tenon.Of("k", map[string]int{}))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// end claims a task and finishes it, as a worker does.
func end(t *testing.T, db *pgxpool.Pool, id int64) {
	t.Helper()
	var claim string
	err := db.QueryRow(t.Context(), `UPDATE tenon.task SET start_time = now(), claim_key = tenon.random_key(), worker_id = gen_random_uuid(),
		claims = 1 WHERE id = $1 RETURNING concat_ws('/', id, claims, lpad(to_hex(claim_key), 16, '0'))`, id).Scan(&claim)
	if err == nil {
		_, err = db.Exec(t.Context(), "SELECT tenon.finish($1, to_jsonb($2::bigint))", claim, id)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestManyWaitOnOneConnection(t *testing.T) {
	db, waiter := connected(t)
	var all sync.WaitGroup
	for range 200 {
		id := enqueue(t, db)
		for range 2 {
			all.Go(func() {
				ended, err := waiter.Wait(t.Context(), id)
				var result int64
				if err != nil || ended.State != "done" || ended.Into(&result) != nil || result != id {
					t.Errorf("%d: %+v %v", id, ended, err)
				}
			})
		}
		all.Go(func() { end(t, db, id) })
	}
	all.Wait()
	var connections int
	err := db.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waiter'").Scan(&connections)
	if err != nil || connections != 1 {
		t.Error(connections, err)
	}
}

func TestHowOthersEnd(t *testing.T) {
	db, waiter := connected(t)
	id := enqueue(t, db)
	if _, err := tenon.Cancel(t.Context(), db, id); err != nil {
		t.Fatal(err)
	}
	if ended, err := waiter.Wait(t.Context(), id); err != nil || ended.State != "cancelled" || ended.Into(new(int)) == nil {
		t.Errorf("%+v %v", ended, err)
	}
	if ended, err := waiter.Wait(t.Context(), 1<<40); err != nil || ended.State != "" {
		t.Errorf("%+v %v", ended, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := waiter.Wait(ctx, enqueue(t, db)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// A connection that is lost ends the waits on it; the next one opens another.
func TestConnectionLost(t *testing.T) {
	db, waiter := connected(t)
	id := enqueue(t, db)
	waiting := make(chan error, 1)
	go func() { _, err := waiter.Wait(t.Context(), id); waiting <- err }()
	for ended := false; !ended; {
		err := db.QueryRow(t.Context(), `SELECT coalesce(bool_or(pg_terminate_backend(pid)), false) FROM pg_stat_activity
			WHERE application_name = 'waiter' AND datname = current_database() AND query LIKE '%tenon.await%'`).Scan(&ended)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := <-waiting; err == nil || !strings.Contains(err.Error(), "could not wait for task") {
		t.Error(err)
	}
	end(t, db, id)
	if ended, err := waiter.Wait(t.Context(), id); err != nil || ended.State != "done" {
		t.Errorf("%+v %v", ended, err)
	}
}

func TestClosed(t *testing.T) {
	db, waiter := connected(t)
	id := enqueue(t, db)
	waiting := make(chan error, 1)
	go func() { _, err := waiter.Wait(t.Context(), id); waiting <- err }()
	waiter.Close()
	if err := <-waiting; err == nil {
		t.Error("it waits no more, and knows nothing")
	}
	if _, err := waiter.Wait(t.Context(), id); err == nil {
		t.Error("a wait on a waiter that was closed")
	}
}

// Those who wait for a task of another role get the error, and nobody else.
func TestAnotherRolesTask(t *testing.T) {
	db, _ := connected(t)
	id := enqueue(t, db)
	for _, sql := range []string{"DROP ROLE IF EXISTS go_stranger", "CREATE ROLE go_stranger LOGIN PASSWORD 'x'", "SELECT tenon.grant_producer('go_stranger')"} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		_, _ = db.Exec(context.Background(), "DROP OWNED BY go_stranger")
		_, _ = db.Exec(context.Background(), "DELETE FROM tenon.producer WHERE role = 'go_stranger'")
		_, _ = db.Exec(context.Background(), "DROP ROLE go_stranger")
	})
	waiter := tenonpgx.NewWaiter(func(ctx context.Context) (*pgx.Conn, error) {
		config, err := pgx.ParseConfig(os.Getenv("DATABASE_URL"))
		if err == nil {
			config.User, config.Password = "go_stranger", "x"
		}
		return pgx.ConnectConfig(ctx, config)
	})
	defer waiter.Close()
	var refused *pgconn.PgError
	if _, err := waiter.Wait(t.Context(), id); !errors.As(err, &refused) || refused.Code != "42501" {
		t.Error(err)
	}
	if ended, err := waiter.Wait(t.Context(), 1<<40); err != nil || ended.State != "" {
		t.Errorf("%+v %v", ended, err)
	}
}
