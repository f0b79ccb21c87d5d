-- Cron expressions: when is the next tick? Calculated with PostgreSQL's own time zones; docs/schedules.md says what an
-- expression means. Functions without a search_path of their own are called only by those that have one.

CREATE OR REPLACE FUNCTION tenon.refuse_cron(field text, word text, why text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'tenon: cron: %: % %', field, left(word, 100), why
        USING ERRCODE = 'invalid_parameter_value',
              HINT = 'A cron expression is minute hour day-of-month month day-of-week, such as 30 3 * * mon-fri, or a name such as @daily.';
END $$;

CREATE OR REPLACE FUNCTION tenon.cron_number(field text, word text, low integer, high integer, names text[]) RETURNS integer
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    place integer := array_position(names, lower(word COLLATE "C"));
BEGIN
    IF place IS NOT NULL THEN
        RETURN place - 1 + low;
    END IF;
    IF word !~ '^[0-9]{1,9}$' OR word::integer NOT BETWEEN low AND high THEN
        PERFORM tenon.refuse_cron(field, word, format('is not %s to %s', low, high)
                                  || coalesce(' or ' || names[1] || ' to ' || names[cardinality(names)], ''));
    END IF;
    RETURN word::integer;
END $$;

-- One field, such as 0,30 or mon-fri or */15, in the form of a set.
CREATE OR REPLACE FUNCTION tenon.cron_field(field text, list text, low integer, high integer, names text[]) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    part  text;
    m     text[];
    first integer;
    last  integer;
    bits  bigint := 0;
BEGIN
    FOREACH part IN ARRAY string_to_array(list, ',') LOOP
        m := regexp_match(part, '^(\*|([^-/*]+)(?:-([^-/*]+))?)(?:/([0-9]{1,9}))?$');
        IF m IS NULL THEN
            PERFORM tenon.refuse_cron(field, quote_literal(part), 'is not a number, range, * or step');
        ELSIF m[1] = '*' THEN
            first := low;
            last := high;
        ELSE
            first := tenon.cron_number(field, m[2], low, high, names);
            last := tenon.cron_number(field, coalesce(m[3], m[2]), low, high, names);
            IF last = 0 AND high = 7 AND m[3] IS NOT NULL THEN
                last := 7;  -- sat-sun
            END IF;
        END IF;
        IF last < first THEN
            PERFORM tenon.refuse_cron(field, part, 'is a range that goes down');
        ELSIF m[4]::integer = 0 THEN
            PERFORM tenon.refuse_cron(field, part, 'has a step of 0');
        ELSIF m[4] IS NOT NULL AND m[1] <> '*' AND m[3] IS NULL THEN
            PERFORM tenon.refuse_cron(field, part, 'has a step, which only * and ranges have');
        END IF;
        FOR n IN first..last BY coalesce(m[4]::integer, 1) LOOP
            bits := bits | (1::bigint << n);
        END LOOP;
    END LOOP;
    RETURN bits;
END $$;

CREATE OR REPLACE FUNCTION tenon.parse_cron(cron text) RETURNS tenon.cron
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    c tenon.cron;
    f text[] := regexp_split_to_array(btrim(cron, E' \t'), '[ \t]+');
BEGIN
    IF f[1] LIKE '@%' AND cardinality(f) = 1 THEN
        f := string_to_array(CASE lower(f[1] COLLATE "C")
            WHEN '@yearly' THEN '0 0 1 1 *' WHEN '@annually' THEN '0 0 1 1 *' WHEN '@monthly' THEN '0 0 1 * *'
            WHEN '@weekly' THEN '0 0 * * 0' WHEN '@daily' THEN '0 0 * * *' WHEN '@midnight' THEN '0 0 * * *'
            WHEN '@hourly' THEN '0 * * * *' END, ' ');
        IF f IS NULL THEN
            PERFORM tenon.refuse_cron('name', cron, 'is not @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly');
        END IF;
    END IF;
    IF cardinality(f) IS DISTINCT FROM 5 THEN
        PERFORM tenon.refuse_cron('fields', quote_nullable(cron), format('has %s, not 5', coalesce(cardinality(f), 0)));
    END IF;
    c.minutes := tenon.cron_field('minute', f[1], 0, 59, NULL);
    c.hours := tenon.cron_field('hour', f[2], 0, 23, NULL);
    c.days := tenon.cron_field('day of month', f[3], 1, 31, NULL);
    c.months := tenon.cron_field('month', f[4], 1, 12, '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}');
    c.weekdays := tenon.cron_field('day of week', f[5], 0, 7, '{sun,mon,tue,wed,thu,fri,sat}');
    c.weekdays := c.weekdays | (c.weekdays >> 7);
    c.either := f[3] NOT LIKE '*%' AND f[5] NOT LIKE '*%';
    RETURN c;
END $$;

-- The first number of a set from `low` on; NULL: none.
CREATE OR REPLACE FUNCTION tenon.cron_next(bits bigint, low integer) RETURNS integer
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF bits >> low = 0 THEN
        RETURN NULL;
    END IF;
    WHILE (bits >> low) & 1 = 0 LOOP
        low := low + 1;
    END LOOP;
    RETURN low;
END $$;

-- The first day from `day` on; NULL: none in 41 years, and so none at all. (From one 29 February on a certain day of
-- the week to the next it may take 40.)
CREATE OR REPLACE FUNCTION tenon.cron_day(c tenon.cron, day date) RETURNS date
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    last     date := day + 41 * 366;
    in_month boolean;
    in_week  boolean;
BEGIN
    WHILE day <= last LOOP
        IF (c.months >> extract(month FROM day)::integer) & 1 = 0 THEN
            day := (date_trunc('month', day::timestamp) + interval '1 month')::date;
            CONTINUE;
        END IF;
        in_month := (c.days >> extract(day FROM day)::integer) & 1 = 1;
        in_week := (c.weekdays >> extract(dow FROM day)::integer) & 1 = 1;
        IF in_month AND in_week OR c.either AND (in_month OR in_week) THEN
            RETURN day;
        END IF;
        day := day + 1;
    END LOOP;
    RETURN NULL;
END $$;

-- What the clock on the wall shows at the first tick after `after`, if no clock was ever changed.
CREATE OR REPLACE FUNCTION tenon.cron_wall(c tenon.cron, after timestamp) RETURNS timestamp
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    low    timestamp := date_trunc('minute', after) + interval '1 minute';
    day    date := tenon.cron_day(c, low::date);
    hour   integer;
    minute integer;
BEGIN
    IF day = low::date THEN
        hour := tenon.cron_next(c.hours, extract(hour FROM low)::integer);
        IF hour = extract(hour FROM low) THEN
            minute := tenon.cron_next(c.minutes, extract(minute FROM low)::integer);
            hour := CASE WHEN minute IS NULL THEN tenon.cron_next(c.hours, hour + 1) ELSE hour END;
        END IF;
        day := CASE WHEN hour IS NULL THEN tenon.cron_day(c, day + 1) ELSE day END;
    END IF;
    RETURN day + make_interval(hours => coalesce(hour, tenon.cron_next(c.hours, 0)),
                               mins => coalesce(minute, tenon.cron_next(c.minutes, 0)));
END $$;

-- How far the clocks of a zone are ahead of UTC.
CREATE OR REPLACE FUNCTION tenon.zone_offset(zone text, moment timestamptz) RETURNS interval
LANGUAGE sql STABLE AS $$ SELECT (moment AT TIME ZONE zone) - (moment AT TIME ZONE 'UTC') $$;

-- When the clocks of a zone show `wall` for the first time; if they jump over it, when they have jumped. PostgreSQL says
-- of two moments the second, and in a gap it counts on with the offset before.
CREATE OR REPLACE FUNCTION tenon.wall_moment(zone text, wall timestamp) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    second timestamptz := wall AT TIME ZONE zone;
    shown  timestamp := second AT TIME ZONE zone;
    first  timestamptz := (wall - tenon.zone_offset(zone, second - interval '4 hours')) AT TIME ZONE 'UTC';
BEGIN
    IF shown > wall THEN
        RETURN (SELECT min(t) FROM generate_series(second - (shown - wall), second, interval '1 minute') t
                 WHERE tenon.zone_offset(zone, t) = tenon.zone_offset(zone, second));
    END IF;
    RETURN CASE WHEN first < second AND first AT TIME ZONE zone = wall THEN first ELSE second END;
END $$;

-- The next tick of an expression that ticks in each hour, by local time. So it also ticks while an hour is repeated, and an hour
-- that the clocks skip has no tick.
CREATE OR REPLACE FUNCTION tenon.next_tick_hourly(c tenon.cron, zone text, after timestamptz) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wall timestamp := after AT TIME ZONE zone;
    soon timestamptz := after + interval '3 hours';
    tick timestamptz;
    turn timestamptz;
BEGIN
    LOOP
        wall := tenon.cron_wall(c, wall);
        tick := tenon.wall_moment(zone, wall);
        CONTINUE WHEN tick AT TIME ZONE zone <> wall;
        tick := CASE WHEN tick > after THEN tick ELSE wall AT TIME ZONE zone END;
        EXIT WHEN wall IS NULL OR tick > after;
    END LOOP;
    IF tenon.zone_offset(zone, soon) < tenon.zone_offset(zone, after) THEN  -- the clocks go back
        turn := (SELECT min(t) FROM generate_series(date_trunc('minute', after), soon, interval '1 minute') t
                  WHERE tenon.zone_offset(zone, t) < tenon.zone_offset(zone, after));
        tick := least(tick, tenon.cron_wall(c, turn AT TIME ZONE zone - interval '1 minute') AT TIME ZONE zone);
    END IF;
    RETURN tick;
END $$;

CREATE OR REPLACE FUNCTION tenon.next_tick(cron text, zone text DEFAULT 'UTC', after timestamptz DEFAULT clock_timestamp())
RETURNS timestamptz
LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c    tenon.cron := tenon.parse_cron(cron);
    wall timestamp := after AT TIME ZONE zone;
    tick timestamptz;
BEGIN
    IF NOT isfinite(after) THEN
        PERFORM tenon.refuse('after', after::text, 'a time');
    ELSIF c.hours = (1 << 24) - 1 THEN
        tick := tenon.next_tick_hourly(c, zone, after);
    ELSE
        LOOP
            wall := tenon.cron_wall(c, wall);
            tick := tenon.wall_moment(zone, wall);
            EXIT WHEN wall IS NULL OR tick > after;
        END LOOP;
    END IF;
    IF tick IS NULL THEN
        PERFORM tenon.refuse_cron('day of month', cron, 'never comes: no month of it has such a day');
    END IF;
    RETURN tick;
END $$;

COMMENT ON FUNCTION tenon.next_tick IS $$Returns the first tick of a cron expression after a time, in a time zone. An expression without any tick, such as 30 February, raises SQLSTATE 22023.$$;
