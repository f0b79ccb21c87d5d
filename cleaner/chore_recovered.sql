-- A chore of this cleaner works again.
--   $1 text  the chore    $2 text  this machine    $3 integer  this process
DELETE FROM tenon.chore_failure WHERE chore = $1 AND host = $2 AND pid = $3::integer;
