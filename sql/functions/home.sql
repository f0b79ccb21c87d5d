-- Where this schema is at home: a copy of production must not mail customers.

-- The row as it would be here.
CREATE OR REPLACE FUNCTION tenon.home_here() RETURNS tenon.home
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    here tenon.home;
BEGIN
    here.one := true;
    here.database := (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
    here.relation := 'tenon.home'::regclass::oid;
    here.name := nullif(current_setting('tenon.home', true), '');
    here.adopted_at := clock_timestamp();
    here.adopted_by := session_user;
    here.system := (SELECT c.system_identifier FROM pg_control_system() c);
    RETURN here;
EXCEPTION WHEN insufficient_privilege THEN
    RETURN here;
END $$;

CREATE OR REPLACE FUNCTION tenon.home_text(h tenon.home) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT concat_ws(' ', 'database', ($1).database || '/' || ($1).relation, 'of system', coalesce(($1).system::text, 'unknown'),
                     'named ' || ($1).name)
$$;

CREATE OR REPLACE FUNCTION tenon.copied() RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM tenon.settings();  -- workers and cleaners call this when they connect: they do not start without settings
    RETURN (SELECT format('the schema tenon was copied to this database: it is at home in %s, and this is %s',
                          tenon.home_text(h), tenon.home_text(here))
              FROM (SELECT tenon.home_here() AS here OFFSET 0) n
              LEFT JOIN tenon.home h ON true
             WHERE (h.database, h.relation) IS DISTINCT FROM ((n.here).database, (n.here).relation)
                OR h.name IS DISTINCT FROM (n.here).name);
END $$;

COMMENT ON FUNCTION tenon.copied IS $$A sentence that says so, if this database is a copy of the one where the schema was set up or adopted; else NULL. Workers and cleaners ask it with each connect.$$;

CREATE OR REPLACE FUNCTION tenon.adopt() RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    here   tenon.home := tenon.home_here();
    before text := (SELECT tenon.home_text(h) FROM tenon.home h FOR UPDATE);
BEGIN
    IF before IS NOT DISTINCT FROM tenon.home_text(here) THEN
        RETURN false;
    END IF;
    DELETE FROM tenon.home;
    INSERT INTO tenon.home SELECT here.*;
    PERFORM tenon.note_audit('adopt', jsonb_build_object('before', before, 'now', tenon.home_text(here)), 1);
    RETURN true;
END $$;

COMMENT ON FUNCTION tenon.adopt IS $$Says that tasks may run in this copy: workers and cleaners work here from now on; as `tenon adopt`. Returns false when it was at home already. For operators.$$;
