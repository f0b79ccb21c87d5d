-- Somebody else has the sleeper's lock: sleep with another one. Transactions that hold the old one shared are found by
-- the watch.
--   $1 bigint  the leader's key
UPDATE tenon.setting SET sleeper_key = tenon.random_key()
WHERE leader_key = $1::bigint
RETURNING sleeper_key;
