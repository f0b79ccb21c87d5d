-- The worker gives its turn back: it takes ordinary tasks again.
--   $1 uuid  worker
UPDATE tenon.worker SET alone_since = NULL WHERE id = $1::uuid;
