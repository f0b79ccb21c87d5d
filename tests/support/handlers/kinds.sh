#!/bin/sh
# A pool handler whose hello is the text of a file, so that a test may change it.
#
#   kinds.sh FILE    each task is done, and its result is its id; without FILE it ends at once
cat "$1" || exit 3
while read -r line; do
    id=${line#*:}
    echo "{\"id\":${id%%,*},\"outcome\":\"done\",\"result\":${id%%,*}}"
done
