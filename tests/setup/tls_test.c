/* label: fault */
/* timeout: 240 */
/* TLS with an authority of our own: which certificates of PostgreSQL and RabbitMQ are accepted, and
 * what is said of those that are not. */
#include "tests/support/broker.h"
#include "tests/support/port.h"
#include "tests/support/process.h"
#include "tests/support/servers.h"

#include "core/base/now.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIMIT_MS = 15000, TRY_MS = 10000 };

/* NAME.pem and NAME.key in the fixture's directory, readable for the servers' users. */
static const char certificates[] =
    "key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'\n"
    "set -e; cd \"$0\"; chmod 755 .; touch index; echo 01 >serial\n"
    "cat >ca.cnf <<'END'\n"
    "[ca]\ndefault_ca = own\n"
    "[own]\ndatabase = index\nserial = serial\nnew_certs_dir = .\ncertificate = ca.pem\n"
    "private_key = ca.key\ndefault_md = sha256\npolicy = any\ncopy_extensions = copy\n"
    "unique_subject = no\n"
    "[any]\ncommonName = optional\n"
    "END\n"
    "openssl req -x509 $key -days 2 -subj /CN=authority -keyout ca.key -out "
    "ca.pem\n"
    "make() { # name, subject's alternative name, from, to\n"
    "  openssl req $key -subj /CN=$1 -addext subjectAltName=$2 -keyout $1.key "
    "-out $1.csr\n"
    "  openssl ca -batch -notext -config ca.cnf -startdate $3 -enddate $4 -in $1.csr -out $1.pem\n"
    "}\n"
    "year=$(date +%Y)\n"
    "make right IP:127.0.0.1 ${year}0101000000Z $((year + 1))0601000000Z\n"
    "make other DNS:other.example ${year}0101000000Z $((year + 1))0601000000Z\n"
    "make here IP:$1 ${year}0101000000Z $((year + 1))0601000000Z\n"
    "make expired IP:127.0.0.1 20200101000000Z 20200102000000Z\n"
    "openssl req -x509 $key -days 2 -subj /CN=own -addext "
    "subjectAltName=IP:127.0.0.1 -keyout own.key -out own.pem\n"
    "chmod 644 *.pem *.key\n";

/* An address of this machine that is no loopback, and so counts as another host's. */
static char here[INET_ADDRSTRLEN] = "192.0.2.1";

static bool find_here(void)
{
    struct ifaddrs *all = NULL;
    bool found = false;
    assert_int_equal(getifaddrs(&all), 0);
    for (struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && !(i->ifa_flags & IFF_LOOPBACK)) {
            struct sockaddr_in at;
            memcpy(&at, i->ifa_addr, sizeof at);
            found = inet_ntop(AF_INET, &at.sin_addr, here, sizeof here) != NULL;
        }
    }
    freeifaddrs(all);
    return found;
}

static void make_certificates(struct fixture *fx)
{
    const char *const argv[] = {"sh", "-c", certificates, fx->dir, here, NULL};
    struct process *p = process_spawn(fx, argv, NULL);
    if (process_wait(p, LIMIT_MS) != 0) {
        fail_msg("%s", file_text(p->log));
    }
}

/* Run it until it ends with this code and says this; a server needs a moment to take a setting. */
static void says(struct fixture *fx, const char *const *args, const char *const *env, int code,
                 const char *text)
{
    for (int64_t until_ms = patience_end_ms(TRY_MS);;) {
        struct process *p = tenon_spawn(fx, args, env);
        int got = process_wait(p, LIMIT_MS);
        char *log = file_text(p->log), *out = file_text(p->out);
        bool ok = got == code && (strstr(log, text) || strstr(out, text));
        if (!ok && now_ms() > until_ms) {
            fail_msg("%s: exit code %d, not %d with \"%s\": %s%s", args[0], got, code, text, log,
                     out);
        }
        free(log);
        free(out);
        if (ok) {
            return;
        }
    }
}

/* --- PostgreSQL --- */

static void use_certificate(struct fixture *fx, const char *name)
{
    test_sql(fx,
             "COPY (SELECT 1) TO PROGRAM 'cat >/dev/null; cp %s/%s.pem %s/%s.key . && chmod 600 "
             "%s.key'",
             fx->dir, name, fx->dir, name, name);
    test_sql(fx, "ALTER SYSTEM SET ssl_cert_file = '%s.pem'", name);
    test_sql(fx, "ALTER SYSTEM SET ssl_key_file = '%s.key'", name);
    test_sql(fx, "ALTER SYSTEM SET ssl = on");
    test_sql(fx, "SELECT pg_reload_conf()");
}

