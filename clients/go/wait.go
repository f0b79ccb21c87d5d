package tenon

import (
	"context"
	"fmt"
	"time"
)

// WaitFor returns how other tasks have ended, such as children that this handler has enqueued: its argument db sees them.
// Return its error: while one of them has not ended, a [*Suspended] ends this attempt, and the task is snoozed without a
// worker; then the handler runs again from its start, with its steps. What WaitFor returns is a step of this name, so it is
// the same in later attempts.
//
// The task looks again after a quarter of the time that it has waited already: 1 s to 1 min. To continue without delay,
// make the children a batch whose OnEnd does the rest.
func WaitFor[R Row](ctx context.Context, db DB[R], t Runner, name string, ids ...int64) ([]Ended, error) {
	return Step(ctx, t, name, func(ctx context.Context) ([]Ended, error) {
		all, over, err := results(ctx, db, ids)
		if err == nil && !over {
			err = askAgain(ctx, t, name, len(ids))
		}
		return all, err
	})
}

// results returns how these tasks have ended, and whether all have.
func results[R Row](ctx context.Context, db DB[R], ids []int64) (all []Ended, over bool, err error) {
	over, all = true, make([]Ended, len(ids))
	for i, id := range ids {
		if all[i], err = Result(ctx, db, id); err != nil {
			return nil, false, err
		}
		over = over && all[i].Over()
	}
	return all, over, nil
}

// askAgain ends the attempt until a quarter of the time has passed that the task has waited already.
func askAgain(ctx context.Context, t Runner, name string, n int) error {
	since, err := Step(ctx, t, name+":since", func(context.Context) (int64, error) { return time.Now().UnixMilli(), nil })
	if err != nil {
		return err
	}
	again := min(max(time.Since(time.UnixMilli(since))/4, time.Second), time.Minute)
	return t.run().suspend(reply{Outcome: "snooze", DelayMS: milliseconds(again), Error: fmt.Sprintf("waits for %d tasks", n)})
}
