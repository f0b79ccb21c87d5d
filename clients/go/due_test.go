package tenon_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	tenon "github.com/tenon-tasks/tenon/clients/go"
	"github.com/tenon-tasks/tenon/clients/go/tenontest"
)

type dueTask struct {
	Name string `json:"name"`
}

func (dueTask) Kind() string { return "conformance.due" }

// dueMux has the handler of run_due.json, and tells which tasks it has run.
func dueMux(first map[string]string) (mux *tenon.Mux, ran *[]string) {
	mux, ran = &tenon.Mux{}, &[]string{}
	tenon.Handle(mux, func(_ context.Context, t *tenon.Task[dueTask]) (string, error) {
		name := t.Payload.Name
		how := first[name]
		delete(first, name)
		*ran = append(*ran, name)
		switch how {
		case "snooze":
			return "", tenon.Snooze(time.Hour)
		case "failed":
			return "", tenon.RetryAfter(time.Hour, errors.New("not yet"))
		case "dead":
			return "", tenon.Dead(errors.New("never"))
		}
		return name, nil
	})
	return mux, ran
}

type dueCase struct {
	Name   string
	Limits map[string]int
	Tasks  []struct {
		Name, First string
		DelayMS     int64    `json:"delay_ms"`
		LimitKeys   []string `json:"limit_keys"`
		MaxAttempts int      `json:"max_attempts"`
	}
	Calls []struct {
		AheadMS int64 `json:"ahead_ms"`
		Ran     []string
	}
	States []string
}

func TestRunDueCases(t *testing.T) {
	all := cases[struct{ Cases []dueCase }](t, "run_due.json")
	for _, c := range all.Cases {
		t.Run(c.Name, func(t *testing.T) { c.run(t) })
	}
}

func (c dueCase) run(t *testing.T) {
	tx := begin(t)
	for name, most := range c.Limits {
		must(t, tenon.SetLimit(t.Context(), tx, tenon.Limit{Name: name, MaxRunning: most}))
	}
	first, ids := map[string]string{}, []int64{}
	for _, one := range c.Tasks {
		first[one.Name] = one.First
		opts := []tenon.Option{tenon.Delay(time.Duration(one.DelayMS) * time.Millisecond)}
		if one.LimitKeys != nil {
			opts = append(opts, tenon.LimitKeys(one.LimitKeys...))
		}
		if one.MaxAttempts > 0 {
			opts = append(opts, tenon.MaxAttempts(one.MaxAttempts))
		}
		id, err := tenon.Enqueue(t.Context(), tx, dueTask{one.Name}, opts...)
		must(t, err)
		ids = append(ids, id)
	}
	mux, ran := dueMux(first)
	for i, call := range c.Calls {
		*ran = nil
		runs := tenontest.RunDue(t, tx, mux, tenontest.Ahead(time.Duration(call.AheadMS)*time.Millisecond))
		var said []string
		for j, one := range runs {
			said = append(said, (*ran)[j]+" "+one.Outcome)
		}
		if !slices.Equal(said, call.Ran) {
			t.Errorf("call %d ran %q, not %q", i, said, call.Ran)
		}
	}
	for i, id := range ids {
		e, err := tenon.Result(t.Context(), tx, id)
		must(t, err)
		if e.State != c.States[i] {
			t.Errorf("%s is %s, not %s", c.Tasks[i].Name, e.State, c.States[i])
		}
	}
}