static void database_says(struct fixture *fx, int code, const char *text)
{
    char url[1200];
    (void)snprintf(url, sizeof url, "%s%ssslmode=verify-full&sslrootcert=%s/ca.pem",
                   fx->database_url, strchr(fx->database_url, '?') ? "&" : "?", fx->dir);
    says(fx, (const char *const[]){"status", "--database-url", url, NULL}, NULL, code, text);
}

/* The server takes the setting in its own time. */
static void database_is_encrypted(struct fixture *fx)
{
    char url[1200];
    (void)snprintf(url, sizeof url, "%s%ssslmode=require", fx->database_url,
                   strchr(fx->database_url, '?') ? "&" : "?");
    says(fx, (const char *const[]){"status", "--database-url", url, NULL}, NULL, 0, "schema tenon");
}

static void test_certificates_of_postgresql(void **state)
{
    struct fixture *fx = *state;
    make_certificates(fx);
    database_says(fx, 1, "server does not support SSL");
    use_certificate(fx, "right");
    database_says(fx, 0, "schema tenon");
    use_certificate(fx, "other");
    database_says(fx, 1, "does not match host name");
    use_certificate(fx, "expired");
    database_says(fx, 1, "certificate verify failed"); /* libpq does not say why */
    use_certificate(fx, "own");
    database_says(fx, 1, "certificate verify failed");
}

/* --- what is said of connections to other hosts that somebody may read --- */

static void listen_here(struct fixture *fx)
{
    test_sql(fx,
             "COPY (SELECT 1) TO PROGRAM 'cat >/dev/null; echo host all all %s/32 scram-sha-256 "
             ">>pg_hba.conf'",
             here);
    test_sql(fx, "ALTER SYSTEM SET listen_addresses = '127.0.0.1,%s'", here);
    server_do("restart");
    server_reconnect(fx);
}

/* What a cleaner with this URL says when it starts; NULL = nothing is insecure. */
static void cleaner_says(struct fixture *fx, const char *host, const char *mode, const char *amqp,
                         const char *insecure)
{
    char url[1200], amqp_url[100], text[200];
    const char *at = strchr(fx->database_url, '@'), *port = strrchr(at, ':');
    (void)snprintf(url, sizeof url, "%.*s@%s%s?sslmode=%s&sslrootcert=%s/ca.pem",
                   (int)(at - fx->database_url), fx->database_url, host, port, mode, fx->dir);
    (void)snprintf(amqp_url, sizeof amqp_url, "amqp://%s:1", amqp);
    (void)snprintf(text, sizeof text, "insecure=\"%s\"", insecure ? insecure : "");
    struct process *p = TENON(fx, "cleaner", "--database-url", url, "--amqp-url", amqp_url);
    process_await_line(p, "event=cleaner_started", LIMIT_MS);
    assert_int_equal(process_lines(p, insecure ? text : "insecure="), insecure ? 1 : 0);
    process_kill(p);
}

static void doctor_says(struct fixture *fx, const char *mode, const char *insecure)
{
    char url[1200];
    const char *at = strchr(fx->database_url, '@');
    (void)snprintf(url, sizeof url, "%.*s@%s%s?sslmode=%s", (int)(at - fx->database_url),
                   fx->database_url, here, strrchr(at, ':'), mode);
    says(fx, (const char *const[]){"doctor", "--database-url", url, "--amqp-url", "none", NULL},
         NULL, 1, insecure);
}

static void worker_says(struct fixture *fx, const char *insecure)
{
    char url[1200], text[200];
    const char *at = strchr(fx->database_url, '@');
    (void)snprintf(url, sizeof url, "%.*s@%s%s?sslmode=require", (int)(at - fx->database_url),
                   fx->database_url, here, strrchr(at, ':'));
    (void)snprintf(text, sizeof text, "insecure=\"%s\"", insecure);
    struct process *p = TENON(fx, "worker", "--database-url", url, "--amqp-url", "none",
                              "--handler", "a=true");
    process_await_line(p, "event=worker_ready", LIMIT_MS);
    assert_int_equal(process_lines(p, text), 1);
    process_kill(p);
    says(fx, (const char *const[]){"setup", "--database-url", url, "--amqp-url", "none", NULL},
         NULL, 0, "insecure connections: PostgreSQL not verified");
}

