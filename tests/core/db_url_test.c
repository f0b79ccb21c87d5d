/* label: unit */
/* Database URLs that cannot be used. */
#include "core/db/db.h"
#include "tests/support/test.h"

#include <string.h>

/* Forms that other tools write, and passwords that are not encoded: the text says what is wrong,
 * and has nothing of the URL in it that could be the password. */
static void test_urls_of_other_tools(void **state)
{
    (void)state;
    static const struct {
        const char *url, *part;
    } cases[] = {
        {"postgresql+asyncpg://app:Geheim@h/d?ssl=require", "names a driver"},
        {"postgres+psycopg://app:Geheim@h/d", "names a driver"},
        {"jdbc:postgresql://h/d?user=app&password=Geheim", "JDBC"},
        {"\"postgresql://app:Geheim@h/d\"", "quotation marks"},
        {"'postgresql://app:Geheim@h/d'", "quotation marks"},
        {" postgresql://app:Geheim@h/d", "blank or a newline"},
        {"postgresql://app:Geheim@h/d\n", "blank or a newline"},
        {"host=h password=Geheim ", "blank or a newline"},
        {"mysql://app:Geheim@h/d", "scheme"},
        {"POSTGRESQL://app:Geheim@h/d", "scheme"},
        {"postgresql://app:x@Geheim@h/d", "%40"},
        {"postgresql://app:1/Geheim@h/d", "%2F"},
        {"postgresql://app:x/Geheim@h/d", "%2F"},
        {"postgresql://app:Geheim/d", "not a number"},
        {"postgresql://app:%zzGeheim@h/d", "has the form"},
        {"postgresql://app:Geheim@h/d?ssl=require", "write sslmode=require"},
        {"postgresql://app:Geheim@h/d?pgbouncer=true", "remove it"},
        {"postgresql://h/d?password=a&Geheim=1", "libpq's parameters only"},
        {"host=h password=a Geheim", "has the form"},
        {"host=h password=a Geheim=b", "has the form"},
        {"host=app:Geheim@h dbname=d", "host contains"},
        {"dbname=postgresql://app:Geheim@h/d", "dbname is a URL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct db *db = NULL;
        struct fault f = {0};
        char masked[200];
        assert_false(db_open(cases[i].url, DB_PLAIN, "test", &db, &f));
        assert_int_equal(f.code, FAULT_CONFIG);
        assert_contains(f.text, "the database URL cannot be read: ");
        assert_contains(f.text, cases[i].part);
        assert_null(strstr(f.text, "Geheim"));
        db_url_mask(cases[i].url, masked, sizeof masked);
        assert_null(strstr(masked, "Geheim"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_urls_of_other_tools)};
    return RUN_GROUP(tests);
}
