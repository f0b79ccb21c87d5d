-- The backend this session really has: behind a pooler it is another one than the client was told, and
-- session locks and LISTEN would be lost.
SELECT pg_backend_pid(), (SELECT exchange FROM tenon.setting);
