-- Are done tasks kept? Asked once a minute.
SELECT coalesce((SELECT history_keep > interval '0' FROM tenon.setting), true)
    OR EXISTS (SELECT FROM tenon.kind WHERE history_keep IS NOT NULL);
