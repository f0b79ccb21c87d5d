-- Is there a suspect for this worker, and may it run suspects now (tenon.take_turn)? Mostly there is none at all.
--   $1 uuid  worker    $2 text[]  queues    $3 text[]  kinds
SELECT CASE WHEN EXISTS (SELECT FROM tenon.suspect WHERE alone AND claims IS NULL)
            THEN tenon.take_turn($1::uuid, $2::text[], $3::text[]) ELSE false END;
