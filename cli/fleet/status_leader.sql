-- Does a cleaner lead?
SELECT l.led, row_to_json(l)::text
FROM (SELECT EXISTS (SELECT FROM tenon.setting s JOIN tenon.lock k ON k.key = s.leader_key AND k.counts) AS led) l;
