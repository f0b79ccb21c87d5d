-- Where this schema is at home: a copy of production must not mail customers.

CREATE TABLE tenon.home (
    one         boolean     PRIMARY KEY DEFAULT true CHECK (one),
    system      bigint,
    database    oid         NOT NULL,
    relation    oid         NOT NULL,
    name        text,
    adopted_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    adopted_by  text        NOT NULL DEFAULT session_user
);
COMMENT ON TABLE tenon.home IS 'Where the schema was set up or adopted. In a copy it still names the original, and workers and cleaners refuse to run there until `tenon adopt`.';
COMMENT ON COLUMN tenon.home.one IS 'Always true: there is one row.';
COMMENT ON COLUMN tenon.home.system IS 'The system identifier of the server''s data (`pg_control_system`), for people: `pg_upgrade` changes it. NULL = it may not be read there.';
COMMENT ON COLUMN tenon.home.database IS 'The OID of the database: another one after CREATE DATABASE ... TEMPLATE or a restored dump; `pg_upgrade` keeps it.';
COMMENT ON COLUMN tenon.home.relation IS 'The OID of this table: another one after a restored dump; `pg_upgrade` keeps it.';
COMMENT ON COLUMN tenon.home.name IS 'The server''s setting `tenon.home`, if its configuration has one; NULL = it had none. It tells a copy of the data directory, which has nothing else that differs: where the server has another name, or one while this is NULL, the schema is a copy.';
COMMENT ON COLUMN tenon.home.adopted_at IS 'When that was.';
COMMENT ON COLUMN tenon.home.adopted_by IS 'The role that did it.';

-- The row as it would be here.
CREATE FUNCTION tenon.home_here() RETURNS tenon.home
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

INSERT INTO tenon.home SELECT (tenon.home_here()).*;

CREATE FUNCTION tenon.home_text(h tenon.home) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT concat_ws(' ', 'database', ($1).database || '/' || ($1).relation, 'of system', coalesce(($1).system::text, 'unknown'),
                     'named ' || ($1).name)
$$;

CREATE FUNCTION tenon.copied() RETURNS text
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

CREATE FUNCTION tenon.adopt() RETURNS boolean
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

CREATE FUNCTION tenon.grant_home(role text, adopts boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.copied TO %I', role);
    IF adopts THEN
        EXECUTE format('GRANT EXECUTE ON FUNCTION tenon.adopt TO %I', role);
    END IF;
END $$;

REVOKE ALL ON FUNCTION tenon.home_here, tenon.home_text, tenon.copied, tenon.adopt, tenon.grant_home FROM PUBLIC;

COMMENT ON FUNCTION tenon.copied IS $$A sentence that says so, if this database is a copy of the one where the schema was set up or adopted; else NULL. Workers and cleaners ask it with each connect.$$;

COMMENT ON FUNCTION tenon.adopt IS $$Says that tasks may run in this copy: workers and cleaners work here from now on; as `tenon adopt`. Returns false when it was at home already. For operators.$$;
