-- Tables whose required row is missing, for instance after a dump without data; NULL: none. A copy that has tasks is left for
-- tenon adopt.
SELECT nullif(concat_ws(', ', CASE WHEN NOT EXISTS (SELECT FROM tenon.setting) THEN 'tenon.setting' END,
                        CASE WHEN NOT EXISTS (SELECT FROM tenon.settler) THEN 'tenon.settler' END,
                        CASE WHEN NOT EXISTS (SELECT FROM tenon.home) AND NOT EXISTS (SELECT FROM tenon.task) THEN 'tenon.home' END), '');
