#include "tests/support/settle_stage.h"

/* Each function says what is wrong; NULL: nothing. */

/* What holds for a key, by the rows of tenon.limit and tenon.paused. */
static const char rule_of[] =
    "CREATE FUNCTION public.rule_of(key text, OUT max_running integer, OUT paused boolean)"
    " LANGUAGE sql STABLE AS $$"
    " SELECT CASE WHEN $1 IN ('o', 'p') THEN 1 ELSE coalesce(min(l.max_running) FILTER (WHERE"
    " l.name ="
    "   $1 AND coalesce(l.until > clock_timestamp(), true)), min(l.max_running) FILTER (WHERE"
    " l.name <>"
    "   $1)) END, EXISTS (SELECT FROM tenon.paused WHERE what = 'limit' AND name IN ($1,"
    "   split_part($1, ':', 1)))"
    "  FROM tenon.limit l WHERE l.name IN ($1, split_part($1, ':', 1)) $$";

/* --- how the rows stand ----------------------------------------------------------------------- */

static const char rule_places[] =
    "CREATE FUNCTION public.broken() RETURNS text LANGUAGE plpgsql AS $$"
    "DECLARE r record; BEGIN"
    " SELECT k.key, count(*) AS n INTO r FROM ("
    "   SELECT unnest(t.limit_keys) AS key FROM tenon.task t WHERE t.wanted_at IS NULL"
    "   UNION ALL"
    "   SELECT unnest(f.limit_keys) FROM tenon.history f JOIN public.made m USING (id)"
    "    WHERE m.counts AND f.outcome = 'cancelled') k"
    "  CROSS JOIN LATERAL public.rule_of(k.key) l"
    "  WHERE k.key <> 'm:1'" /* has exceptions */
    "  GROUP BY k.key HAVING count(*) > min(l.max_running);"
    " IF FOUND THEN RETURN format('%s tasks of %s are ready or running', r.n, r.key); END IF;"
    " SELECT t.id, p.id AS parent INTO r FROM tenon.task t JOIN public.made m USING (id)"
    "  CROSS JOIN unnest(m.parents) p (id)"
    "  WHERE t.wanted_at IS NULL AND NOT EXISTS (SELECT FROM public.ended e WHERE e.id = p.id"
    "    AND (e.outcome = 'done' OR m.on_dead = 'run'));"
    " IF FOUND THEN RETURN format('task %s is unblocked, and its parent %s is not over', r.id,"
    "   r.parent); END IF;"
    " SELECT id INTO r FROM (SELECT id FROM tenon.task UNION ALL SELECT id FROM tenon.dead"
    "   UNION ALL SELECT id FROM tenon.history) a GROUP BY id HAVING count(*) > 1;"
    " IF FOUND THEN RETURN format('task %s is in two places', r.id); END IF;"
    " SELECT kind, count(*) AS n INTO r FROM tenon.tasks t WHERE NOT EXISTS"
    "   (SELECT FROM public.made m WHERE m.id = t.id) GROUP BY kind HAVING count(*) > 1;"
    " IF FOUND THEN RETURN format('%s callbacks %s', r.n, r.kind); END IF;"
    " RETURN NULL; END $$";

/* Whatever window ends with a start. */
static const char rule_rates[] =
    "CREATE FUNCTION public.overrun() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN ("
    " SELECT format('%s starts of %s within 250 ms, until %s', x.n, s.key, s.at)"
    "  FROM public.start s CROSS JOIN LATERAL (SELECT sum(o.n) AS n FROM public.start o"
    "   WHERE o.key = s.key AND o.at > s.at - interval '250 ms' AND o.at <= s.at) x"
    "  WHERE x.n > 3 LIMIT 1); END $$";

/* Who goes on has what he waited for, once: what came, or null when his time was over. */
static const char rule_signals[] =
    "CREATE FUNCTION public.unsignalled() RETURNS text LANGUAGE plpgsql AS $$"
    "DECLARE r record; BEGIN"
    " SELECT w.task, w.signal INTO r FROM public.wait w JOIN tenon.task t ON t.id = w.task"
    "  WHERE t.wanted_at IS NULL AND NOT EXISTS (SELECT FROM tenon.task_step s"
    "   WHERE s.task_id = t.id AND s.name = w.signal);"
    " IF FOUND THEN RETURN format('task %s goes on without %s', r.task, r.signal); END IF;"
    " SELECT w.task, w.signal INTO r FROM public.woken w GROUP BY 1, 2 HAVING count(*) > 1;"
    " IF FOUND THEN RETURN format('task %s is woken twice by %s', r.task, r.signal); END IF;"
    " SELECT w.task, w.signal, w.payload INTO r FROM public.woken w"
    "  WHERE CASE WHEN w.payload = 'null' THEN w.at < (SELECT max(o.until) FROM public.wait o"
    "    WHERE o.task = w.task AND o.signal = w.signal)"
    "   ELSE NOT EXISTS (SELECT FROM public.sent s WHERE s.name = w.signal"
    "    AND s.payload = w.payload) END;"
    " IF FOUND THEN RETURN format('task %s got %s of %s', r.task, r.payload, r.signal); END IF;"
    " RETURN NULL; END $$";

