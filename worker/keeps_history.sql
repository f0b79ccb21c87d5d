-- Are done tasks kept? Asked once a minute.
SELECT coalesce((SELECT history_keep > interval '0' FROM tenon.setting), true);
