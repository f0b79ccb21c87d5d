package tenon_test

import (
	"slices"
	"testing"
	"time"

	tenon "github.com/tenon-tasks/tenon/clients/go"
)

func TestSync(t *testing.T) {
	ctx, tx := t.Context(), begin(t)
	described := tenon.Description{
		Kinds:     []tenon.Args{mail{}, report{}},
		Schedules: []tenon.Schedule{{Name: "monthly", Cron: "0 3 1 * *", Task: report{1}}, {Name: "beat", Every: time.Minute, Task: mail{"a"}}},
		Limits:    []tenon.Limit{{Name: "tenant", MaxRunning: 5, Fair: true}, {Name: "api", MaxStarts: 100, Per: time.Minute}},
		Source:    "go",
	}
	changes, err := tenon.Sync(ctx, tx, described)
	must(t, err)
	for _, want := range []tenon.Change{{"kind", "report", "added"}, {"schedule", "monthly", "added"}, {"limit", "api", "added"}} {
		if !slices.Contains(changes, want) {
			t.Errorf("%v lacks %v", changes, want)
		}
	}
	is := value[string](t, tx, "SELECT concat_ws(' ', queue, priority, timeout_ms, on_dead) FROM tenon.kind WHERE name = 'report'")
	if is != "slow 2 1200000 alarm" {
		t.Error(is)
	}
	// so they hold for tasks that others enqueue
	id := value[int64](t, tx, `SELECT tenon.enqueue('report', '{"month": 1}')`)
	if queue := value[string](t, tx, "SELECT queue FROM tenon.task WHERE id = $1", id); queue != "slow" {
		t.Error(queue)
	}
	if changes, err := tenon.Sync(ctx, tx, described); err != nil || len(changes) != 0 {
		t.Error("once more:", changes, err)
	}
	described.Limits[0].MaxRunning = 6
	described.Schedules = described.Schedules[:1]
	described.RemoveSchedules = []string{"beat", "nowhere"}
	changes, err = tenon.Sync(ctx, tx, described)
	must(t, err)
	slices.SortFunc(changes, func(a, b tenon.Change) int { return len(a.What) - len(b.What) })
	if want := []tenon.Change{{"limit", "tenant", "changed"}, {"schedule", "beat", "removed"}}; !slices.Equal(changes, want) {
		t.Errorf("%v, not %v", changes, want)
	}
}
