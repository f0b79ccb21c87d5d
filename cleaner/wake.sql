-- Workers LISTEN for this on the session of their presence, and poll if they serve one of the words.
--   $1 text  "queue/kind queue/kind ..."; '' = anything
SELECT pg_notify('tenon_wakeup', $1);
