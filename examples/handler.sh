#!/bin/sh
# An exec handler: one process per task. Any program will do.
#
#     tenon worker --handler welcome_mail=examples/handler.sh
#     tenon worker --run-one welcome_mail payload.json --handler welcome_mail=examples/handler.sh
#
# In:  the payload on stdin, TENON_TASK_ID, _KIND, _QUEUE, _ATTEMPT and more in the environment.
# Out: exit 0 = done, 75 = try again later (not counted as a failure), 65 = never try again, any
#      other = failed, try again after a pause. stdout is kept as the result, the end of stderr as
#      the error.
set -eu

MAILDIR=${MAILDIR:-${TMPDIR:-/tmp}/tenon-maildir}
mkdir -p "$MAILDIR/tmp" "$MAILDIR/new" "$MAILDIR/cur"

payload=$(cat)
to=$(printf '%s' "$payload" | sed -n 's/.*"to": *"\([^"]*\)".*/\1/p')
case $to in
*@*) ;;
*)
    echo "the payload has no address: $payload" >&2
    exit 65 # it will not get better
    ;;
esac

# A task may run again after a crash. The name makes a second run harmless: it is the same file.
name=task-$TENON_TASK_ID
{
    echo "From: service@example.org"
    echo "To: $to"
    echo "Subject: Welcome"
    echo "Message-ID: <$name@example.org>"
    echo
    echo "Hello, and welcome."
} >"$MAILDIR/tmp/$name.$$"
mv "$MAILDIR/tmp/$name.$$" "$MAILDIR/new/$name"

echo '{"sent": true}'
