-- Set a limit, or replace it, from JSON: max_running, max_starts, per, strict, when_dead, fair, weight, until. As JSON.
--   $1 text  its name    $2 jsonb  what it shall be
WITH done AS MATERIALIZED (
    SELECT tenon.set_limit($1, max_running => (w->>'max_running')::integer, max_starts => (w->>'max_starts')::integer,
                           per => (w->>'per')::interval, strict => (w->>'strict')::boolean, when_dead => w->>'when_dead',
                           fair => (w->>'fair')::boolean, weight => (w->>'weight')::integer, until => (w->>'until')::timestamptz)
    FROM (SELECT $2::jsonb AS w) c
)
SELECT json_build_object('name', $1::text, 'act', 'set') FROM done;
