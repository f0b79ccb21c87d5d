#include "tests/support/release.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAYS_LIMIT_MS = 30000 };

static int by_version(const void *a, const void *b)
{
    return strverscmp(a, b);
}

size_t releases_find(char ret[RELEASES_MAX][RELEASE_PATH_BYTES])
{
    char pattern[512];
    glob_t found;
    (void)snprintf(pattern, sizeof pattern, "%s/tests/releases/[0-9]*.sql", repository);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_in_range(found.gl_pathc, 1, RELEASES_MAX);
    size_t n = found.gl_pathc;
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(ret[i], RELEASE_PATH_BYTES, "%s",
                       found.gl_pathv[i] + strlen(repository) + 1);
    }
    globfree(&found);
    qsort(ret, n, RELEASE_PATH_BYTES, by_version);
    return n;
}

void release_restore(struct fixture *fx, const char *path)
{
    test_sql(fx, "SET client_min_messages = warning; DROP SCHEMA tenon CASCADE");
    PGconn *conn = sql_connect(fx->database_url); /* the dump sets what it needs */
    sql_file(conn, path);
    PQfinish(conn);
    test_sql(fx, "SELECT tenon.adopt()");
}

void program_says(struct process *p, int code, const char *part)
{
    int status = process_wait(p, SAYS_LIMIT_MS);
    char *out = file_text(p->out), *log = file_text(p->log);
    if (status != code || !(strstr(out, part) || strstr(log, part))) {
        fail_msg("%s ended with %d and says\n%s%s, not with %d and\n%s", p->name, status, out, log,
                 code, part);
    }
    free(out);
    free(log);
}
