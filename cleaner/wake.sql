-- Workers LISTEN for this on the session of their presence. Of those that serve one of the words so many poll that the tasks start.
--   $1 text  "N queue/kind queue/kind ...": for N tasks; only "N" = of any queues and kinds
SELECT pg_notify('tenon_wakeup', $1);