/* --- what was let go since ------------------------------------------------------ */

/* Who stands in the lines of strict keys, and what has been let go. Who stands in a line, and what
 * holds for a key, count from when they were seen first: run_at is when a task was let go, and its
 * commit may be late. */
static const char look[] =
    "CREATE FUNCTION public.look() RETURNS void LANGUAGE plpgsql AS $$ BEGIN"
    " DELETE FROM public.line l WHERE NOT EXISTS (SELECT FROM tenon.task t WHERE t.id = l.id)"
    "  AND NOT EXISTS (SELECT FROM tenon.dead d WHERE d.id = l.id);"
    " INSERT INTO public.line SELECT k, n.id, clock_timestamp() FROM ("
    "   SELECT t.id, t.limit_keys FROM tenon.task t WHERE t.limit_keys && '{o,p}'"
    "     AND NOT EXISTS (SELECT FROM tenon.flow_wait w WHERE w.task = t.id)"
    "   UNION ALL SELECT d.id, d.limit_keys FROM tenon.dead d) n CROSS JOIN unnest(n.limit_keys) k"
    "  WHERE k IN ('o', 'p') AND NOT EXISTS (SELECT FROM public.line l WHERE l.id = n.id);"
    " DELETE FROM public.free; INSERT INTO public.free SELECT id FROM tenon.task"
    "  WHERE wanted_at IS NULL;"
    " UPDATE public.rule u SET running = r.max_running, paused = r.paused, since ="
    " clock_timestamp()"
    "  FROM public.rule o CROSS JOIN LATERAL public.rule_of(o.key) r WHERE o.key = u.key"
    "  AND (u.running, u.paused) IS DISTINCT FROM (r.max_running, r.paused); END $$";

static const char rule_order[] =
    "CREATE FUNCTION public.overtaken() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN ("
    " SELECT format('task %s was let go before %s', t.id, l.id) FROM tenon.task t"
    "   JOIN public.line l ON l.id < t.id AND l.key = ANY (t.limit_keys) AND l.key IN ('o', 'p')"
    "  WHERE t.wanted_at IS NULL AND NOT EXISTS (SELECT FROM public.free f WHERE f.id = t.id)"
    "    AND t.run_at > l.since AND (EXISTS (SELECT FROM tenon.task u WHERE u.id = l.id)"
    "         OR l.key = 'o' AND EXISTS (SELECT FROM tenon.dead d WHERE d.id = l.id))"
    "  LIMIT 1); END $$";

/* Nothing of a key that is paused; and of one with exceptions no more than the rule of that moment
 * allows. */
static const char rule_pauses[] =
    "CREATE FUNCTION public.let_go() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN ("
    " SELECT format('task %s was let go, and %s', t.id, CASE WHEN u.paused AND r.paused"
    "    THEN u.key || ' is paused' ELSE format('%s of %s run', h.n, u.key) END)"
    "  FROM tenon.task t JOIN public.rule u ON u.key = ANY (t.limit_keys) AND t.run_at > u.since"
    "  CROSS JOIN LATERAL public.rule_of(u.key) r"
    "  CROSS JOIN LATERAL (SELECT (SELECT count(*) FROM tenon.task o WHERE o.wanted_at IS NULL"
    "     AND u.key = ANY (o.limit_keys) AND o.run_at <= t.run_at)"
    "   + (SELECT count(*) FROM tenon.history f JOIN public.made m USING (id) WHERE m.counts"
    "     AND f.outcome = 'cancelled' AND u.key = ANY (f.limit_keys) AND f.run_at <= t.run_at)"
    "     AS n) h"
    "  WHERE t.wanted_at IS NULL AND NOT EXISTS (SELECT FROM public.free f WHERE f.id = t.id)"
    "   AND (u.paused AND r.paused OR h.n > greatest(u.running, r.max_running)) LIMIT 1); END $$";

/* Of keys that share, one that waits and may go on is not passed over for long: while it waits for
 * one turn, the others have at most so many that were let go after it was seen to wait. `quiet`:
 * nobody has locked a task. */
