-- How many tasks were done and died, and how many attempts failed, in the last hour and the last day.
SELECT c.*, row_to_json(c)::text
FROM (
    SELECT coalesce(sum(done) FILTER (WHERE lately), 0) AS done_last_hour,
           coalesce(sum(failed) FILTER (WHERE lately), 0) AS failed_last_hour,
           coalesce(sum(dead) FILTER (WHERE lately), 0) AS died_last_hour,
           coalesce(sum(done), 0) AS done_last_day, coalesce(sum(failed), 0) AS failed_last_day,
           coalesce(sum(dead), 0) AS died_last_day
    FROM (SELECT done, failed, dead, minute > statement_timestamp() - interval '1 hour' AS lately
          FROM tenon.minute WHERE minute > statement_timestamp() - interval '1 day') m
) c;
