-- A migration was applied.
--   $1 integer version    $2 text name    $3 boolean breaking
INSERT INTO tenon.migration (version, name, breaking)
VALUES ($1::integer, $2, $3::boolean);
