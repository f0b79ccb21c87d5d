#include "tests/support/settle_stage.h"

/* What the test remembers of each task, written in the transaction that enqueues it; and how each
 * task ended, whenever. */
static const char stage_tables[] =
    "CREATE TABLE public.made (id bigint PRIMARY KEY, parents bigint[], on_dead text,"
    "                          counts boolean NOT NULL DEFAULT false);"
    "CREATE TABLE public.ended (id bigint, outcome text);"
    "CREATE TABLE public.line (key text, id bigint);" /* before tenon.settle() */
    "CREATE TABLE public.free (id bigint);"
    "CREATE FUNCTION public.ends() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " INSERT INTO public.ended VALUES (NEW.id, coalesce(to_jsonb(NEW) ->> 'outcome', 'dead'));"
    " RETURN NULL; END $$;"
    "CREATE TRIGGER ends AFTER INSERT ON tenon.finished FOR EACH ROW EXECUTE FUNCTION"
    " public.ends();"
    "CREATE TRIGGER ends AFTER INSERT ON tenon.dead FOR EACH ROW EXECUTE FUNCTION public.ends();";

/* Limits n:1 (one at once), n:2 (two), o (strict), p (strict, dead ones are skipped). */
static const char stage_limits[] = "SELECT tenon.set_limit('n:1', running => 1);"
                                   "SELECT tenon.set_limit('n:2', running => 2);"
                                   "SELECT tenon.set_limit('o', strict => true);"
                                   "SELECT tenon.set_limit('p', strict => true, on_dead => 'skip')";

/* Much sooner than TRUNCATE, of tables that are nearly empty. */
static const char stage_clear[] =
    "CREATE FUNCTION public.clear() RETURNS void LANGUAGE plpgsql AS $$ DECLARE t text; BEGIN"
    " SET LOCAL session_replication_role = replica;" /* without triggers */
    " FOREACH t IN ARRAY '{tenon.task,tenon.dead,tenon.finished,tenon.attempt,tenon.flow,"
    "  tenon.flow_task,tenon.flow_wait,tenon.flow_note,tenon.limit_task,tenon.limit_event,"
    "  tenon.limit_due,tenon.worker,public.made,public.ended,public.line,public.free}'::text[] LOOP"
    "  EXECUTE 'DELETE FROM ' || t; END LOOP;"
    " SET LOCAL session_replication_role = origin; END $$";

/* What is wrong; NULL: nothing. */
static const char stage_broken[] =
    "CREATE FUNCTION public.broken() RETURNS text LANGUAGE plpgsql AS $$"
    "DECLARE r record; BEGIN"
    " SELECT k.key, count(*) AS n, min(l.running) AS most INTO r FROM ("
    "   SELECT unnest(t.limit_keys) AS key FROM tenon.task t WHERE t.wanted_at IS NULL"
    "   UNION ALL"
    "   SELECT unnest(f.limit_keys) FROM tenon.finished f JOIN public.made m USING (id)"
    "    WHERE m.counts AND f.outcome = 'cancelled') k"
    "  CROSS JOIN LATERAL tenon.limit_rule(k.key) l"
    "  GROUP BY k.key HAVING count(*) > min(l.running);"
    " IF FOUND THEN RETURN format('%s tasks of %s are ready or running', r.n, r.key); END IF;"
    " SELECT t.id, p.id AS parent INTO r FROM tenon.task t JOIN public.made m USING (id)"
    "  CROSS JOIN unnest(m.parents) p (id)"
    "  WHERE t.wanted_at IS NULL AND NOT EXISTS (SELECT FROM public.ended e WHERE e.id = p.id"
    "    AND (e.outcome = 'done' OR m.on_dead = 'run'));"
    " IF FOUND THEN RETURN format('task %s is unblocked, and its parent %s is not over', r.id,"
    "   r.parent); END IF;"
    " SELECT id INTO r FROM (SELECT id FROM tenon.task UNION ALL SELECT id FROM tenon.dead"
    "   UNION ALL SELECT id FROM tenon.finished) a GROUP BY id HAVING count(*) > 1;"
    " IF FOUND THEN RETURN format('task %s is in two places', r.id); END IF;"
    " SELECT kind, count(*) AS n INTO r FROM tenon.tasks t WHERE NOT EXISTS"
    "   (SELECT FROM public.made m WHERE m.id = t.id) GROUP BY kind HAVING count(*) > 1;"
    " IF FOUND THEN RETURN format('%s callbacks %s', r.n, r.kind); END IF;"
    " RETURN NULL; END $$";

/* Before tenon.settle(): who stands in the lines of strict keys, and what has been let go. */
static const char stage_order[] =
    "CREATE FUNCTION public.look() RETURNS void LANGUAGE sql AS $$"
    " DELETE FROM public.line; DELETE FROM public.free;"
    " INSERT INTO public.line SELECT unnest(t.limit_keys), t.id FROM tenon.task t"
    "  WHERE NOT EXISTS (SELECT FROM tenon.flow_wait w WHERE w.task = t.id);"
    " INSERT INTO public.line SELECT unnest(d.limit_keys), d.id FROM tenon.dead d;"
    " INSERT INTO public.free SELECT id FROM tenon.task WHERE wanted_at IS NULL $$;"
    "CREATE FUNCTION public.overtaken() RETURNS text LANGUAGE sql AS $$"
    " SELECT format('task %s was let go before %s', t.id, l.id) FROM tenon.task t"
    "   JOIN public.line l ON l.id < t.id AND l.key = ANY (t.limit_keys) AND l.key IN ('o', 'p')"
    "  WHERE t.wanted_at IS NULL AND NOT EXISTS (SELECT FROM public.free f WHERE f.id = t.id)"
    "    AND (EXISTS (SELECT FROM tenon.task u WHERE u.id = l.id)"
    "         OR l.key = 'o' AND EXISTS (SELECT FROM tenon.dead d WHERE d.id = l.id)) LIMIT 1 $$;"
    "CREATE FUNCTION public.wrong() RETURNS text LANGUAGE plpgsql AS $$"
    "DECLARE what text := coalesce(public.broken(), public.overtaken());"
    "BEGIN PERFORM public.look(); RETURN what; END $$";

void settle_stage(struct fixture *fx)
{
    test_sql(fx, "%s", stage_tables);
    test_sql(fx, "%s", stage_clear);
    test_sql(fx, "%s", stage_broken);
    test_sql(fx, "%s", stage_order);
    test_sql(fx, "%s", stage_limits);
    test_sql(fx, "CREATE FUNCTION public.made_by(flow bigint) RETURNS void LANGUAGE sql AS $$"
                 " INSERT INTO public.made SELECT m.id, m.parents, 'wait' FROM tenon.flow_task m"
                 " WHERE m.flow = $1 $$; SET lock_timeout = '50 ms'");
}
