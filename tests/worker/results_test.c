/* label: e2e */
/* Results that PostgreSQL cannot store, or could not print: their tasks are done all the same. */
#include "core/base/now.h"
#include "tests/support/answers.h"
#include "tests/support/working.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READY_MS = 30000, INNOCENT = 3, REFUSED_PROGRESS = 6, REFUSED_STEPS = 7 };

/* A pool child that gives each task the result that `printf` makes. */
static const char *pool(const struct fixture *fx, const char *kind, const char *print, char *text)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s.sh", fx->dir, kind);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file,
                  "echo '{\"hello\":\"tenon\"}'\nwhile read -r line; do\n"
                  "id=${line#*\\\"id\\\":}\nprintf '{\"id\":%%s,\"outcome\":\"done\",\"result\":' "
                  "\"${id%%%%,*}\"\n%s\necho '}'\ndone\n",
                  print);
    (void)fclose(file);
    (void)snprintf(text, 400, "%s=pool:sh %s", kind, path);
    return text;
}

static void ends_with_a_note(struct fixture *fx, const char *kind, const char *note)
{
    int64_t id = test_sql_int(fx, "SELECT tenon.enqueue('%s')", kind);
    test_await(fx, READY_MS,
               "SELECT count(*) = 1 FROM tenon.history WHERE id = %lld AND outcome = 'done' AND"
               " failures = 0 AND crashes = 0 AND result #>> '{}' LIKE '%s'",
               (long long)id, note);
}

static void test_results_that_cannot_be_kept(void **state)
{
    static const char many[] = "awk 'BEGIN { printf \"[\"; for (i = 0; i < 20000; i++)"
                               " printf \"1e-16383,\"; printf \"1]\" }'";
    struct fixture *fx = *state;
    char nul[400], tiny[400], large[400], exec[400];
    (void)snprintf(exec, sizeof exec, "exec=%s", many);
    struct process *worker = TENON(fx, "worker", "--slots", "4", "--handler",
                                   pool(fx, "nul", "printf '\"a\\\\u0000b\"'", nul), "--handler",
                                   pool(fx, "tiny", "printf '%s' 1e-20000", tiny), "--handler",
                                   pool(fx, "large", many, large), "--handler", exec);
    process_await_line(worker, "event=worker_ready", READY_MS);
    ends_with_a_note(fx, "nul", "tenon: the result was not kept: a text in it has %%");
    ends_with_a_note(fx, "tiny", "tenon: the result was not kept: %%");
    ends_with_a_note(fx, "large", "tenon: the result was not kept, it is longer than 2 MiB%%");
    ends_with_a_note(fx, "exec", "tenon: the result was not kept, it is longer than 2 MiB%%");
    end_well(worker);
    const char *const dump[] = {"sh", "-c", "\"$TENON_PGBIN/pg_dump\" \"$DATABASE_URL\" | wc -c",
                                NULL};
    struct process *p = process_spawn(fx, dump, NULL);
    assert_int_equal(process_wait(p, READY_MS), 0);
    char *bytes = file_text(p->out);
    assert_in_range(strtol(bytes, NULL, 10), 10000, 1 << 20);
    free(bytes);
}

/* --- tests/answers.json, by each way --- */

static void start_cases(struct fixture *fx, const char *handler)
{
    const char *const serve[] = {"python3", handler, "serve", fx->dir, NULL};
    process_await_line(process_spawn(fx, serve, NULL), "listening", READY_MS);
    test_sql(fx,
             "CREATE TABLE public.expected (id bigint, name text, way text, comes text, text text,"
             " error text)");
}

/* A task of kind `way`, whose payload has these pieces under `key`. */
static void add_case(struct fixture *fx, const json_t *answer, const char *way, const char *key,
                     const char *comes, const json_t *pieces)
{
    json_t *payload = json_pack("{s:O}", key, pieces);
    char *document = json_dumps(payload, JSON_COMPACT);
    char *text = strcmp(key, "result") == 0 ? answers_text(pieces, 0) : NULL;
    const char *params[] = {way,   document, answers_word(answer, "name"),
                            comes, text,     answers_word(answer, "error")};
    PGconn *conn = sql_connect(fx->database_url);
    PGresult *r = PQexecParams(conn,
                               "INSERT INTO public.expected SELECT tenon.enqueue($1, $2::jsonb,"
                               " max_attempts => 1), $3, $1, $4, $5, $6",
                               6, NULL, params, NULL, NULL, 0);
    if (PQresultStatus(r) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", params[2], PQerrorMessage(conn));
    }
    PQclear(r);
    PQfinish(conn);
    free(text);
    free(document);
    json_decref(payload);
}

/* One that ends its child would end its neighbours' too. */
static void add_unless_it_ends(struct fixture *fx, const json_t *answer, const char *way,
                               const char *key, const char *comes, const json_t *pieces)
{
    if (strcmp(comes, "ends") != 0) {
        add_case(fx, answer, way, key, comes, pieces);
    }
}

