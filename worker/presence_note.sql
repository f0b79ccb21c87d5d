-- What keeps this worker from its work, for tenon.failing; '' = nothing.
--   $1 uuid  worker
--   $2 text  which handlers do not start, and why    $3 text  why rounds keep failing    $4 text  why RabbitMQ is away
--   $5 text  which handlers are still starting, since when
UPDATE tenon.worker
SET backing_off = nullif($2, ''), rounds_failing = nullif($3, ''), broker_away = nullif($4, ''), starting = nullif($5, '')
WHERE id = $1::uuid;
