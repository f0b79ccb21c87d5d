/* label: unit */
/* timeout: 120 */
/* only: all */
/* The fuzzers' targets without libFuzzer: every file of the corpora, and seeded mutations of them.
 * TEST_SEED replays a run, TEST_FUZZ says how many mutations; what a target was given when it
 * ended the process is written to crash-<target>. */
#include "tests/fuzz/fuzz.h"
#include "tests/support/test.h"

#include "core/base/now.h"
#include "core/options/option.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

enum { FILES_MAX = 200, INPUT_BYTES_MAX = 4096, MUTATIONS = 4000 };

struct input {
    size_t size;
    uint8_t data[INPUT_BYTES_MAX];
};

static struct input files[FILES_MAX], given;
static size_t n_files;
static uint64_t random_state;
static const char *target_name;

static const struct target {
    const char *name;
    int (*call)(const uint8_t *data, size_t size);
} targets[] = {{"delivery", fuzz_delivery}, {"line", fuzz_line},         {"exec", fuzz_exec},
               {"config", fuzz_config},     {"handlers", fuzz_handlers}, {"url", fuzz_url},
               {"value", fuzz_value},       {"text", fuzz_text}};

/* --- a failure keeps its input --------------------------------------------------------------- */

static void keep_input(void)
{
    char path[64];
    (void)snprintf(path, sizeof path, "crash-%s", target_name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    (void)!write(fd, given.data, given.size);
    (void)close(fd);
    print_error("the input is in %s\n", path);
}

static void on_abort(int signal_number)
{
    keep_input();
    (void)signal(signal_number, SIG_DFL);
    (void)raise(signal_number);
}

static void keep_at_death(void)
{
    (void)signal(SIGABRT, on_abort);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_set_death_callback(keep_input);
#else
    (void)signal(SIGSEGV, on_abort);
#endif
}

/* --- mutations ------------------------------------------------------------------------------- */

/* xorshift64*, http://vigna.di.unimi.it/ftp/papers/xorshift.pdf */
static size_t random_below(size_t n)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return n > 0 ? (size_t)((random_state * 0x2545F4914F6CDD1D) >> 33) % n : 0;
}

/* Replace `cut` bytes at `at` by these. */
static void input_splice(struct input *in, size_t at, size_t cut, const void *data, size_t size)
{
    if (at + cut > in->size || in->size - cut + size > INPUT_BYTES_MAX) {
        return;
    }
    memmove(in->data + at + size, in->data + at + cut, in->size - at - cut);
    memcpy(in->data + at, data, size);
    in->size += size - cut;
}

static void mutate(struct input *in)
{
    static const char *const words[] = {"\"",      "\\",      "{",
                                        "}",       "=",       ",",
                                        "0",       "-1",      "9223372036854775808",
                                        "1e999",   "%",       "${x}",
                                        "\n",      "\\u0000", "\\ud800",
                                        "\xff",    "\xc3",    "#",
                                        "/*",      "null",    "pool:",
                                        "amqp://", "://",     "@"};
    struct input other = files[random_below(n_files)];
    size_t at = random_below(in->size + 1), len = random_below(8) + 1;
    uint8_t byte = (uint8_t)random_below(256);
    const char *word = words[random_below(sizeof words / sizeof *words)];
    switch (random_below(6)) {
    case 0:
        input_splice(in, at, 1, &byte, 1);
        break;
    case 1:
        input_splice(in, at, 0, &byte, 1);
        break;
    case 2:
        input_splice(in, at, len, "", 0);
        break;
    case 3:
        input_splice(in, at, 0, word, strlen(word));
        break;
    case 4:
        input_splice(in, at, 0, other.data, other.size);
        break;
    default:
        if (at + len <= in->size) { /* a part again */
            memcpy(other.data, in->data + at, len);
            input_splice(in, random_below(in->size), 0, other.data, len);
        }
    }
}

/* --- the corpora ----------------------------------------------------------------------------- */

static void file_read(const char *dir, const char *name)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "rbe");
    if (!file || n_files == FILES_MAX) {
        fail_msg("%s cannot be read, or is one too many", path);
    }
    struct input *in = &files[n_files++];
    in->size = fread(in->data, 1, sizeof in->data, file);
    (void)fclose(file);
}

static void corpus_read(const char *name)
{
    char path[512];
    n_files = 0;
    (void)snprintf(path, sizeof path, "%s/%s", FUZZ_CORPUS, name);
    DIR *dir = opendir(path);
    if (!dir) {
        fail_msg("there is no %s", path);
    }
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] != '.') {
            file_read(path, entry->d_name);
        }
    }
    (void)closedir(dir);
    assert_true(n_files >= 3);
}

static void give(const struct target *t, const struct input *in)
{
    /* of its own size, so that AddressSanitizer sees a read behind its end */
    uint8_t *copy = malloc(in->size + !in->size);
    memcpy(copy, in->data, in->size);
    given = *in;
    (void)t->call(copy, in->size);
    free(copy);
}

static long number_of(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

static void run_target(const struct target *t, long seed, long mutations)
{
    target_name = t->name;
    corpus_read(t->name);
    for (size_t i = 0; i < n_files; i++) {
        give(t, &files[i]);
    }
    random_state = (uint64_t)seed + 1;
    for (long i = 0; i < mutations; i++) {
        struct input in = files[random_below(n_files)];
        for (size_t n = random_below(6) + 1; n > 0; n--) {
            mutate(&in);
        }
        give(t, &in);
    }
}

static void test_corpora_and_mutations(void **state)
{
    (void)state;
    long seed = number_of("TEST_SEED", (long)(now_us() % 1000000));
    long mutations = number_of("TEST_FUZZ", MUTATIONS);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char name[64];
        option_variable(&option_rows[i], name, sizeof name);
        (void)unsetenv(name);
    }
    keep_at_death();
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        int64_t begin_ms = now_ms();
        print_message("%s: TEST_SEED=%ld\n", targets[i].name, seed);
        run_target(&targets[i], seed, mutations);
        print_message("%s: %zu files and %ld mutations, %lld ms\n", targets[i].name, n_files,
                      mutations, (long long)(now_ms() - begin_ms));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpora_and_mutations)};
    return RUN_GROUP(tests);
}
