-- A migration that only tests have: what a later version might change. upgrade_test and migration_test give it to programs of
-- their own. Every migration first takes all its locks, in the order of an enqueue.
LOCK TABLE tenon.setting, tenon.task IN ACCESS EXCLUSIVE MODE;
ALTER TABLE tenon.setting ADD COLUMN next_keep interval NOT NULL DEFAULT '1 day';
ALTER TABLE tenon.task ADD COLUMN next_color text NOT NULL DEFAULT 'none';
CREATE TABLE tenon.next_thing (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, task_id bigint NOT NULL);
