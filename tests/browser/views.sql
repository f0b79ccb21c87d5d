-- Something of everything that the page of tenon ui shows: for script/screenshots and ui_browser_test.
INSERT INTO tenon.minute (minute, queue, kind, worker_id, started, ended, done, failed, wait_us, run_us, waits, runs)
SELECT date_trunc('minute', now()) - i * interval '1 min', 'mail', 'welcome_mail', gen_random_uuid(), done + failed, done + failed, done, failed,
       done * 40000, done * 200000,
       CASE WHEN failed > 10 THEN array_fill(0, ARRAY[9]) || ARRAY[5, done::integer, 8] ELSE ARRAY[done::integer, 3, 1, 1] END,
       CASE WHEN failed > 10 THEN array_fill(0, ARRAY[5]) || ARRAY[done::integer, 1, 1, 0, 0, 0, 12] ELSE ARRAY[0, 0, 1, 4, done::integer, 9] END
FROM generate_series(1, 350) i
CROSS JOIN LATERAL (SELECT (30 + 24 * sin(i / 66.0) + i % 5)::bigint AS done, CASE WHEN i BETWEEN 150 AND 192 THEN 24 ELSE i % 2 END AS failed) n;
-- Incidents: of 40, 12, 5 and 1.
INSERT INTO tenon.dead (dead_at, id, run_at, start_time, created_at, timeout_ms, claims, failures, crashes, max_attempts, priority, reason, queue, kind,
                        payload, last_error, error_class)
SELECT now() - i * interval '3 min', nextval('tenon.task_id_seq'), now() - i * interval '3 min', now() - i * interval '3 min' - interval '2 s',
       now() - i * interval '3 min' - interval '1 h', 60000, 3, 3, 0, 3, 4, 'failures', c.queue, c.kind, jsonb_build_object('order', 4000 + i, 'to', 'ann@example.org'),
       format(c.error, i), c.class
FROM (VALUES (40, 'billing', 'invoice', 'ConnectionRefused', 'ConnectionRefused: ledger.internal:5432 did not answer within 30 s, request %s'),
             (12, 'mail', 'welcome_mail', 'Smtp550', 'Smtp550: 550 5.1.1 no such mailbox (message %s)'),
             (5, 'reports', 'monthly_report', 'OutOfMemory', 'OutOfMemory: MemoryError: Unable to allocate 4.%s GiB for an array with shape (23170, 23170)'),
             (1, 'mail', 'welcome_mail', 'com.example.mail.internal.delivery.TemplateRenderingException',
              'com.example.mail.internal.delivery.TemplateRenderingException: <b>{{ user.name }}</b> is not defined %s')) AS c (n, queue, kind, class, error),
     generate_series(1, c.n) i;
INSERT INTO tenon.attempt (ended_at, task_id, attempt, claims, started_at, worker_id, host, outcome, queue, kind, error_class, error, exit_code)
SELECT dead_at - (3 - a) * interval '17 min', id, a, a, dead_at - (3 - a) * interval '17 min' - interval '2 s', gen_random_uuid(), 'app-1', 'failed', queue, kind,
       error_class, last_error, 1
FROM tenon.dead, generate_series(1, 3) a WHERE kind = 'invoice';
-- A flow of which the root failed, one of 500 tasks, and one that has not begun.
SELECT tenon.flow('{"name": "nightly import", "tasks": [{"name": "fetch", "kind": "fetch"},
    {"name": "parse", "kind": "parse", "depends_on": ["fetch"]}, {"name": "check", "kind": "check", "depends_on": ["fetch"]},
    {"name": "load", "kind": "load", "depends_on": ["parse", "check"]}]}');
SELECT tenon.flow(jsonb_build_object('name', 'thumbnails', 'tasks', jsonb_build_array('{"name": "list", "kind": "list_images"}'::jsonb)
    || (SELECT jsonb_agg(jsonb_build_object('name', 'image ' || i, 'kind', 'thumbnail', 'depends_on', '["list"]'::jsonb) ORDER BY i) FROM generate_series(1, 498) i)
    || (SELECT jsonb_build_array(jsonb_build_object('name', 'publish', 'kind', 'publish_gallery', 'depends_on', jsonb_agg('image ' || i)))
          FROM generate_series(1, 498) i)));
SELECT tenon.set_limit('tenant', max_running => 2, fair => true), tenon.set_limit('api', max_running => 4, max_starts => 100, per => '1 min');
SELECT tenon.enqueue('sync', queue => 'sync', limit_keys => ARRAY['tenant:' || i % 3 + 40]) FROM generate_series(1, 30) i;
SELECT tenon.pause_limit('tenant:41', why => 'they asked for it, ticket 4711');
SELECT tenon.set_schedule('nightly-report', '30 3 * * *', kind => 'monthly_report', queue => 'reports', zone => 'Europe/Berlin'),
       tenon.set_schedule('sync-every-5-min', every => '5 min', kind => 'sync', queue => 'sync');
SELECT tenon.enqueue('archive', queue => 'archive') FROM generate_series(1, 25) i;
SELECT tenon.pause(queue => 'archive', why => 'the disk is full');
SELECT tenon.enqueue('monthly_report', '{"month": 10}', 'reports', delay => '1 h', tags => '{monthly,import-7}') FROM generate_series(1, 12);
SELECT tenon.publish('events', 'order.created', '{"order": 1}'), tenon.publish('events', 'order.paid', '{"order": 1}', order_key => 'order-1');
-- Two steps, of which one is a signal.
SELECT tenon.enqueue('refund', queue => 'archive', unique_key => 'refund-17');
SELECT tenon.signal('approved-17', '"ann"');
SELECT tenon.put_step(t.id, s.name, s.value)
FROM tenon.task t, (VALUES ('charge', '{"charge": 4711}'::jsonb), ('approved-17', '"ann"')) AS s (name, value)
WHERE t.unique_key = 'refund-17' AND t.kind = 'refund';
-- Texts of other directions and scripts, and one with a character that turns the direction.
SELECT tenon.enqueue('export', '{"name": "תיק לקוח 17", "city": "القاهرة", "note": "東京都千代田区", "file": "invoice\u202egnp.exe"}', 'archive', unique_key => 'ملف-17');
SELECT tenon.settle();
