-- Each worker listens for this on the session of its presence. Those that serve one of the words are told to poll: chance picks enough
-- of them for N tasks (worker/decide/polling.h).
--   $1 text  "N queue/kind queue/kind ...": for N tasks; only "N" = of any queues and kinds
SELECT pg_notify('tenon_wakeup', $1);
