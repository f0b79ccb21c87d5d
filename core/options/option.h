/* Every option of every command: one table gives the flags, the variables, the config file, --help
 * and docs/options.md.
 *
 * A value comes from the command line, else from the environment (TENON_<NAME>, and for the two
 * URLs also DATABASE_URL and AMQP_URL), else from the config file, else from the table. */
#ifndef TENON_CORE_OPTION_H
#define TENON_CORE_OPTION_H

#include "core/base/fault.h"

#include <stdint.h>
#include <stdio.h>

enum command {
    COMMAND_SETUP,
    COMMAND_ENQUEUE,
    COMMAND_WORKER,
    COMMAND_CLEANER,
    COMMAND_STATUS,
    COMMAND_SHOW,
    COMMAND_SCHEDULE,
    COMMAND_LIST,
    COMMAND_RETRY,
    COMMAND_CANCEL,
    COMMAND_DELETE,
    COMMAND_RUN_NOW,
    COMMAND_SET,
    COMMAND_PAUSE,
    COMMAND_RESUME,
    COMMAND_QUEUE,
    COMMAND_KIND,
    COMMAND_AUDIT,
    COMMAND_WHY,
    COMMAND_ADOPT,
    COMMAND_DOCTOR,
    COMMAND_FLOW,
    COMMAND_LIMIT,
    COMMAND_OUTBOX,
    COMMAND_WAIT,
    COMMAND_SIGNAL,
    COMMAND_SCALER,
    COMMAND_CANARY,
    COMMAND_UI,
    COMMAND_DEV,
    COMMAND_HEALTH,
    COMMAND_SYNC,
    COMMAND_INTAKE,
    COMMAND_LOGS,
    COMMAND_DEAD,
    COMMAND_MCP,
    COMMAND_COUNT, /* at most 64 */
};

/* A set of commands: bit n is command n. */
#define COMMANDS_ALL ((UINT64_C(1) << COMMAND_COUNT) - 1)

enum option_id {
    OPTION_CONFIG, /* path of the config file; from the command line or TENON_CONFIG only */
    OPTION_DATABASE_URL,
    OPTION_AMQP_URL,
    OPTION_LOG_LEVEL,  /* the number is enum log_level */
    OPTION_LOG_FORMAT, /* the number is enum log_format */
    OPTION_HELP,
    OPTION_JSON,
    OPTION_DRY_RUN,
    OPTION_GRANT_PRODUCER,
    OPTION_KINDS,
    OPTION_GRANT_READER,
    OPTION_GRANT_OPERATOR,
    OPTION_GRANT_WORKER,
    OPTION_GRANT_CLEANER,
    OPTION_GRANT_PUBLISHER,
    OPTION_GRANT_INTAKE,
    OPTION_EXCHANGES,
    OPTION_QUEUE,
    OPTION_PRIORITY,
    OPTION_RUN_AT,
    OPTION_DELAY,
    OPTION_UNIQUE_KEY,
    OPTION_ON_CONFLICT,
    OPTION_UNIQUE_FOR,
    OPTION_DEBOUNCE,
    OPTION_DEBOUNCE_MAX,
    OPTION_START_BEFORE,
    OPTION_MAX_ATTEMPTS,
    OPTION_TIMEOUT,
    OPTION_RETRY,
    OPTION_TRACE,
    OPTION_FLOW,
    OPTION_DEPENDS_ON,
    OPTION_ON_PARENT_DEAD,
    OPTION_TAGS,
    OPTION_LIMIT_KEYS,
    OPTION_QUEUES,
    OPTION_HANDLERS,
    OPTION_HANDLER,
    OPTION_SLOTS,
    OPTION_PRESENCE_URL,
    OPTION_PASS_ENV,
    OPTION_START_LIMIT,
    OPTION_USER,
    OPTION_DRAIN_LIMIT,
    OPTION_RELEASE,
    OPTION_UNTIL_EMPTY,
    OPTION_STDERR,
    OPTION_LOG_STDERR,
    OPTION_RUN_ONE,
    OPTION_WITH_CLEANER,
    OPTION_CLEANER_HTTP,
    OPTION_ONCE,
    OPTION_CRON,
    OPTION_EVERY,
    OPTION_ZONE,
    OPTION_CATCH_UP,
    OPTION_OVERLAP,
    OPTION_HOW_MANY,
    OPTION_STATE,
    OPTION_EXCHANGE,
    OPTION_SINCE,
    OPTION_KIND,
    OPTION_ERROR,
    OPTION_OLDER_THAN,
    OPTION_LIMIT_KEY,
    OPTION_TAG,
    OPTION_PAYLOAD,
    OPTION_LIMIT,
    OPTION_CURSOR,
    OPTION_OLDEST,
    OPTION_YES,
    OPTION_RATE,
    OPTION_WHY,
    OPTION_FROM_STEP,
    OPTION_UNDO,
    OPTION_ALL,
    OPTION_TIMEOUT_MIN,
    OPTION_ON_TIMEOUT,
    OPTION_MAX_CRASHES,
    OPTION_ON_DEAD,
    OPTION_HISTORY_KEEP,
    OPTION_DEAD_KEEP,
    OPTION_UNSET,
    OPTION_WATCH,
    OPTION_FOLLOW,
    OPTION_LEVEL, /* the number is enum log_level */
    OPTION_MAX_RUNNING,
    OPTION_MAX_STARTS,
    OPTION_STRICT,
    OPTION_WHEN_DEAD,
    OPTION_FAIR,
    OPTION_WEIGHT,
    OPTION_UNTIL,
    OPTION_LATENCY,
    OPTION_MIN,
    OPTION_MAX,
    OPTION_DOWN_AFTER,
    OPTION_EXEC,
    OPTION_LISTEN,
    OPTION_TOKEN_FILE,
    OPTION_PASSWORD_FILE,
    OPTION_USER_HEADER,
    OPTION_TRUSTED_PROXY,
    OPTION_OPERATORS,
    OPTION_HOSTS,
    OPTION_READ_ONLY,
    OPTION_ALLOW_ACTS,
    OPTION_HTTP,
    OPTION_LIVE,
    OPTION_OTLP_URL,
    OPTION_FROM,
    OPTION_FROM_STREAM,
    OPTION_OFFSET,
    OPTION_KIND_FROM,
    OPTION_ALLOW_KINDS,
    OPTION_KEY_FROM,
    OPTION_ENVELOPE,
    OPTION_ON_INVALID, /* the number is enum on_invalid */
    OPTION_PREFETCH,
    OPTION_COUNT
};