static const char rule_turns[] =
    "CREATE FUNCTION public.passed_over(quiet boolean) RETURNS text LANGUAGE plpgsql AS $$"
    "DECLARE what text; BEGIN"
    " IF NOT EXISTS (SELECT FROM tenon.task t WHERE t.limit_keys && '{f:1,f:2,f:3}') THEN"
    "  UPDATE public.turn u SET waits = false, passed = 0 WHERE u.waits; RETURN NULL; END IF;"
    " UPDATE public.turn u SET waits = w.now, since = CASE WHEN u.waits THEN u.since ELSE"
    "   clock_timestamp() END, passed = CASE WHEN w.own > 0 OR NOT quiet OR NOT (u.waits AND w.now)"
    "   THEN 0 ELSE u.passed + (SELECT count(*) FROM tenon.task t WHERE t.run_at > u.since"
    "    AND t.wanted_at IS NULL AND t.limit_keys && '{f:1,f:2,f:3}'"
    "    AND NOT EXISTS (SELECT FROM public.free f WHERE f.id = t.id)) END"
    "  FROM (SELECT c.key, c.own, c.waiting > 0 AND c.several = 0"
    "     AND NOT r.paused AND coalesce(r.max_running, 1000) > (SELECT count(*) FROM"
    " tenon.limit_task l"
    "      WHERE l.key = c.key AND l.state IN ('held', 'ending')) AS now"
    "    FROM (SELECT k.key, count(*) FILTER (WHERE cardinality(t.limit_keys) > 1) AS several,"
    "       count(*) FILTER (WHERE t.wanted_at <= now() AND NOT EXISTS (SELECT FROM"
    "        tenon.flow_wait v WHERE v.task = t.id)) AS waiting,"
    "       count(*) FILTER (WHERE t.id IS NOT NULL AND t.wanted_at IS NULL AND f.id IS NULL)"
    "        AS own"
    "      FROM public.turn k LEFT JOIN tenon.task t ON k.key = ANY (t.limit_keys)"
    "      LEFT JOIN public.free f ON f.id = t.id GROUP BY k.key) c"
    "    CROSS JOIN LATERAL public.rule_of(c.key) r) w WHERE w.key = u.key;"
    " SELECT format('%s waits, and %s tasks of others went before it', u.key, u.passed) INTO what"
    "  FROM public.turn u WHERE u.passed > 8 LIMIT 1;"
    " RETURN what; END $$";

static const char rules[] =
    "CREATE FUNCTION public.wrong(quiet boolean) RETURNS text LANGUAGE plpgsql AS $$"
    "DECLARE what text := coalesce(public.broken(), public.overrun(), public.unsignalled(),"
    "  public.overtaken(), public.let_go(), public.passed_over(quiet));"
    "BEGIN PERFORM public.look(); RETURN what; END $$";

/* --- when nothing is left to settle ---------------------------------------------------------- */

/* Nobody waits for what is there, and for no time. */
static const char rule_stuck[] =
    "CREATE FUNCTION public.stuck() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN ("
    " SELECT format('task %s waits for %s, which has room', l.task_id, l.key)"
    "  FROM tenon.limit_task l CROSS JOIN LATERAL tenon.limit_rule(l.key) u"
    "  CROSS JOIN LATERAL tenon.limit_rooms(ARRAY[l.key], tenon.limit_names(l.key)) r"
    "  WHERE l.state = 'waits' AND l.alone AND r.room > 0 AND r.share IS NULL"
    "   AND NOT EXISTS (SELECT FROM tenon.limit_due d WHERE d.key = l.key)"
    "   AND NOT (r.strict AND EXISTS (SELECT FROM tenon.limit_task b WHERE b.key = l.key"
    "    AND b.task_id < l.task_id))"
    " UNION ALL SELECT format('task %s waits for %s, which has come', w.task_id, w.signal)"
    "  FROM tenon.waiting w JOIN tenon.signal s ON s.name = w.signal"
    " UNION ALL SELECT format('task %s waits for nothing', t.id) FROM tenon.task t"
    "  WHERE t.wanted_at IS NOT NULL"
    "   AND NOT EXISTS (SELECT FROM tenon.limit_task l WHERE l.task_id = t.id"
    "    AND l.wanted_at < 'infinity')"
    "   AND NOT EXISTS (SELECT FROM tenon.flow_wait w WHERE w.task = t.id)"
    "   AND NOT EXISTS (SELECT FROM tenon.waiting w WHERE w.task_id = t.id) LIMIT 1); END $$";

/* --- when all has ended ----------------------------------------------------------------------- */

/* All of each limit can be had: of the rate, but for the starts of a moment ago. */
static const char rule_leaks[] =
    "CREATE FUNCTION public.leaks() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN ("
    " SELECT format('of %s only %s can be had', r.key, r.room) FROM public.rule u"
    "  CROSS JOIN LATERAL tenon.limit_rule(u.key) l"
    "  CROSS JOIN LATERAL tenon.limit_rooms(ARRAY[u.key], tenon.limit_names(u.key)) r"
    "  WHERE r.room < least(100000, l.max_running, l.max_starts - (SELECT coalesce(sum(s.n), 0)"
    " FROM"
    "   public.start s WHERE s.key = u.key AND s.at > clock_timestamp() - 2 * l.per))"
    " UNION ALL SELECT 'fewer fair keys can be let go' WHERE tenon.limit_free('f') < 10"
    "  LIMIT 1); END $$";

void settle_rules(struct fixture *fx)
{
    test_sql(fx, "%s", rule_of);
    test_sql(fx, "%s", rule_places);
    test_sql(fx, "%s", rule_rates);
    test_sql(fx, "%s", rule_signals);
    test_sql(fx, "%s", look);
    test_sql(fx, "%s", rule_order);
    test_sql(fx, "%s", rule_pauses);
    test_sql(fx, "%s", rule_turns);
    test_sql(fx, "%s", rules);
    test_sql(fx, "%s", rule_stuck);
    test_sql(fx, "%s", rule_leaks);
}
