-- Without a partition for today nothing could finish.
SELECT tenon.make_partitions();
