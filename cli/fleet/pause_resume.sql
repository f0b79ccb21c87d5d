-- Resume it; was it paused?
--   $1 text  queue    $2 text  kind    $3 boolean  everything    $4 text  why
SELECT tenon.resume($1, $2, $3::boolean, $4);
