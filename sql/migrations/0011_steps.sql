-- Steps, signals, waiting.

CREATE FUNCTION tenon.settle_signals(most integer) RETURNS integer
LANGUAGE sql AS $$ SELECT 0 $$;

REVOKE ALL ON FUNCTION tenon.settle_signals FROM PUBLIC;
