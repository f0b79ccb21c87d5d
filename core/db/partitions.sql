-- Begin the next partition of the history if the current one is full, and make one ahead. Workers do so too: the cleaner may be
-- away.
SELECT tenon.make_partitions();
