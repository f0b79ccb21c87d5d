-- Enqueue from psql, or from anything else that speaks SQL: no RabbitMQ is needed on this side, the
-- cleaner wakes the workers up.
--
--     psql "$DATABASE_URL" -f examples/psql.sql

-- The task is part of the transaction: it is there when it commits, and not when it rolls back.
BEGIN;
CREATE TABLE IF NOT EXISTS users (mail text PRIMARY KEY);
INSERT INTO users VALUES ('ann@example.org') ON CONFLICT DO NOTHING;
SELECT tenon.enqueue('welcome_mail', '{"to": "ann@example.org"}');
COMMIT;

BEGIN;
SELECT tenon.enqueue('welcome_mail', '{"to": "nobody@example.org"}');
SELECT state, kind, payload FROM tenon.mine();  -- what this transaction has enqueued: for tests, which roll back
ROLLBACK;

-- Everything that can be said about a task.
SELECT tenon.enqueue('report', '{"month": "2026-01"}',
                     queue        => 'slow',
                     priority     => 2,                      -- 0 to 9, higher first
                     delay        => '10 minutes',           -- or run_at => '2030-01-31 08:00+01'
                     unique_key   => 'report-2026-01',       -- one at a time
                     max_attempts => 3,
                     timeout      => '20 minutes');

-- The key is taken: the id of the task that holds it comes back.
SELECT tenon.enqueue('report', '{"month": "2026-01"}', unique_key => 'report-2026-01');

-- Or what waits takes it in: its payload is now {"month": "2026-01", "format": "pdf"}.
SELECT tenon.enqueue('report', '{"format": "pdf"}', unique_key => 'report-2026-01', on_conflict => 'merge');

-- Once, when nobody has changed this customer for five seconds, and no later than a minute after the first change.
SELECT tenon.enqueue('index_customer', '{"customer": 42}', unique_key => 'customer-42',
                     debounce => '5 s', debounce_max => '1 minute')
  FROM generate_series(1, 3);

-- Worth nothing in a quarter of an hour; until then it is tried again soon.
SELECT tenon.enqueue('login_code', '{"to": "ann@example.org"}',
                     start_before => now() + interval '15 minutes',
                     retry        => 'exponential(2 s, 1 min, 20 %)');

-- Many at once; the ids come in the order of the payloads.
SELECT tenon.enqueue_many('thumbnail', array_agg(jsonb_build_object('image', n)))
  FROM generate_series(1, 100) n;

SELECT state, kind, count(*) FROM tenon.tasks GROUP BY 1, 2 ORDER BY 1, 2;
