#!/bin/sh
# An exec handler that writes the journal of tests/support/journal.h and does what its arguments say:
#   journal.sh [exit CODE | sleep SECONDS | die SIGNAL | say TEXT]
claims=${TENON_TASK_CLAIM#*/}
claims=${claims%%/*}
note() {
    printf '%s %s %s %s %s\n' "$TENON_TASK_ID" "$claims" $$ "$1" "$(date +%s%N)" >>"$TEST_JOURNAL"
}
note start
code=0
case ${1:-} in
exit) code=$2 ;;
sleep) sleep "$2" ;;
die) kill "-$2" $$ ;;
say) printf '%s\n' "$2" ;;
esac
note end
exit "$code"
