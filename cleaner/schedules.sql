-- Run the schedules whose moment has come: what became of each tick, as docs/sql.md says of tenon.run_schedules. It
-- looks at a bounded number, waits for no lock, and commits tasks and schedules together. Index: schedule_due.
SELECT name, tick, outcome, task, error FROM tenon.run_schedules();
