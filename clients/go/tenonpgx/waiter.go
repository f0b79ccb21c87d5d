// Package tenonpgx waits for the ends of tasks on a connection of pgx. It is a package of its own because it imports pgx;
// [tenon.Enqueue] and the other functions of package tenon take connections and transactions of pgx without it.
package tenonpgx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	tenon "github.com/tenon-tasks/tenon/clients/go"
)

// askAgain: a task without news for this long is asked for again. A notification is lost with a connection, and the mark
// of a task that was locked is missing.
const askAgain = 10 * time.Second

var errClosed = errors.New("the waiter was closed")

// A Waiter lets any number of goroutines wait for tasks on one connection. A process needs one.
type Waiter struct {
	connect func(context.Context) (*pgx.Conn, error)
	ctx     context.Context
	close   context.CancelCauseFunc

	mu      sync.Mutex
	waiting map[int64]map[chan answer]bool
	added   []int64
	rouse   context.CancelFunc // ends the wait for notifications
	serving chan struct{}      // closed when nobody serves any more; nil: nobody does
}

type answer struct {
	ended tenon.Ended
	err   error
}

// NewWaiter makes a waiter. It calls connect for the first wait, and again after the connection was lost. The connection
// is the waiter's own, and must not go through a pooler.
func NewWaiter(connect func(context.Context) (*pgx.Conn, error)) *Waiter {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Waiter{connect: connect, ctx: ctx, close: cancel, waiting: map[int64]map[chan answer]bool{}, rouse: func() {}}
}

// Connect makes a waiter with a connection of its own to this database.
func Connect(url string) *Waiter {
	return NewWaiter(func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, url) })
}

// Wait waits until a task has ended, in any state, or until ctx is done. When the connection is lost, every wait on it
// ends with an error; the tasks continue, and may be waited for again.
//
// The role of the connection is the one that enqueued the task, or a reader; else the error has SQLSTATE 42501.
func (w *Waiter) Wait(ctx context.Context, id int64) (tenon.Ended, error) {
	told := make(chan answer, 1)
	if err := w.add(id, told); err != nil {
		return tenon.Ended{}, err
	}
	defer w.remove(id, told)
	select {
	case a := <-told:
		if a.err != nil {
			a.err = fmt.Errorf("could not wait for task %d: %w", id, a.err)
		}
		return a.ended, a.err
	case <-ctx.Done():
		return tenon.Ended{}, fmt.Errorf("task %d has not ended: %w", id, context.Cause(ctx))
	}
}

// Close ends the connection. Those that still wait get an error.
func (w *Waiter) Close() {
	w.close(errClosed)
	w.mu.Lock()
	serving := w.serving
	w.mu.Unlock()
	if serving != nil {
		<-serving
	}
}

func (w *Waiter) add(id int64, told chan answer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return errClosed
	}
	if w.waiting[id] == nil {
		w.waiting[id] = map[chan answer]bool{}
	}
	w.waiting[id][told] = true
	w.added = append(w.added, id)
	if w.serving == nil {
		w.serving = make(chan struct{})
		go w.serve(w.serving)
	}
	w.rouse()
	return nil
}

func (w *Waiter) remove(id int64, told chan answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting[id], told)
	if len(w.waiting[id]) == 0 {
		delete(w.waiting, id)
	}
}

