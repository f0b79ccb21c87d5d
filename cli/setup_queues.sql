-- The queues that have settings.
SELECT name
FROM tenon.queue
ORDER BY name;
