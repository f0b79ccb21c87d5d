-- A worker process has started.
--   $1 text host    $2 integer pid    $3 integer slots    $4 text[] queues    $5 text[] kinds
INSERT INTO tenon.worker (host, pid, slots, queues, kinds)
VALUES ($1, $2::integer, $3::integer, $4::text[], $5::text[])
RETURNING id, lock_key, (SELECT exchange FROM tenon.setting);
