-- Forget what operators did longer ago than audit_keep, at most 10,000 rows; true when there may be more.
WITH gone AS (
    DELETE FROM tenon.audit
    WHERE id = ANY (ARRAY(SELECT a.id FROM tenon.audit a
                          WHERE a.at < now() - (SELECT audit_keep FROM tenon.setting) ORDER BY a.at LIMIT 10000))
    RETURNING 1
)
SELECT count(*) = 10000 FROM gone;
