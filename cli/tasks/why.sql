-- Why a task is where it is: the sentence, what to do, a JSON object, and whether there is such a task.
--   $1 bigint  the id
SELECT w.sentence, w.advice, json_build_object('id', $1::bigint, 'why', w.code, 'sentence', w.sentence, 'advice', w.advice)::text,
       w.code <> 'absent'
FROM tenon.why_of($1::bigint) w;
