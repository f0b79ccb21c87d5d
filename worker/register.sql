-- A worker process has started.
--   $1 text host    $2 integer pid    $3 integer slots    $4 text[] queues    $5 text[] kinds
--   $6 bigint  the key of its session's lock    $7 text  its version    $8 text  the release of its handlers, or NULL
INSERT INTO tenon.worker (host, pid, slots, queues, kinds, lock_key, version, release)
VALUES ($1, $2::integer, $3::integer, $4::text[], $5::text[], $6::bigint, $7, left($8, 100))
RETURNING id, (tenon.settings()).exchange, tenon.paused_kinds(kinds);
