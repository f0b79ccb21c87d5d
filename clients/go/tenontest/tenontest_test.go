package tenontest_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	tenon "github.com/tenon-tasks/tenon/clients/go"
	"github.com/tenon-tasks/tenon/clients/go/tenontest"
)

type mail struct {
	To string `json:"to"`
}

func (mail) Kind() string { return "mail" }

func transaction(t *testing.T) pgx.Tx {
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		t.Skip("needs DATABASE_URL")
	}
	tenontest.Setup(t, url)
	tenontest.Setup(t, url) // once only
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestMine(t *testing.T) {
	tx := transaction(t)
	if len(tenontest.Mine(t, tx)) != 0 {
		t.Error("there is one already")
	}
	_, err := tenon.Enqueue(t.Context(), tx, mail{"ann"}, tenon.Delay(time.Hour), tenon.UniqueKey("k"), tenon.Priority(9))
	if err != nil {
		t.Fatal(err)
	}
	task := tenontest.Mine(t, tx)[0]
	if task.Kind != "mail" || task.State != "scheduled" || task.UniqueKey != "k" || task.Priority != 9 || time.Until(task.RunAt) < 59*time.Minute {
		t.Errorf("%+v", task)
	}
	if payloads := tenontest.Payloads[mail](t, tx); len(payloads) != 1 || payloads[0].To != "ann" {
		t.Error(payloads)
	}
}

// A handler sees what the transaction has written, and may finish its task in it.
func TestRunMine(t *testing.T) {
	tx := transaction(t)
	var mux tenon.Mux
	tenon.Handle(&mux, func(ctx context.Context, task *tenon.Task[mail]) (any, error) {
		if task.Payload.To == "" {
			return nil, tenon.Dead(errors.New("no address"))
		}
		return nil, tenon.Finish(ctx, tx, task, map[string]string{"sent": task.Payload.To})
	})
	if _, err := tenon.EnqueueMany(t.Context(), tx, []mail{{"ann"}, {}}); err != nil {
		t.Fatal(err)
	}
	runs := tenontest.RunMine(t, tx, &mux)
	if len(runs) != 2 || runs[0].Outcome != "done" || runs[1].Outcome != "dead" || runs[1].Error != "no address" {
		t.Errorf("%+v", runs)
	}
}
