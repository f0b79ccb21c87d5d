package tenon

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// A Schedule enqueues a task at each of its ticks. Its fields are the arguments of tenon.set_schedule.
type Schedule struct {
	Name  string
	Cron  string        // "30 3 * * mon-fri"; or
	Every time.Duration // the time between ticks
	Zone  string        // of Cron, such as "Europe/Berlin"; default: UTC
	// Task is what is enqueued. Of its options, Queue, Priority, MaxAttempts and Timeout are of the schedule.
	Task    Args
	CatchUp string // "last", "none" or "all"
	Overlap string // "allow" or "skip"
}

// A Limit holds for the tasks of a limit key. Its fields are the arguments of tenon.set_limit.
type Limit struct {
	Name         string // "tenant:42"; "tenant", for each key that begins with it; "kind/NAME" or "queue/NAME"
	MaxRunning   int
	MaxStarts    int
	Per          time.Duration // of MaxStarts
	Strict, Fair bool
	Weight       int
	WhenDead     string // "block" or "skip"
}

// A Description is what a program wants of the database: the options of its kinds, schedules and limits.
type Description struct {
	// Kinds are values of payload types, such as Mail{}. Their TaskOptions become the defaults of the kinds, for every
	// way of enqueueing: also for SQL, schedules and the command line.
	Kinds     []Args
	Schedules []Schedule
	Limits    []Limit
	// What is to be removed, by its name. Nothing else is.
	RemoveKinds, RemoveSchedules, RemoveLimits []string
	// Source is a name for the origin of the schedules, such as the name of the program.
	Source string
}

// A Change is what [Sync] did: Act is "added", "changed" or "removed".
type Change struct {
	What, Name, Act string
}

// Sync makes the database as d describes it, in one statement, and returns what it changed. Call it when you deploy. For
// operators.
func Sync[R Row](ctx context.Context, db DB[R], d Description) (changes []Change, err error) {
	described, err := d.document()
	if err != nil {
		return nil, err
	}
	c, list := &call{}, ""
	c.text = `SELECT coalesce(json_agg(json_build_object('What', s.what, 'Name', s.name, 'Act', s.act)), '[]')::text
		FROM tenon.sync(` + c.param("jsonb", described) + ") s"
	if err := query(ctx, db, c, &list); err != nil {
		return nil, err
	}
	err = json.Unmarshal([]byte(list), &changes)
	return changes, err
}

// SetSchedule sets one schedule, and returns its next tick. For operators.
func SetSchedule[R Row](ctx context.Context, db DB[R], s Schedule) (next time.Time, err error) {
	given, err := s.arguments()
	if err != nil {
		return next, err
	}
	c := &call{}
	c.text = "SELECT tenon.set_schedule(" + c.param("text", s.Name) + given.arguments(c) + ")"
	return one[time.Time](ctx, db, c)
}

// RemoveSchedule removes a schedule; it returns whether there was one. For operators.
func RemoveSchedule[R Row](ctx context.Context, db DB[R], name string) (bool, error) {
	c := &call{}
	c.text = "SELECT tenon.remove_schedule(" + c.param("text", name) + ")"
	return one[bool](ctx, db, c)
}

// SetLimit sets one limit. For operators.
func SetLimit[R Row](ctx context.Context, db DB[R], l Limit) error {
	c := &call{}
	c.text = "SELECT tenon.set_limit(" + c.param("text", l.Name) + l.arguments().arguments(c) + ")::text"
	_, err := one[string](ctx, db, c)
	return err
}

// RemoveLimit removes a limit; it returns whether there was one. For operators.
func RemoveLimit[R Row](ctx context.Context, db DB[R], name string) (bool, error) {
	c := &call{}
	c.text = "SELECT tenon.remove_limit(" + c.param("text", name) + ")"
	return one[bool](ctx, db, c)
}

func (d Description) document() (string, error) {
	kinds, schedules, limits := map[string]any{}, map[string]any{}, map[string]any{}
	for _, kind := range d.Kinds {
		kinds[kind.Kind()] = optionsOf(kind, nil).document("queue", "priority", "max_attempts", "max_crashes", "timeout",
			"timeout_min", "on_timeout", "retry", "on_dead", "limit_keys", "history_keep", "dead_keep")
	}
	for _, schedule := range d.Schedules {
		given, err := schedule.arguments()
		if err != nil {
			return "", err
		}
		schedules[schedule.Name] = given.document()
	}
	for _, limit := range d.Limits {
		limits[limit.Name] = limit.arguments().document()
	}
	described := map[string]any{"kinds": kinds, "schedules": schedules, "limits": limits}
	remove := map[string][]string{"kinds": d.RemoveKinds, "schedules": d.RemoveSchedules, "limits": d.RemoveLimits}
	for what, names := range remove {
		if len(names) == 0 {
			delete(remove, what)
		}
	}
	if len(remove) > 0 {
		described["remove"] = remove
	}
	if d.Source != "" {
		described["source"] = d.Source
	}
	text, err := encode(described)
	return string(text), err
}

func (s Schedule) arguments() (*options, error) {
	if s.Task == nil {
		return nil, errors.New("the schedule " + s.Name + " has no Task")
	}
	of, o := optionsOf(s.Task, nil), &options{}
	payload, err := of.payload(s.Task)
	if err != nil {
		return nil, err
	}
	o.set("kind", "text", s.Task.Kind())
	o.set("payload", "jsonb", json.RawMessage(payload))
	o.setUnless("cron", "text", s.Cron, s.Cron == "")
	o.setUnless("every", "interval", interval(s.Every), s.Every == 0)
	o.setUnless("zone", "text", s.Zone, s.Zone == "")
	o.setUnless("catch_up", "text", s.CatchUp, s.CatchUp == "")
	o.setUnless("overlap", "text", s.Overlap, s.Overlap == "")
	for _, a := range of.given {
		switch a.name {
		case "queue", "priority", "max_attempts", "timeout":
			o.given = append(o.given, a)
		}
	}
	return o, nil
}

func (l Limit) arguments() *options {
	o := &options{}
	o.setUnless("max_running", "integer", l.MaxRunning, l.MaxRunning == 0)
	o.setUnless("max_starts", "integer", l.MaxStarts, l.MaxStarts == 0)
	o.setUnless("per", "interval", interval(l.Per), l.Per == 0)
	o.setUnless("strict", "boolean", true, !l.Strict)
	o.setUnless("fair", "boolean", true, !l.Fair)
	o.setUnless("weight", "integer", l.Weight, l.Weight == 0)
	o.setUnless("when_dead", "text", l.WhenDead, l.WhenDead == "")
	return o
}

func (o *options) setUnless(name, cast string, value any, isEmpty bool) {
	if !isEmpty {
		o.set(name, cast, value)
	}
}

// document has the arguments as an object: those that are named, or all.
func (o *options) document(names ...string) map[string]any {
	object := map[string]any{}
	for _, a := range o.given {
		object[a.name] = a.value
	}
	if len(names) == 0 {
		return object
	}
	chosen := map[string]any{}
	for _, name := range names {
		if value, ok := object[name]; ok {
			chosen[name] = value
		}
	}
	return chosen
}