static void test_what_is_insecure_is_told(void **state)
{
    struct fixture *fx = *state;
    if (!find_here()) {
        (void)puts("this machine has no address but loopback");
        skip();
    }
    make_certificates(fx);
    listen_here(fx);
    cleaner_says(fx, "127.0.0.1", "prefer", "localhost", NULL);
    cleaner_says(fx, here, "prefer", here, "PostgreSQL not encrypted, RabbitMQ not encrypted");
    doctor_says(fx, "prefer", "encryption: PostgreSQL not encrypted");
    use_certificate(fx, "here");
    database_is_encrypted(fx);
    cleaner_says(fx, here, "require", "127.0.0.1", "PostgreSQL not verified");
    cleaner_says(fx, here, "verify-ca", "127.0.0.1", "PostgreSQL not verified");
    cleaner_says(fx, here, "verify-full", "mq,localhost", "RabbitMQ not encrypted");
    cleaner_says(fx, here, "verify-full", "127.0.0.1", NULL);
    worker_says(fx, "PostgreSQL not verified");
    doctor_says(fx, "require", "encryption: PostgreSQL not verified");
}

/* --- RabbitMQ --- */

/* A listener of its own for each certificate, as none can be changed. ret: its port */
static int listen_with(struct fixture *fx, const char *name)
{
    int fd, port = port_free(&fd);
    (void)close(fd);
    broker_ctl("eval '{ok, _} = application:ensure_all_started(ssl), "
               "ok = rabbit_networking:start_ssl_listener({\"127.0.0.1\", %d, auto}, "
               "[{cacertfile, \"%s/ca.pem\"}, {certfile, \"%s/%s.pem\"}, {keyfile, \"%s/%s.key\"}],"
               " 1).'",
               port, fx->dir, fx->dir, name, fx->dir, name);
    return port;
}

static void broker_says(struct fixture *fx, const char *scheme, int port, int code,
                        const char *text)
{
    char url[600], ca[300];
    const char *at = strchr(fx->amqp_url, '@');
    (void)snprintf(url, sizeof url, "%s%.*s@127.0.0.1:%d/%s", scheme,
                   (int)(at - strstr(fx->amqp_url, "://")), strstr(fx->amqp_url, "://"), port,
                   strrchr(fx->amqp_url, '/') + 1);
    (void)snprintf(ca, sizeof ca, "SSL_CERT_FILE=%s/ca.pem", fx->dir);
    says(fx, (const char *const[]){"setup", "--amqp-url", url, NULL},
         (const char *const[]){ca, NULL}, code, text);
}

static void test_certificates_of_rabbitmq(void **state)
{
    struct fixture *fx = *state;
    make_certificates(fx);
    broker_says(fx, "amqps", listen_with(fx, "right"), 0, "declared the exchange");
    broker_says(fx, "amqps", listen_with(fx, "other"), 2, "IP address mismatch");
    broker_says(fx, "amqps", listen_with(fx, "expired"), 2, "certificate has expired");
    broker_says(fx, "amqps", listen_with(fx, "own"), 2, "self-signed certificate");
    int plain = (int)strtol(strrchr(strchr(fx->amqp_url, '@'), ':') + 1, NULL, 10);
    broker_says(fx, "amqps", plain, 1, "could not set up RabbitMQ");
    broker_says(fx, "amqp", listen_with(fx, "right"), 1, "could not set up RabbitMQ");
}

static int postgresql_setup(void **state)
{
    server_open("postgres");
    return fixture_setup_database(state);
}

static int close_servers(void **state)
{
    int code = fixture_teardown(state);
    server_close();
    return code;
}

#define WITH_OWN_POSTGRESQL(test)                                                                  \
    cmocka_unit_test_setup_teardown(test, postgresql_setup, close_servers)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVERS(test_certificates_of_rabbitmq),
        WITH_OWN_POSTGRESQL(test_certificates_of_postgresql),
        WITH_OWN_POSTGRESQL(test_what_is_insecure_is_told),
    };
    return RUN_GROUP(tests);
}
