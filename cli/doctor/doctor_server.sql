-- Problems of the server's settings and sessions: level, subject, finding, what to do.
--   $1 bigint  how old a transaction may be, in seconds    $2 bigint  how old a standby's snapshot, in transactions
--   $3 integer the oldest supported PostgreSQL, in the form of server_version_num
SELECT * FROM (
    SELECT 'error', 'versions', format('PostgreSQL %s is older than %s, the oldest supported version', current_setting('server_version'), $3::integer / 10000),
           'upgrade the server'
     WHERE current_setting('server_version_num')::integer < $3::integer
    UNION ALL
    SELECT 'error', 'durability', format('%s is off: after a crash of the server, committed tasks may be lost or damaged', s.name),
           format('set %s = on in postgresql.conf, unless the data may be lost', s.name)
      FROM pg_settings s WHERE s.name IN ('fsync', 'full_page_writes') AND s.setting = 'off'
    UNION ALL
    SELECT 'warning', 'durability', 'synchronous_commit is off: after a crash of the server the last commits are lost',
           'set synchronous_commit = on for the roles of producers; workers may run without it where that is safe'
      FROM pg_settings s WHERE s.name = 'synchronous_commit' AND s.setting = 'off'
    UNION ALL
    SELECT 'error', 'vacuum', 'autovacuum is off: tenon.task grows without end, and everything becomes slow', 'set autovacuum = on'
      FROM pg_settings s WHERE s.name = 'autovacuum' AND s.setting = 'off'
    UNION ALL
    SELECT 'warning', 'vacuum', 'track_counts is off: autovacuum does not know which tables need it', 'set track_counts = on'
      FROM pg_settings s WHERE s.name = 'track_counts' AND s.setting = 'off'
    UNION ALL
    (SELECT 'warning', 'old transaction',
            format('the session %s (%s, role %s, %s) has held a snapshot or a transaction for %s: rows of ended tasks cannot be removed until it ends',
                   a.pid, coalesce(nullif(a.application_name, ''), 'unnamed'), a.usename, a.state,
                   date_trunc('second', clock_timestamp() - a.xact_start)),
            format('end or shorten the transaction; or SELECT pg_terminate_backend(%s)', a.pid)
       FROM pg_stat_activity a
      WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type = 'client backend'
        AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL) AND a.xact_start < clock_timestamp() - make_interval(secs => $1::bigint)
      ORDER BY a.xact_start LIMIT 3)
    UNION ALL
    (SELECT 'warning', 'old transaction',
            format('the prepared transaction %L of %s is %s old: rows of ended tasks cannot be removed until it ends', p.gid, p.owner,
                   date_trunc('second', clock_timestamp() - p.prepared)),
            format('COMMIT PREPARED %L, or ROLLBACK PREPARED', p.gid)
       FROM pg_prepared_xacts p
      WHERE p.database = current_database() AND p.prepared < clock_timestamp() - make_interval(secs => $1::bigint)
      ORDER BY p.prepared LIMIT 3)
    UNION ALL
    SELECT 'warning', 'replication slot',
           format('the slot %s is inactive: it keeps rows or WAL, which grow until the disk is full', r.slot_name),
           format('connect its consumer, or SELECT pg_drop_replication_slot(%L)', r.slot_name)
      FROM pg_replication_slots r WHERE NOT r.active
    UNION ALL
    (SELECT 'warning', 'standby',
            format('%s holds a snapshot that is %s transactions old: rows of ended tasks cannot be removed until it ends', h.who, age(h.xmin)),
            'end the long query on that standby, or set hot_standby_feedback = off there; for a slot that nobody needs: pg_drop_replication_slot'
       FROM (SELECT format('the replication slot %s', r.slot_name) AS who, r.xmin FROM pg_replication_slots r
              UNION ALL
             SELECT format('the standby %s', coalesce(nullif(s.application_name, ''), s.client_addr::text)), s.backend_xmin FROM pg_stat_replication s) h
      WHERE age(h.xmin) > $2::bigint
      ORDER BY age(h.xmin) DESC LIMIT 3)
    UNION ALL
    SELECT 'warning', 'connections', format('%s of %s connections are in use', n.n, m.most), 'raise max_connections, or put a pooler in front of the application'
      FROM (SELECT count(*) AS n FROM pg_stat_activity WHERE coalesce(backend_type = 'client backend', datname IS NOT NULL)) n,  -- NULL: hidden
           (SELECT setting::integer AS most FROM pg_settings WHERE name = 'max_connections') m
     WHERE n.n > m.most * 0.9
    UNION ALL
    SELECT 'warning', 'settings',
           format('%s has %s in this database: producers may be cut off within their transactions', coalesce('the role ' || r.rolname, 'everybody'), c.config),
           'set it for other roles only, or longer than your transactions take'
      FROM pg_db_role_setting d
      LEFT JOIN pg_roles r ON r.oid = d.setrole
     CROSS JOIN unnest(d.setconfig) AS c (config)
     WHERE (d.setdatabase = 0 OR d.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database()))
       AND c.config ~ '^(idle_in_transaction_session_timeout|transaction_timeout|statement_timeout)=[1-9]\d{0,2}(ms)?$'
) f (level, subject, finding, advice);
