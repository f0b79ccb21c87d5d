-- The backend this session really has: behind a pooler it is another one than the client was told, and
-- session locks and LISTEN would be lost. A cleaner asks something every second: one that is frozen loses
-- its session, and another leads.
SELECT pg_backend_pid(), (SELECT exchange FROM tenon.setting), set_config('idle_session_timeout', '30 s', false);
