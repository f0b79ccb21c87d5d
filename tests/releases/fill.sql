-- What script/keep-release puts into the database of a release: tasks in every state, and rows in almost every table. The kind says
-- what its handler does there:
--   done   ends                 bad      says that it can never work        flaky  fails, and is retried in 30 days
--   stuck  runs for ever        stepped  the same, after a step              waits  waits for the signal "go"
--   idle  there is no handler
-- Nothing may be too old when the file is restored, in years.
SELECT tenon.set_settings('{"history_keep": "900 years", "attempt_keep": "900 years", "dead_keep": "900 years", "signal_keep": "900 years"}');
UPDATE tenon.setting SET audit_keep = '900 years';
SELECT tenon.set_queue('slow', priority => 2, timeout => '10 min', retry => 'exponential(10 s, 1 h)');
SELECT tenon.set_kind('flaky', retry => 'constant(30 days)'), tenon.set_kind('bad', on_dead => 'idle');
SELECT tenon.set_limit('one', max_running => 1), tenon.set_limit('rare', max_starts => 1, per => '31 days'),
       tenon.set_limit('tenant', max_running => 5, fair => true), tenon.set_limit('line', strict => true);
SELECT tenon.set_schedule('yearly', every => '366 days', kind => 'idle');
SELECT tenon.pause(queue => 'held', why => 'kept');

-- These end.
SELECT tenon.enqueue('done', jsonb_build_object('n', n)) FROM generate_series(1, 3) n;
SELECT tenon.enqueue('bad', '{"to": "nobody"}');
SELECT tenon.cancel(tenon.enqueue('idle'));
SELECT tenon.enqueue('idle', queue => 'held', start_before => clock_timestamp() + interval '1 s');
SELECT tenon.signal('early', '{"amount": 30}');

-- These do not.
SELECT tenon.enqueue('idle', '{"big": 12345678901234567890.5}', priority => 9, trace => '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01');
SELECT tenon.enqueue('idle', delay => '30 days'), tenon.enqueue('idle', queue => 'held'), tenon.enqueue('idle', queue => 'slow');
SELECT tenon.enqueue_many('idle', ARRAY['1', '"two"', 'null']::jsonb[]);
SELECT tenon.enqueue('flaky'), tenon.enqueue('stepped'), tenon.enqueue('waits');
SELECT tenon.enqueue('stuck', unique_key => 'held by a run');
SELECT tenon.enqueue('idle', unique_key => 'mail', unique_for => '300 days'), tenon.enqueue('idle', unique_key => 'bell', debounce => '1 day');
SELECT tenon.enqueue('stuck', limit_keys => '{one}') FROM generate_series(1, 3);
SELECT tenon.enqueue('done', limit_keys => '{rare}') FROM generate_series(1, 2);
SELECT tenon.enqueue('idle', limit_keys => ARRAY['tenant:' || n, 'line']) FROM generate_series(1, 3) n;
SELECT tenon.flow('{"name": "kept", "on_done": "idle", "tasks": [{"name": "first", "kind": "done"},
    {"name": "second", "kind": "stuck", "depends_on": ["first"]}, {"name": "third", "kind": "idle", "depends_on": ["second"]}]}'::jsonb);
SELECT tenon.enqueue('idle', flow => b), tenon.enqueue('done', flow => b), tenon.close(b) FROM tenon.batch(on_done => 'idle') b;
SELECT tenon.enqueue('done', flow => b) FROM tenon.batch(on_end => 'idle', name => 'open') b;
