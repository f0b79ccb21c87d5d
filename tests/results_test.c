/* label: e2e */
/* Results that PostgreSQL cannot store, or could not print: their tasks are done all the same. */
#include "tests/support/working.h"

#include <stdio.h>

enum { READY_MS = 30000 };

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
               "SELECT count(*) = 1 FROM tenon.finished WHERE id = %lld AND outcome = 'done' AND"
               " failures = 0 AND claims = 1 AND result #>> '{}' LIKE '%s'",
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
    ends_with_a_note(fx, "nul", "tenon: the result was not kept: unsupported Unicode escape%%");
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

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_SERVERS(test_results_that_cannot_be_kept)};
    return RUN_GROUP(tests);
}
