-- Lead, if nobody was faster. The key is that of a lock that this session holds already, so no stranger can have taken it.
--   $1 bigint  the key of this session's lock    $2 bigint  the key of who led last
UPDATE tenon.setting SET leader_key = $1::bigint, sleeper_key = tenon.random_key()
WHERE leader_key = $2::bigint
RETURNING leader_key;
