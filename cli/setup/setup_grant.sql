-- Let a role do what a part must.
--   $1 text    the part    $2 text  the role
--   $3 text[]  queues that a producer may enqueue to, NULL = all    $4 text[]  kinds, NULL = all
--   $5 text[]  exchanges that a publisher may publish to, NULL = all
SELECT CASE $1::text
           WHEN 'producer' THEN tenon.grant_producer($2, $3, $4)
           WHEN 'reader' THEN tenon.grant_reader($2)
           WHEN 'operator' THEN tenon.grant_operator($2)
           WHEN 'worker' THEN tenon.grant_worker($2)
           WHEN 'cleaner' THEN tenon.grant_cleaner($2)
           WHEN 'intake' THEN tenon.grant_intake($2)
           WHEN 'publisher' THEN tenon.grant_publisher($2, $5)
       END;