static void add_cases(struct fixture *fx, const char *go)
{
    static const char *const ways[] = {"pool", "exec", "http"};
    json_t *results = answers_read("results"), *lines = answers_read("lines");
    json_t *said = answers_read("said");
    const json_t *answer;
    size_t i;
    json_array_foreach(results, i, answer)
    {
        for (size_t k = 0; k < 3; k++) {
            add_unless_it_ends(fx, answer, ways[k], "result", answers_word(answer, ways[k]),
                               json_object_get(answer, "text"));
        }
    }
    json_array_foreach(lines, i, answer)
    {
        add_unless_it_ends(fx, answer, "pool", "line", answers_word(answer, "comes"),
                           json_object_get(answer, "line"));
    }
    json_array_foreach(said, i, answer)
    {
        json_t *one = json_pack("[O]", json_object_get(answer, "line"));
        add_case(fx, answer, "pool", "said", "done", one);
        json_decref(one);
    }
    test_sql(fx,
             "UPDATE tenon.task SET payload = payload || jsonb_build_object('until', '%s')"
             " WHERE payload ? 'said'",
             go);
    json_decref(results);
    json_decref(lines);
    json_decref(said);
}

/* Those that are not as they should be, and how they are. */
static const char wrong[] =
    "SELECT count(*) = 0, string_agg(format('%%s %%s: %%s, %%s failures, %%s claims, %%s, %%s',"
    " e.way, e.name,"
    " t.state, t.failures, t.claims, left(t.last_error, 200), left(t.result::text, 100)), E'\\n')"
    " FROM public.expected e LEFT JOIN tenon.tasks t USING (id) WHERE %s AND ("
    " t.failures = (e.comes = 'failed')::integer"
    " AND coalesce(t.last_error, '') LIKE coalesce(e.error, '') || '%%'"
    " AND CASE WHEN e.comes IN ('failed', 'dead') THEN t.state = 'dead'"
    " ELSE t.state = 'done' AND t.last_error IS NULL END"
    " AND CASE e.comes WHEN 'kept' THEN t.result = ltrim(e.text, U&'\\FEFF')::jsonb"
    " WHEN 'note' THEN t.result #>> '{}' LIKE 'tenon: the result was not kept%%'"
    " WHEN 'text' THEN t.result = to_jsonb(e.text) WHEN 'none' THEN t.result IS NULL"
    " ELSE true END) IS NOT TRUE";

static void await_lines(const struct process *worker, const char *text, size_t n)
{
    int64_t deadline_ms = patience_end_ms(READY_MS);
    while (process_lines(worker, text) < n) {
        assert_true(now_ms() < deadline_ms);
        (void)poll(NULL, 0, 20);
    }
    assert_int_equal(process_lines(worker, text), n);
}

/* Three innocent tasks are in the child all the while, and nothing happens to them. No round fails,
 * as no outcome is one that PostgreSQL cannot store. */
static void test_no_answer_costs_a_neighbour(void **state)
{
    struct fixture *fx = *state;
    char handler[256], pool_handler[400], exec[400], http[600], go[300];
    (void)snprintf(handler, sizeof handler, "%s/tests/support/handlers/answers.py", repository);
    (void)snprintf(go, sizeof go, "%s/go", fx->dir);
    assert_int_equal(mkfifo(go, 0600), 0);
    start_cases(fx, handler);
    char path[300];
    (void)snprintf(path, sizeof path, "%s/port", fx->dir);
    char *port = file_text(path);
    (void)snprintf(pool_handler, sizeof pool_handler, "pool=pool:exec python3 %s pool", handler);
    (void)snprintf(exec, sizeof exec, "exec=exec python3 %s exec", handler);
    (void)snprintf(http, sizeof http,
                   "http=pool:exec %s-http --allow-private --url http://127.0.0.1:%s/",
                   tenon_program, port);
    free(port);
    test_sql(fx,
             "SELECT tenon.enqueue('pool', jsonb_build_object('until', '%s'), priority => 9,"
             " max_attempts => 1) FROM generate_series(1, %d)",
             go, INNOCENT);
    add_cases(fx, go);
    struct process *worker = TENON(fx, "worker", "--slots", "4", "--handler", pool_handler,
                                   "--handler", exec, "--handler", http);
    test_await(fx, 4 * READY_MS, wrong, "NOT t.payload ? 'until'");
    await_lines(worker, "event=progress_refused", REFUSED_PROGRESS);
    await_lines(worker, "event=step_refused", REFUSED_STEPS);
    test_await(fx, READY_MS,
               "SELECT count(*) = %d FROM tenon.tasks WHERE payload ? 'until' AND state = 'running'"
               " AND failures = 0 AND crashes = 0",
               INNOCENT + REFUSED_PROGRESS + REFUSED_STEPS);
    int gate = open(go, O_RDWR | O_CLOEXEC); /* lets in those who wait, and any that come later */
    assert_true(gate >= 0);
    test_await(
        fx, READY_MS,
        "SELECT count(*) = %d FROM tenon.tasks WHERE payload ? 'until' AND state = 'done' AND"
        " failures = 0 AND crashes = 0",
        INNOCENT + REFUSED_PROGRESS + REFUSED_STEPS);
    (void)close(gate);
    assert_int_equal(process_lines(worker, "event=round_failed"), 0);
    assert_int_equal(
        test_sql_int(fx,
                     "SELECT count(*) FROM tenon.attempt WHERE error LIKE 'the handler ended%%'"),
        0);
    end_well(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_SERVERS(test_results_that_cannot_be_kept),
                                       WITH_SERVERS(test_no_answer_costs_a_neighbour)};
    return RUN_GROUP(tests);
}