enum option_type {
    OPTION_TYPE_TEXT,
    OPTION_TYPE_INT,      /* with the default "auto", that word is core/base/processors.h */
    OPTION_TYPE_DURATION, /* "250ms", "25s", "10min", "1h", "7d"; kept in milliseconds */
    OPTION_TYPE_FLAG,
    OPTION_TYPE_LIST,  /* a,b,c */
    OPTION_TYPE_EACH,  /* may be given many times */
    OPTION_TYPE_CHOICE /* one of `choices`, separated by spaces; the number says which, from 0 */
};

struct option_row {
    const char *name; /* without the dashes */
    char letter;      /* 0 = none */
    enum option_type type;
    uint64_t commands; /* which commands take it */
    uint64_t required; /* and which refuse to start without it */
    const char *arg;   /* what --help calls the value; NULL of a FLAG */
    const char *def;   /* in the form a user would type; NULL = none */
    int64_t min, max;  /* of INT and DURATION (milliseconds) */
    const char *choices;
    const char *env;                /* a second variable beside TENON_<NAME>, NULL = none */
    bool secret;                    /* its value is never printed */
    bool typed;                     /* only the command line may give it ... */
    uint64_t untyped;               /* ... except to these commands */
    bool (*fits)(const char *text); /* of TEXT, and of an item of LIST and EACH; NULL = anything */
    const char *allowed;            /* what that is, in words */
    const char *text;               /* what it does, in Markdown */
};

/* What an option does in some of its commands, where the row's text does not fit them. */
struct option_use {
    enum option_id id;
    uint64_t commands;
    const char *text;
};

extern const struct option_row option_rows[OPTION_COUNT]; /* by enum option_id */
extern const struct option_use option_uses[];
extern const size_t option_uses_n;

struct options; /* the values of one run */

/* "worker" */
const char *command_word(enum command command);

/* Does the command take the option? And from a variable or a file, too? */
bool option_is_of(const struct option_row *row, enum command command);
bool option_is_kept(const struct option_row *row, enum command command);

/* Read the command line of `command`, the environment and the config file. An empty variable counts
 * as not given. With --help the rest is not looked at, and options_read() returns true.
 *   argv    argv[0] is the command's name; the arguments are moved to its front
 *   false   CONFIG: an unknown option, a value that is not allowed (which, and what is), a config
 *           file that cannot be read (file and line), a required option that is missing; MEMORY */
MUST_CHECK bool options_read(enum command command, int argc, char **argv, struct options **ret,
                             struct fault *f);
void options_free(struct options *o);

enum command options_command(const struct options *o);

/* The text of a value as it was typed, NULL = not given and no default. The number of INT, DURATION
 * (milliseconds) and CHOICE, 0 = not given. */
const char *option_text(const struct options *o, enum option_id id);
int64_t option_int(const struct options *o, enum option_id id);
bool option_flag(const struct options *o, enum option_id id);
bool option_is_given(const struct options *o, enum option_id id); /* not by default */
bool option_is_typed(const struct options *o, enum option_id id); /* on the command line */
bool option_took_env(const struct options *o, enum option_id id); /* of the row's `env` */

/* LIST and EACH. In the environment EACH has one value per line. */
size_t option_items(const struct options *o, enum option_id id);
const char *option_item(const struct options *o, enum option_id id, size_t i);

/* The words of the command line that are not options. */
size_t options_args(const struct options *o);
const char *options_arg(const struct options *o, size_t i);

/* Parse "25s" into milliseconds: a whole number and one of ms, s, min, h, d. */
MUST_CHECK bool duration_parse(const char *text, int64_t *ret_ms);

/* The row of an option's name, without the dashes; or NULL. */
const struct option_row *option_find(const char *name, size_t bytes);

/* "TENON_LOG_LEVEL" */
void option_variable(const struct option_row *row, char *text, size_t size);

struct buf;

/* What an option does in a command: the text of its use there, else of its row. */
const char *option_text_for(const struct option_row *row, enum command command);

/* What an option does in all of its commands, what is allowed and the default; and the words of a
 * set of commands, "setup, worker", or "all". Both are appended to `b`. */
void option_describe(const struct option_row *row, struct buf *b);
void option_commands(uint64_t commands, struct buf *b);

/* The options of a command as --help prints them: its own first, then those that all commands have;
 * and all options as docs/options.md. Values are never shown, only defaults. */
void options_help(FILE *out, enum command command);
void options_markdown(FILE *out);

#endif
