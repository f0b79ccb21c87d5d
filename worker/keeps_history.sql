-- Are done tasks kept? Asked once a minute.
SELECT history_keep > interval '0' FROM tenon.setting;
