-- Is there such a role?
--   $1 text  its name
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1);
