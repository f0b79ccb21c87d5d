-- Restore these rows (migrate_empty.sql). Confined roles stay confined.
WITH setting AS (
    INSERT INTO tenon.setting (confined)
    SELECT EXISTS (SELECT FROM tenon.producer) WHERE NOT EXISTS (SELECT FROM tenon.setting)
), settler AS (
    INSERT INTO tenon.settler SELECT true WHERE NOT EXISTS (SELECT FROM tenon.settler)
)
INSERT INTO tenon.home
SELECT h.* FROM tenon.home_here() h WHERE NOT EXISTS (SELECT FROM tenon.home) AND NOT EXISTS (SELECT FROM tenon.task);
