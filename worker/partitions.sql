-- Without a partition for today nothing could finish; so a worker makes them too, at start and hourly.
SELECT tenon.make_partitions();
