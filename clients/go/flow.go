package tenon

import (
	"context"
	"encoding/json"
)

// A FlowTask is a task of a described flow.
type FlowTask struct {
	Name      string // for DependsOn of other tasks, and for people
	Task      Args
	DependsOn []string // names
	Options   []Option
}

// A FlowDescription is a whole flow, with its tasks.
type FlowDescription struct {
	Name  string
	Tasks []FlowTask
	// Callbacks, as those of a Batch.
	OnDone, OnDead, OnEnd string
	Payload               any
}

// CreateFlow makes a whole flow in one statement, and returns its number.
func CreateFlow[R Row](ctx context.Context, db DB[R], f FlowDescription) (int64, error) {
	tasks := make([]map[string]any, len(f.Tasks))
	for i, task := range f.Tasks {
		given := optionsOf(task.Task, task.Options)
		payload, err := given.payload(task.Task)
		if err != nil {
			return 0, err
		}
		tasks[i] = given.document("queue", "priority", "run_at", "delay", "start_before", "max_attempts", "timeout",
			"retry", "limit_keys", "on_parent_dead", "trace", "tags")
		tasks[i]["kind"], tasks[i]["payload"] = task.Task.Kind(), json.RawMessage(payload)
		keep(tasks[i], "name", task.Name)
		if len(task.DependsOn) > 0 {
			tasks[i]["depends_on"] = task.DependsOn
		}
	}
	flow := map[string]any{"tasks": tasks}
	keep(flow, "name", f.Name)
	keep(flow, "on_done", f.OnDone)
	keep(flow, "on_dead", f.OnDead)
	keep(flow, "on_end", f.OnEnd)
	if f.Payload != nil {
		flow["payload"] = f.Payload
	}
	text, err := encode(flow)
	if err != nil {
		return 0, err
	}
	c := &call{}
	c.text = "SELECT tenon.flow(" + c.param("jsonb", string(text)) + ")"
	return one[int64](ctx, db, c)
}

func keep(object map[string]any, name, value string) {
	if value != "" {
		object[name] = value
	}
}
