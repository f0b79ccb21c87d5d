-- One piece of an act of many.
--   $1 text   the act       $4 integer  how many          $7 bigint  the act's number in the audit, once it has one
--   $2 jsonb  the filter    $5 bigint   only ids above
--   $3 jsonb  the changes   $6 text     why
SELECT n, skipped, next, audit_id
FROM tenon.change($1, $2::jsonb, $3::jsonb, $4::integer, $5::bigint, $6, $7::bigint, 500);
