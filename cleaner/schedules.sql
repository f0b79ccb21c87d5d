-- Run the schedules whose moment has come: what became of each tick, in the words of tenon.run_schedules (docs/sql.md). It
-- looks at a bounded number, waits for no lock, and commits tasks and schedules together. Index: schedule_due.
SELECT name, tick, outcome, task, error FROM tenon.run_schedules();
