#!/bin/sh
# scale.sh N TENON: so many workers in the current directory, as a supervisor would have them; the last ones end first.
i=1
while [ "$i" -le 9 ]; do
    if [ "$i" -gt "$1" ]; then
        if [ -f "worker.$i" ]; then kill -TERM "$(cat "worker.$i")" && rm "worker.$i"; fi
    elif [ ! -f "worker.$i" ]; then
        "$2" worker --slots 2 --handler 'a=sleep 0.2' >>worker.log 2>&1 &
        echo $! >"worker.$i"
    fi
    i=$((i + 1))
done
