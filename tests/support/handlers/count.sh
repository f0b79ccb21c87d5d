#!/bin/sh
# An exec handler that writes how many bytes its payload has to the file TEST_JOURNAL.bytes.
wc -c >"$TEST_JOURNAL.part" && mv "$TEST_JOURNAL.part" "$TEST_JOURNAL.bytes"
