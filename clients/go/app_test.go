package tenon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	tenon "github.com/tenon-tasks/tenon/clients/go"
)

type counted struct {
	N int `json:"n"`
}

func (counted) Kind() string { return "counted" }

// saga kills its process at a point, once.
type saga struct {
	KillAt string `json:"kill_at"`
	Order  int64  `json:"order"`
}

func (saga) Kind() string { return "saga" }

type pay struct {
	Amount int    `json:"amount"`
	Then   string `json:"then"`
}

func (pay) Kind() string { return "pay" }

type slow struct {
	Drain string `json:"drain"` // what it does when the worker drains: "interrupt" or "wait"
}

func (slow) Kind() string { return "slow" }

type parent struct{ Children int }

func (parent) Kind() string { return "parent" }

type sum struct{}

func (sum) Kind() string { return "sum" }

// app has the handlers that the tests' workers run.
func app() *tenon.Mux {
	mux := &tenon.Mux{}
	mux.Use(func(next tenon.Handler) tenon.Handler {
		return func(ctx context.Context, run *tenon.Run) (any, error) {
			if again, ok := tenon.RunFrom(ctx); !ok || again != run {
				return nil, tenon.Dead(errors.New("the context has not its run"))
			}
			return next(ctx, run)
		}
	})
	tenon.Handle(mux, count)
	tenon.Handle(mux, order)
	tenon.Handle(mux, payOnce)
	tenon.Handle(mux, stay)
	tenon.Handle(mux, raise)
	tenon.Handle(mux, add)
	tenon.Handle(mux, func(_ context.Context, t *tenon.Task[mail]) (any, error) {
		fmt.Println("this goes to stderr, and harms nobody")
		return map[string]string{"sent": t.Payload.To}, nil
	})
	tenon.HandleKind(mux, "panics", func(context.Context, *tenon.Task[map[string]string]) (any, error) {
		var none []int
		return none[len(os.Args)], nil
	})
	return mux
}

var atOnce, most atomic.Int64

// count returns how many ran at once at most.
func count(ctx context.Context, t *tenon.Task[counted]) (map[string]int64, error) {
	now := atOnce.Add(1)
	defer atOnce.Add(-1)
	for {
		is := most.Load()
		if now <= is || most.CompareAndSwap(is, now) {
			break
		}
	}
	time.Sleep(5 * time.Millisecond) // the work
	return map[string]int64{"n": int64(t.Payload.N), "most": most.Load()}, nil
}

func connect(ctx context.Context) (*pgxpool.Pool, error) {
	return pgxpool.New(ctx, os.Getenv("APP_DATABASE_URL"))
}

// order is reserved in the database, charged elsewhere, waits for its payment, and is shipped.
func order(ctx context.Context, t *tenon.Task[saga]) (string, error) {
	db, err := connect(ctx)
	if err != nil {
		return "", err
	}
	defer db.Close()
	note := func(what string) error {
		_, err := db.Exec(ctx, "INSERT INTO public.note (id, what) VALUES ($1, $2)", t.ID, what)
		return err
	}
	die := func(at string) {
		if t.Payload.KillAt != at {
			return
		}
		var killed bool
		err := db.QueryRow(ctx, "SELECT EXISTS (SELECT FROM public.note WHERE id = $1 AND what = 'killed')", t.ID).Scan(&killed)
		if err == nil && !killed && note("killed") == nil {
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {}
		}
	}
	die("begin")
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		_, err := tenon.StepTx(ctx, tx, t, "reserve", func(ctx context.Context) (int, error) {
			_, err := tx.Exec(ctx, "INSERT INTO public.note (id, what) VALUES ($1, 'reserved')", t.ID)
			return 4, err
		})
		die("reserving")
		return err
	})
	if err != nil {
		return "", err
	}
	die("reserved")
	receipt, err := tenon.Step(ctx, t, "charge", func(context.Context) (string, error) {
		err := note("charged")
		die("charging")
		return fmt.Sprint("receipt-", t.ID), err
	})
	if err != nil {
		return "", err
	}
	die("charged")
	paid, came, err := tenon.WaitSignal[int](ctx, t, fmt.Sprint("paid:", t.Payload.Order), time.Hour)
	if err != nil {
		return "", err
	}
	die("paid")
	if err := tenon.Sleep(ctx, t, "rest", time.Millisecond); err != nil {
		return "", err
	}
	die("rested")
	return fmt.Sprintf("%s %d %v", receipt, paid, came), nil
}

// payOnce finishes its task in the transaction of its effect.
func payOnce(ctx context.Context, t *tenon.Task[pay]) (any, error) {
	db, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE public.account SET balance = balance + $1", t.Payload.Amount); err != nil {
			return err
		}
		if t.Payload.Then == "lose" { // as if it was cancelled at this moment
			if _, err := db.Exec(ctx, "SELECT tenon.cancel($1)", t.ID); err != nil {
				return err
			}
		}
		return tenon.Finish(ctx, tx, t, map[string]int{"paid": t.Payload.Amount})
	})
	if t.Payload.Then == "die" && err == nil {
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		select {}
	}
	return nil, err
}

// stay runs until it is told to stop, and reports how.
func stay(ctx context.Context, t *tenon.Task[slow]) (any, error) {
	checkpoint := map[string]int{}
	if resumed, err := t.Resume(&checkpoint); resumed {
		return checkpoint, err
	}
	if err := errors.Join(t.Progress(map[string]int{"done": 7}), t.Extend(time.Hour)); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("stopped: %w", context.Cause(ctx))
	case <-t.Draining():
	}
	if t.Payload.Drain == "interrupt" {
		return nil, tenon.ErrInterrupted
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// raise enqueues children, and waits for them.
func raise(ctx context.Context, t *tenon.Task[parent]) (any, error) {
	db, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var ids []int64
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) (err error) {
		ids, err = tenon.StepTx(ctx, tx, t, "children", func(ctx context.Context) ([]int64, error) {
			return tenon.EnqueueMany(ctx, tx, make([]counted, t.Payload.Children))
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	ended, err := tenon.WaitFor(ctx, db, t, "all", ids...)
	if err != nil {
		return nil, err
	}
	var states []string
	for _, child := range ended {
		states = append(states, child.State)
	}
	return strings.Join(states, " "), nil
}

// add adds up what its parents counted.
func add(ctx context.Context, t *tenon.Task[sum]) (int, error) {
	db, err := connect(ctx)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	parents, err := tenon.Parents(ctx, db, t)
	all := 0
	for _, parent := range parents {
		var result counted
		err = errors.Join(err, json.Unmarshal(parent.Result, &result))
		all += result.N
	}
	return all, err
}
