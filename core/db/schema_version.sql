-- The newest migration, and the newest one that older programs cannot work with.
SELECT coalesce(max(version), 0), coalesce(max(version) FILTER (WHERE breaking), 0)
FROM tenon.migration;
