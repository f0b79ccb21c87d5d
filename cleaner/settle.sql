-- Settles what commits and the ends of tasks have left to do (tenon.settle has the rules). Returns the number of settled rows,
-- the number of unblocked tasks, the milliseconds until there may be more to do (NULL = not before something happens), the ids of
-- the unblocked tasks, a message about a part that ran into the statement timeout (NULL = none did), and for cleaner/decide/settled.h
-- the first note that is left (NULL = none), the last id handed out, and of transactions the oldest that was in progress and the next
-- to begin. (Not the snapshot's xmax: one that is in progress may be above it.)
--   $1 integer  how many at most
--   $2 integer  when more tasks than this are released, workers are woken by NOTIFY, and poll
--   $3 bigint   notes up to this id are settled
SELECT a.n, cardinality(a.freed), a.due_ms, a.freed, a.slow, a.first_note,
       coalesce(pg_sequence_last_value('tenon.note_id'), 0), pg_snapshot_xmin(s)::text::bigint,
       pg_snapshot_xmin(s)::text::bigint + age(pg_snapshot_xmin(s)::xid)
FROM pg_current_snapshot() s
CROSS JOIN LATERAL tenon.settle_all($1::integer, $2::integer, $3::bigint) a;
