-- Coming ticks (of a paused schedule those that it would have), in UTC and as the clocks of the zone show them, and as JSON.
--   $1 text  a schedule, or $2 text a cron expression and $3 text its zone    $4 integer  how many
WITH RECURSIVE asked AS (
    SELECT cron, every_ms, zone,
           CASE WHEN next_at > now() THEN next_at
                WHEN cron IS NOT NULL THEN tenon.next_tick(cron, zone)
                ELSE next_at + ceil(extract(epoch FROM now() - next_at) * 1000 / every_ms)::float8
                               * every_ms * interval '1 ms' END AS next_at
    FROM tenon.schedule WHERE name = $1
    UNION ALL
    SELECT $2, NULL, $3, tenon.next_tick($2, $3) WHERE $2 IS NOT NULL
), tick AS (
    SELECT 1 AS n, cron, every_ms, zone, next_at FROM asked
    UNION ALL
    SELECT n + 1, cron, every_ms, zone,
           CASE WHEN cron IS NULL THEN next_at + every_ms * interval '1 ms'
                ELSE tenon.next_tick(cron, zone, next_at) END
    FROM tick
    WHERE n < $4::integer
)
SELECT to_char(next_at, 'YYYY-MM-DD HH24:MI:SS'), to_char(next_at AT TIME ZONE zone, 'Dy YYYY-MM-DD HH24:MI:SS'), zone,
       to_json(next_at)
FROM tick
ORDER BY n;