// serve answers until the connection is lost, or the waiter is closed.
func (w *Waiter) serve(done chan struct{}) {
	defer close(done)
	err := w.listen()
	if cause := context.Cause(w.ctx); cause != nil {
		err = cause
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.waiting {
		w.tell(id, answer{err: err})
	}
	w.added, w.serving, w.rouse = nil, nil, func() {}
}

func (w *Waiter) listen() error {
	conn, err := w.connect(w.ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if err := prepare(w.ctx, conn); err != nil {
		return err
	}
	for due := time.Now().Add(askAgain); ; {
		var all []int64
		if time.Now().After(due) {
			all, due = w.ids(), time.Now().Add(askAgain)
		}
		heard, err := w.hear(conn, due, len(all) > 0)
		if err == nil {
			err = w.ask(conn, heard, all)
		}
		if err != nil {
			return err
		}
	}
}

// prepare makes the connection listen. A mark that a crash of the server loses is set again, because the crash breaks the
// connection too: it need not be flushed.
func prepare(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return err
	}
	if pid != conn.PgConn().PID() {
		return errors.New("the connection goes through a pooler: give the waiter a direct one")
	}
	_, err := conn.Exec(ctx, "SET synchronous_commit = off; LISTEN tenon_ended")
	return err
}

// hear waits for notifications, until it is roused or there is something to ask; it returns the ids that were said.
func (w *Waiter) hear(conn *pgx.Conn, due time.Time, now bool) (heard []int64, err error) {
	ctx, cancel := context.WithDeadline(w.ctx, due)
	defer cancel()
	w.mu.Lock()
	w.rouse = cancel
	if now || len(w.added) > 0 {
		cancel()
	}
	w.mu.Unlock()
	for {
		said, err := conn.WaitForNotification(ctx) // what has come is returned, also if ctx is done
		if err != nil && (conn.IsClosed() || w.ctx.Err() != nil) {
			return nil, err
		} else if err != nil {
			return heard, nil
		}
		if id, err := strconv.ParseInt(said.Payload, 10, 64); err == nil {
			heard = append(heard, id)
		}
		cancel() // what else has come already
	}
}

// ask reads how tasks ended: new ones, one by one, because each statement locks its tasks until it ends; those that were
// said to have ended; and sometimes all.
func (w *Waiter) ask(conn *pgx.Conn, heard, all []int64) error {
	w.mu.Lock()
	added := w.added
	w.added = nil
	w.mu.Unlock()
	for _, id := range added {
		if err := w.askFor(conn, "tenon.await", []int64{id}); err != nil {
			return err
		}
	}
	if err := w.askFor(conn, "tenon.result", heard); err != nil {
		return err
	}
	return w.askFor(conn, "tenon.await", all)
}

func (w *Waiter) askFor(conn *pgx.Conn, function string, ids []int64) error {
	ids = w.waitedFor(ids)
	if len(ids) == 0 {
		return nil
	}
	rows, err := conn.Query(w.ctx, `SELECT i.id, coalesce(r.state, ''), r.result::text, coalesce(r.error, '')
		FROM unnest($1::bigint[]) i (id), `+function+"(i.id) r", ids)
	if err != nil {
		return w.refused(conn, ids, function, err)
	}
	answers, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e tenon.Ended, err error) {
		var result *string
		err = row.Scan(&e.ID, &e.State, &result, &e.Error)
		if result != nil {
			e.Result = json.RawMessage(*result)
		}
		return e, err
	})
	if err != nil {
		return w.refused(conn, ids, function, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range answers {
		if e.Over() {
			w.tell(e.ID, answer{ended: e})
		}
	}
	return nil
}

// refused: the server refused a statement, for instance because one of the tasks is another role's. Each is asked for on
// its own, so that only those that wait for that one get the error.
func (w *Waiter) refused(conn *pgx.Conn, ids []int64, function string, err error) error {
	if conn.IsClosed() || w.ctx.Err() != nil {
		return err
	}
	if len(ids) > 1 {
		for _, id := range ids {
			if err := w.askFor(conn, function, []int64{id}); err != nil {
				return err
			}
		}
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(ids[0], answer{err: err})
	return nil
}

// tell answers all that wait for a task.
func (w *Waiter) tell(id int64, a answer) {
	for told := range w.waiting[id] {
		told <- a // it has room for one, and gets no second
	}
	delete(w.waiting, id)
}

func (w *Waiter) ids() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := make([]int64, 0, len(w.waiting))
	for id := range w.waiting {
		ids = append(ids, id)
	}
	return ids
}

func (w *Waiter) waitedFor(ids []int64) []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	var still []int64
	for _, id := range ids {
		if w.waiting[id] != nil {
			still = append(still, id)
		}
	}
	return still
}
