#include "tests/support/settle_stage.h"

/* What the test remembers of each task, written in the transaction that enqueues it; how each task
 * ended, whenever; each start, and what was taken from rates; which signals were sent, who waited
 * for one, and whom it woke. */
static const char stage_tables[] =
    "CREATE TABLE public.made (id bigint PRIMARY KEY, parents bigint[], on_dead text,"
    "                          counts boolean NOT NULL DEFAULT false);"
    "CREATE TABLE public.ended (id bigint, outcome text);"
    "CREATE TABLE public.start (key text, at timestamptz, n integer);"
    "CREATE TABLE public.sent (name text PRIMARY KEY, payload jsonb);"
    "CREATE TABLE public.wait (task bigint, signal text, until timestamptz);"
    "CREATE TABLE public.woken (task bigint, signal text, payload jsonb, at timestamptz);"
    /* before tenon.settle(): */
    "CREATE TABLE public.line (key text, id bigint, since timestamptz);"
    "CREATE TABLE public.free (id bigint);"
    "CREATE TABLE public.rule (key text, running integer, paused boolean, since timestamptz);"
    "CREATE TABLE public.turn (key text, waits boolean, since timestamptz, passed integer);";

static const char stage_triggers[] =
    "CREATE FUNCTION public.ends() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " INSERT INTO public.ended VALUES (NEW.id, coalesce(to_jsonb(NEW) ->> 'outcome', 'dead'));"
    " RETURN NULL; END $$;"
    "CREATE TRIGGER ends AFTER INSERT ON tenon.history FOR EACH ROW EXECUTE FUNCTION"
    " public.ends();"
    "CREATE TRIGGER ends AFTER INSERT ON tenon.dead FOR EACH ROW EXECUTE FUNCTION public.ends();"
    "CREATE FUNCTION public.starts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " INSERT INTO public.start SELECT k, NEW.start_time, 1 FROM unnest(NEW.limit_keys) k"
    "  WHERE k LIKE 'r:%';"
    " RETURN NULL; END $$;"
    "CREATE TRIGGER starts AFTER UPDATE ON tenon.task FOR EACH ROW"
    " WHEN (OLD.start_time IS NULL AND NEW.start_time IS NOT NULL)"
    " EXECUTE FUNCTION public.starts();"
    "CREATE FUNCTION public.waits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " INSERT INTO public.wait VALUES (NEW.task_id, NEW.signal, NEW.until); RETURN NULL; END $$;"
    "CREATE TRIGGER waits AFTER INSERT OR UPDATE OF signal ON tenon.waiting FOR EACH ROW"
    " EXECUTE FUNCTION public.waits();"
    "CREATE FUNCTION public.wakes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " INSERT INTO public.woken SELECT NEW.task_id, NEW.name, NEW.value, clock_timestamp()"
    "  FROM tenon.waiting w WHERE w.task_id = NEW.task_id AND w.signal = NEW.name;" /* no retry */
    " RETURN NULL; END $$;"
    "CREATE TRIGGER wakes AFTER INSERT ON tenon.task_step FOR EACH ROW EXECUTE FUNCTION"
    " public.wakes()";

/* As handlers do, but they ask again sooner. */
static const char stage_take[] =
    "CREATE FUNCTION public.take(key text, n integer) RETURNS integer LANGUAGE plpgsql AS $$"
    "DECLARE ms integer := tenon.take_limit(key, n); BEGIN"
    " IF ms = 0 THEN INSERT INTO public.start SELECT $1, max(s.at), $2 FROM tenon.limit_start s"
    "  WHERE s.key = $1; END IF;"
    " RETURN ms; END $$;"
    "ALTER FUNCTION tenon.take_limit SET lock_timeout = '10 ms'";

/* Keys n:1 (one at once), n:2 (two), m:1 (two, with exceptions that end), o (strict), p (strict,
 * dead ones are skipped), r:1 (a rate), f:1, f:2 (which has two at its turn) and f:3 (one at once;
 * these three are fair). */
static const char stage_limits[] =
    "SELECT tenon.set_limit('n:1', max_running => 1);"
    "SELECT tenon.set_limit('n:2', max_running => 2);"
    "SELECT tenon.set_limit('m', max_running => 2);"
    "SELECT tenon.set_limit('o', strict => true);"
    "SELECT tenon.set_limit('p', strict => true, when_dead => 'skip');"
    "SELECT tenon.set_limit('r', max_starts => 3, per => '250 ms');"
    "SELECT tenon.set_limit('f', fair => true);"
    "SELECT tenon.set_limit('f:2', weight => 2);"
    "SELECT tenon.set_limit('f:3', max_running => 1);"
    "CREATE TABLE public.limits AS SELECT * FROM tenon.limit";

/* Much sooner than TRUNCATE, of tables that are nearly empty. */
static const char stage_clear[] =
    "CREATE FUNCTION public.clear() RETURNS void LANGUAGE plpgsql AS $$ DECLARE t text; BEGIN"
    " SET LOCAL session_replication_role = replica;" /* without triggers */
    " FOREACH t IN ARRAY '{tenon.task,tenon.dead,tenon.history,tenon.attempt,tenon.flow,"
    "  tenon.flow_task,tenon.flow_wait,tenon.flow_note,tenon.limit_task,tenon.limit_event,"
    "  tenon.limit_due,tenon.limit_start,tenon.limit_turn,tenon.limit,tenon.paused,tenon.signal,"
    "  tenon.waiting,tenon.worker,tenon.task_step,public.made,public.ended,public.start,"
    "  public.sent,public.wait,public.woken,public.line,public.free,public.rule,public.turn}'"
    "::text[] LOOP"
    "  EXECUTE 'DELETE FROM ' || t; END LOOP;"
    " SET LOCAL session_replication_role = origin;"
    " INSERT INTO tenon.limit SELECT * FROM public.limits;"
    " INSERT INTO public.rule SELECT k, r.max_running, r.paused, clock_timestamp()"
    "  FROM unnest('{n:1,n:2,m:1,o,p,r:1,f:1,f:2,f:3}'::text[]) k, public.rule_of(k) r;"
    " INSERT INTO public.turn SELECT k, false, NULL, 0 FROM unnest('{f:1,f:2,f:3}'::text[]) k;"
    " END $$;";

void settle_stage(struct fixture *fx)
{
    test_sql(fx, "%s", stage_tables);
    test_sql(fx, "%s", stage_triggers);
    test_sql(fx, "%s", stage_take);
    test_sql(fx, "%s", stage_clear);
    settle_rules(fx);
    test_sql(fx, "%s", stage_limits);
    test_sql(fx, "CREATE FUNCTION public.made_by(flow bigint) RETURNS void LANGUAGE sql AS $$"
                 " INSERT INTO public.made SELECT m.id, m.parents, 'wait' FROM tenon.flow_task m"
                 " WHERE m.flow = $1 $$; SET lock_timeout = '50 ms'; SET jit = off");
}
