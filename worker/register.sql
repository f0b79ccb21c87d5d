-- A worker process has started.
--   $1 text host    $2 integer pid    $3 integer slots    $4 text[] queues    $5 text[] kinds
--   $6 bigint  the key of its session's lock
INSERT INTO tenon.worker (host, pid, slots, queues, kinds, lock_key)
VALUES ($1, $2::integer, $3::integer, $4::text[], $5::text[], $6::bigint)
RETURNING id, (tenon.settings()).exchange, tenon.paused_kinds(kinds);
