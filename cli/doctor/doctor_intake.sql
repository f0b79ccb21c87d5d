-- Problems of tenon intake: level, subject, finding, what to do.
--   $1 bigint  seconds for which it may take no messages    $2 bigint  seconds for which it may be silent    $3 bigint  how many findings
WITH report AS MATERIALIZED (
    SELECT i.*, i.seen_at < clock_timestamp() - make_interval(secs => $2::bigint) AS silent FROM tenon.intake i
), place AS MATERIALIZED (
    SELECT r.host, r.pid, r.silent, CASE WHEN NOT r.silent THEN r.error END AS error, min(r.error_since) AS since, min(r.seen_at) AS seen_at,
           left(string_agg(r.queue, ', ' ORDER BY r.queue), 200) AS queues
      FROM report r
     WHERE r.silent OR r.error_since < clock_timestamp() - make_interval(secs => $1::bigint)
     GROUP BY 1, 2, 3, 4
)
SELECT * FROM (
    (SELECT 'warning', 'intake',
            CASE WHEN p.silent
                 THEN format('tenon intake on %s, pid %s, which takes messages from %s, has not reported for %s: it was killed, or cannot reach the database',
                             p.host, p.pid, p.queues, date_trunc('second', clock_timestamp() - p.seen_at))
                 ELSE format('tenon intake on %s, pid %s, has taken no messages from %s since %s UTC: %s', p.host, p.pid, p.queues,
                             to_char(p.since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'), left(tenon.error_line(p.error), 200)) END,
            CASE WHEN p.silent THEN 'see its log and start it again; if it is no longer needed, do nothing: a cleaner deletes its rows after a day'
                 ELSE 'correct the cause; it tries again at least every 10 s' END
       FROM place p ORDER BY p.silent DESC, p.host, p.pid, p.error LIMIT $3::bigint)
    UNION ALL
    (SELECT 'warning', 'intake',
            format('tenon intake has rejected %s of the %s %s, the last at %s UTC',
                   CASE WHEN sum(r.rejected) = 1 THEN 'a message' ELSE sum(r.rejected) || ' messages' END,
                   CASE WHEN r.is_stream THEN 'stream' ELSE 'queue' END, r.queue, to_char(max(r.rejected_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')),
            'see the log event message_rejected' ||
            CASE WHEN r.is_stream THEN '; in a stream such messages are skipped'
                 ELSE '; RabbitMQ has moved such messages to the dead letter exchange of the queue, if it has one' END
       FROM report r WHERE r.rejected_at > clock_timestamp() - interval '1 day' GROUP BY r.is_stream, r.queue ORDER BY r.queue LIMIT $3::bigint)
    UNION ALL
    (SELECT 'warning', 'intake',
            format('%s of the queue %s became %s without a key, the last at %s UTC: if RabbitMQ delivers one again, it makes a second task',
                   CASE WHEN sum(r.unkeyed) = 1 THEN 'a message' ELSE sum(r.unkeyed) || ' messages' END, r.queue,
                   CASE WHEN sum(r.unkeyed) = 1 THEN 'a task' ELSE 'tasks' END, to_char(max(r.unkeyed_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')),
            'have the publishers set message-id, or run tenon intake with --key-from'
       FROM report r WHERE r.unkeyed_at > clock_timestamp() - interval '1 day' GROUP BY r.queue ORDER BY r.queue LIMIT $3::bigint)
) f (level, subject, finding, advice);
