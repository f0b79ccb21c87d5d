-- What the relay asks once a second: the first message that waits, and what cleaner/decide/settled.h wants to know.
--   $1 bigint  token   $2 bigint  messages up to this id are settled
SELECT first, first_above, last, xmin, next FROM tenon.relay_watch($1::bigint, $2::bigint);
