-- Publish a message: tenon.publish with the body as bytes, and its form.
--   $1 exchange    $2 routing key     $3 bytea  body         $4 text, json or bytea    $5 jsonb headers          $6 message id
--   $7 content type    $8 order key    $9 bigint  expires, in milliseconds    $10 jsonb properties    $11 trace    $12 boolean  notify
SELECT (tenon.publish_bodies($1::text, $2::text,
            ARRAY[CASE $4::text WHEN 'bytea' THEN $3::bytea::text
                                WHEN 'json' THEN convert_from($3::bytea, 'UTF8')::json::text
                                ELSE convert_from($3::bytea, 'UTF8') END],
            $4::text, $5::jsonb, ARRAY[$6::text], $7::text, $8::text, $9::bigint * interval '1 ms', $10::jsonb, $11::text, $12::boolean))[1];
