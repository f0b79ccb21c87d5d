-- For /metrics: since how many milliseconds the oldest pause of each sort has lasted; 0: nothing is paused.
SELECT w.what, coalesce((SELECT (extract(epoch FROM statement_timestamp() - min(p.paused_at)) * 1000)::bigint FROM tenon.paused p WHERE p.what = w.what), 0)
FROM unnest('{everything,queue,kind,limit,schedule}'::text[]) AS w (what);
