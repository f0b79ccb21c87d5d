-- How long each of the statements that follow in this transaction may take.
--   $1 text  with its unit
SELECT set_config('statement_timeout', $1, true);
