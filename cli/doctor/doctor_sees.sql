-- Is this role shown what other roles' sessions do, and what it is called. Others get NULL for it in pg_stat_activity.
SELECT pg_has_role('pg_read_all_stats', 'USAGE'), current_user;
