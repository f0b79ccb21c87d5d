-- Limits: how many tasks of a key run at once, and how many start in a time.

-- The keys as the task's row keeps them; NULL: none.
CREATE FUNCTION tenon.check_limit_keys(limit_keys text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(limit_keys) > 0 THEN
        PERFORM tenon.refuse('limit_keys', limit_keys::text, 'NULL as long as there are no limits');
    END IF;
    RETURN NULL;
END $$;

-- Tasks that are blocked, wait for no parent and have limit_keys begin to wait for what their keys allow. Returns
-- whether tenon.settle() shall look at once.
CREATE FUNCTION tenon.queue_limits(ids bigint[]) RETURNS boolean
LANGUAGE sql AS $$ SELECT false $$;

CREATE FUNCTION tenon.settle_limits(most integer) RETURNS integer
LANGUAGE sql AS $$ SELECT 0 $$;

REVOKE ALL ON FUNCTION tenon.check_limit_keys, tenon.queue_limits, tenon.settle_limits FROM PUBLIC;
