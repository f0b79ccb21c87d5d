-- Has any worker a handler for this kind, living or not; or did somebody set it up?
--   $1 text  the kind
SELECT EXISTS (SELECT FROM tenon.worker WHERE $1 = ANY (kinds))
    OR EXISTS (SELECT FROM tenon.kind WHERE name = $1);
