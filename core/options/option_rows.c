#include "core/options/option_value.h"

#define IN(COMMAND) (UINT64_C(1) << COMMAND_##COMMAND)
#define SERVERS (IN(ENQUEUE) | IN(WORKER) | IN(CLEANER) | IN(INTAKE)) /* need a broker */
#define TASKS (IN(ENQUEUE) | IN(SCHEDULE))                            /* describe a new task */
#define ACTS (IN(RETRY) | IN(CANCEL) | IN(DELETE) | IN(RUN_NOW) | IN(SET))
#define FILTERS (IN(LIST) | ACTS)
#define PAUSES (IN(PAUSE) | IN(RESUME))
#define DEFAULTS (IN(QUEUE) | IN(KIND))
#define LISTS                                                                                      \
    (IN(DEAD) | IN(SETUP) | IN(STATUS) | IN(SHOW) | IN(WHY) | IN(SCHEDULE) | FILTERS | DEFAULTS |  \
     IN(AUDIT) | IN(DOCTOR) | IN(FLOW) | IN(LIMIT) | IN(OUTBOX) | IN(CANARY) | IN(SYNC) |          \
     IN(LOGS))

enum { DAY_MS = 86400000 };

/* What every option has; what only some have follows by name. */
#define OPTION(ID, NAME, COMMANDS, ARG, TEXT, ...)                                                 \
    [OPTION_##ID] = {.name = NAME, .commands = COMMANDS, .arg = ARG, .text = TEXT, __VA_ARGS__}

const struct option_row option_rows[OPTION_COUNT] = {
    OPTION(CONFIG, "config", COMMANDS_ALL, "FILE", "Read options from this config file.",
           .letter = 'c'),
    OPTION(DATABASE_URL, "database-url", COMMANDS_ALL, "URL",
           "The PostgreSQL database. Parts that the URL omits come from libpq's variables "
           "(PGHOST, PGDATABASE ...). A password on the command line is visible in `ps`.",
           .env = "DATABASE_URL", .secret = true,
           .required = COMMANDS_ALL & ~(IN(DEV) | IN(HEALTH)),
           .allowed = "a libpq URL or keyword string, such as postgresql://app@db.example/app?"
                      "sslmode=verify-full"),
    OPTION(AMQP_URL, "amqp-url", SERVERS | IN(SETUP) | IN(DOCTOR) | IN(DEV), "URL",
           "The RabbitMQ broker. The hosts of a cluster are separated by commas, "
           "`amqp://user:word@a:5672,b:5672/vhost`, and are tried in this order. With `none`, "
           "tenon works without RabbitMQ: the cleaner wakes workers by NOTIFY. Tasks then start "
           "within milliseconds too, and a backlog is drained at least as fast; this suits a "
           "small number of producers and workers. A password on the command line is visible in "
           "`ps`.",
           .env = "AMQP_URL", .secret = true, .required = SERVERS, .fits = fits_amqp_url,
           .allowed = "an amqp:// or amqps:// URL, or none"),
    OPTION(LOG_LEVEL, "log-level", COMMANDS_ALL, "LEVEL",
           "Log events of this level and of the more severe ones.", .type = OPTION_TYPE_CHOICE,
           .choices = "error warning info debug", .def = "info"),
    OPTION(LOG_FORMAT, "log-format", COMMANDS_ALL, "FORMAT",
           "The format of log lines, which are written to stderr.", .type = OPTION_TYPE_CHOICE,
           .choices = "logfmt json", .def = "logfmt"),
    OPTION(HELP, "help", COMMANDS_ALL, NULL, "Show this help.", .letter = 'h',
           .type = OPTION_TYPE_FLAG, .typed = true),
    OPTION(JSON, "json", LISTS, NULL, "Print one JSON object.", .type = OPTION_TYPE_FLAG),
    OPTION(DRY_RUN, "dry-run", IN(SETUP) | IN(SCHEDULE) | IN(SYNC) | IN(OUTBOX) | ACTS, NULL,
           "Print how many tasks match, and the first three; change nothing.",
           .type = OPTION_TYPE_FLAG),
    OPTION(GRANT_PRODUCER, "grant-producer", IN(SETUP), "ROLE",
           "Let this role enqueue and cancel tasks, wait for their results, send signals, and "
           "finish or extend the tasks that it runs and record their steps and progress, but "
           "nothing else. With `--queues` or `--kinds`, it may enqueue only to those."),
    OPTION(KINDS, "kinds", IN(SETUP), "KIND,...",
           "The only kinds that the role of `--grant-producer` may enqueue; by default all.",
           .type = OPTION_TYPE_LIST, .fits = fits_kind, .allowed = KIND_ALLOWED),
    OPTION(GRANT_READER, "grant-reader", IN(SETUP), "ROLE",
           "Let this role read everything, which `tenon status`, `tenon list` and `tenon show` "
           "need."),
    OPTION(GRANT_OPERATOR, "grant-operator", IN(SETUP), "ROLE",
           "Let this role read everything, change queues, kinds and settings, enqueue, pause and "
           "resume, and cancel, retry, change and delete any task."),
    OPTION(GRANT_WORKER, "grant-worker", IN(SETUP), "ROLE",
           "Let this role do what `tenon worker` does, and nothing else."),
    OPTION(GRANT_CLEANER, "grant-cleaner", IN(SETUP), "ROLE",
           "Let this role do what `tenon cleaner` does, and nothing else."),
    OPTION(GRANT_PUBLISHER, "grant-publisher", IN(SETUP), "ROLE",
           "Let this role publish messages with `tenon.publish`, and nothing else. With "
           "`--exchanges`, it may publish only to those."),
    OPTION(GRANT_INTAKE, "grant-intake", IN(SETUP), "ROLE",
           "Let this role do what `tenon intake` does, and nothing else."),
    OPTION(EXCHANGES, "exchanges", IN(SETUP), "EXCHANGE,...",
           "The only exchanges that the role of `--grant-publisher` may publish to; by default "
           "all.",
           .type = OPTION_TYPE_LIST),
    OPTION(QUEUE, "queue", TASKS | FILTERS | IN(KIND) | IN(CANARY) | IN(INTAKE), "QUEUE",
           "Only tasks of this queue.", .letter = 'q', .fits = fits_queue,
           .allowed = QUEUE_ALLOWED),
    OPTION(PRIORITY, "priority", TASKS | IN(SET) | DEFAULTS | IN(INTAKE), "N",
           "The priority; a higher one runs first. By default that of the kind or queue, else 4.",
           .letter = 'p', .type = OPTION_TYPE_INT, .max = 9),
    OPTION(RUN_AT, "run-at", IN(ENQUEUE) | IN(SET), "TIME",
           "Start at this time, at most 10 years ahead, such as `2030-01-31 08:00+01`. Any form "
           "that PostgreSQL reads will do; without a zone it is UTC."),
    OPTION(DELAY, "delay", IN(ENQUEUE), "TIME", "Start after this time has passed.",
           .type = OPTION_TYPE_DURATION, .max = (int64_t)3650 * DAY_MS),
    OPTION(UNIQUE_KEY, "unique-key", IN(ENQUEUE) | FILTERS, "KEY",
           "Only tasks with this unique key.", .typed = true),
    OPTION(ON_CONFLICT, "on-conflict", IN(ENQUEUE), "keep|replace|merge",
           "When a task with this unique key waits to start: `keep` it unchanged, which is the "
           "default, `replace` its payload and times, or `merge` the payloads."),
    OPTION(UNIQUE_FOR, "unique-for", IN(ENQUEUE), "TIME",
           "Reserve the unique key for this long, even after the task has ended.",
           .type = OPTION_TYPE_DURATION, .min = 1, .max = (int64_t)365 * DAY_MS),
    OPTION(DEBOUNCE, "debounce", IN(ENQUEUE), "TIME",
           "Start when this time has passed without another enqueue under the unique key. The "
           "last payload counts.",
           .type = OPTION_TYPE_DURATION, .min = 1, .max = (int64_t)30 * DAY_MS),
    OPTION(DEBOUNCE_MAX, "debounce-max", IN(ENQUEUE), "TIME",
           "With `--debounce`: start at the latest this long after the first enqueue.",
           .type = OPTION_TYPE_DURATION, .min = 1, .max = (int64_t)365 * DAY_MS),
    OPTION(START_BEFORE, "start-before", IN(ENQUEUE), "TIME",
           "The task expires if it has not started by this time, given as in `--run-at`."),
    OPTION(MAX_ATTEMPTS, "max-attempts", TASKS | DEFAULTS, "N",
           "The number of failures that makes the task dead; by default that of the kind or "
           "queue, else 25.",
           .type = OPTION_TYPE_INT, .min = 1, .max = 1000),
    OPTION(TIMEOUT, "timeout", TASKS | DEFAULTS | IN(WAIT) | IN(CANARY), "TIME",
           "The time limit of one run; by default that of the kind or queue, else 1h.",
           .type = OPTION_TYPE_DURATION, .min = 1, .max = (int64_t)30 * DAY_MS),
    OPTION(RETRY, "retry", IN(ENQUEUE) | DEFAULTS, "POLICY",
           "The delay before a retry: `polynomial`, `polynomial(1 day, 10 %)` with the longest "
           "delay and the random addition, or `exponential(10 s, 1 h, 10 %)`, `linear(...)` or "
           "`constant(...)` with the first delay in front. By default the policy of the kind or "
           "queue, else `polynomial`."),
    OPTION(
        TRACE, "trace", IN(ENQUEUE), "TRACEPARENT", "The trace that the handler continues.",
        .fits = fits_trace,
        .allowed =
            "a W3C traceparent: 2, 32, 16 and 2 hexadecimal digits in lower case, with - between"),
    OPTION(FLOW, "flow", IN(ENQUEUE) | FILTERS, "ID", "Only tasks of this flow.",
           .type = OPTION_TYPE_INT, .typed = true, .min = 1, .max = 999999999999999999),
    OPTION(DEPENDS_ON, "depends-on", IN(ENQUEUE), "ID,...",
           "With `--flow`: the tasks of flows that it waits for.", .type = OPTION_TYPE_LIST,
           .typed = true, .fits = fits_id, .allowed = "a task's number, at most 18 digits"),
    OPTION(ON_PARENT_DEAD, "on-parent-dead", IN(ENQUEUE), "ACTION",
           "With `--depends-on`, when one of those tasks is dead, cancelled or expired: `wait` "
           "until that task is retried and done, which is the default, `run` nevertheless, or "
           "`cancel` this task.",
           .type = OPTION_TYPE_CHOICE, .typed = true, .choices = "wait run cancel"),
    OPTION(TAGS, "tags", IN(ENQUEUE), "TAG,...",
           "Up to 10 tags of 1 to 100 characters, by which the task is found.",
           .type = OPTION_TYPE_LIST, .typed = true),
    OPTION(LIMIT_KEYS, "limit-keys", IN(ENQUEUE) | IN(KIND), "KEY,...",
           "1 to 4 keys, such as `tenant:42`. The limits of these keys apply to the task.",
           .type = OPTION_TYPE_LIST, .typed = true),
    OPTION(QUEUES, "queues", IN(WORKER) | IN(DEV) | IN(SETUP) | IN(SCALER), "QUEUE,...",
           "The queues to serve.", .letter = 'Q', .type = OPTION_TYPE_LIST, .def = "default",
           .fits = fits_queue, .allowed = QUEUE_ALLOWED),
    OPTION(HANDLERS, "handlers", IN(WORKER) | IN(DEV), "FILE",
           "The file that assigns a program to each kind."),
    OPTION(HANDLER, "handler", IN(WORKER) | IN(DEV), "KIND=COMMAND",
           "A program that handles one kind. It is started for each task; after `pool:`, it "
           "keeps running and reads tasks from its stdin. Give the option once for each kind; "
           "in the variable, one handler per line.",
           .type = OPTION_TYPE_EACH, .fits = fits_handler,
           .allowed = "KIND=COMMAND, where KIND is * or " KIND_ALLOWED),
    OPTION(SLOTS, "slots", IN(WORKER) | IN(DEV) | IN(SCALER), "N",
           "How many handler processes run at once, over all kinds.", .type = OPTION_TYPE_INT,
           .def = "auto", .min = 1, .max = 1000),
    OPTION(PRESENCE_URL, "presence-url", IN(WORKER), "URL",
           "A direct connection to the same database, if the database URL leads through a pooler; "
           "by default the database URL.",
           .secret = true),
    OPTION(PASS_ENV, "pass-env", IN(WORKER) | IN(DEV), "NAME,...",
           "Variables that handlers inherit although the worker connects with them: "
           "`DATABASE_URL` or `AMQP_URL`, if the worker's own URL came from it, and names that "
           "begin with `PG`.",
           .type = OPTION_TYPE_LIST, .fits = fits_variable, .allowed = VARIABLE_ALLOWED),
    OPTION(START_LIMIT, "start-limit", IN(WORKER) | IN(DEV), "TIME",
           "How long a process of a pool handler may take to say hello. `start_limit` in the "
           "handlers file overrides it for one handler.",
           .type = OPTION_TYPE_DURATION, .def = "60s", .min = 1000, .max = 3600000),
    OPTION(USER, "user", IN(WORKER) | IN(DEV), "NAME",
           "If the worker runs as root: the user that runs handlers without a `user` of their own "
           "in the handlers file."),
    OPTION(DRAIN_LIMIT, "drain-limit", IN(WORKER) | IN(DEV), "TIME",
           "How long running tasks may continue after SIGTERM. Tasks that are still running then "
           "are stopped and released without counting as failed.",
           .type = OPTION_TYPE_DURATION, .def = "25s", .max = DAY_MS),
    OPTION(RELEASE, "release", IN(WORKER), "NAME",
           "The release of your code that the handlers are from, such as a commit. `tenon.worker` "
           "and `tenon ui` show it, and the graphs mark when a release first ran. The first 100 "
           "characters count."),
    OPTION(UNTIL_EMPTY, "until-empty", IN(WORKER), NULL,
           "Exit when no task of these queues and kinds is ready or running.",
           .type = OPTION_TYPE_FLAG),
    OPTION(STDERR, "stderr", IN(WORKER), NULL,
           "Pass the handlers' stderr on to the worker's stderr. Failures are then stored without "
           "the last lines of it.",
           .type = OPTION_TYPE_FLAG),
    OPTION(LOG_STDERR, "log-stderr", IN(WORKER), NULL,
           "Log each line that handlers write to stderr, with the id of the task, as `tenon dev` "
           "does. `--stderr` has no effect then.",
           .type = OPTION_TYPE_FLAG),
    OPTION(RUN_ONE, "run-one", IN(WORKER), "KIND",
           "Run the handler of this kind once, with the payload from the file that is given as "
           "argument. No server is needed.",
           .fits = fits_kind, .allowed = KIND_ALLOWED),
    OPTION(WITH_CLEANER, "with-cleaner", IN(WORKER), NULL,
           "Also run a cleaner, in a process beside the worker, which ends with it.",
           .type = OPTION_TYPE_FLAG),
    OPTION(CLEANER_HTTP, "cleaner-http", IN(WORKER), "ADDRESS",
           "With `--with-cleaner`: serve the cleaner's metrics and probes here.",
           .fits = fits_address, .allowed = ADDRESS_ALLOWED),
    OPTION(ONCE, "once", IN(CLEANER) | IN(SCALER), NULL,
           "Do every chore once and exit, for use in cron.", .type = OPTION_TYPE_FLAG),
    OPTION(CRON, "cron", IN(SCHEDULE), "EXPR",
           "When it ticks: minute, hour, day of month, month and day of week, such as `30 3 * * "
           "mon-fri`, or a name such as `@daily`."),
    OPTION(EVERY, "every", IN(SCHEDULE), "TIME",
           "Instead of `--cron`: tick at this interval, for the first time after one interval.",
           .type = OPTION_TYPE_DURATION, .min = 1000, .max = (int64_t)366 * DAY_MS),
    OPTION(ZONE, "zone", IN(SCHEDULE), "ZONE",
           "The time zone of the cron expression, such as `Europe/Berlin`.", .def = "UTC"),
    OPTION(CATCH_UP, "catch-up", IN(SCHEDULE), "TICKS",
           "Which missed ticks get a task, when no cleaner ran for more than a minute.",
           .type = OPTION_TYPE_CHOICE, .choices = "none last all", .def = "last"),
    OPTION(OVERLAP, "overlap", IN(SCHEDULE), "ACTION",
           "When it ticks before the previous task has ended: `allow` another task, or `skip` the "
           "tick.",
           .type = OPTION_TYPE_CHOICE, .choices = "allow skip", .def = "allow"),
    OPTION(HOW_MANY, "count", IN(SCHEDULE), "N", "How many ticks `next` prints.",
           .type = OPTION_TYPE_INT, .def = "10", .min = 1, .max = 1000),
    OPTION(STATE, "state", FILTERS | IN(OUTBOX), "STATE,...", "Only tasks in one of these states.",
           .type = OPTION_TYPE_LIST, .typed = true, .fits = fits_kind,
           .allowed =
               "a state: blocked, scheduled, ready, running, retrying, done, cancelled, expired or "
               "dead"),
    OPTION(EXCHANGE, "exchange", IN(OUTBOX), "NAME",
           "Only messages of this exchange; `(default)` is the default exchange. With `retry` and "
           "`delete`: all that were refused.",
           .typed = true),
    OPTION(SINCE, "since", IN(OUTBOX), "TIME",
           "With `replay`: publish messages again that were sent at this time or later, in any "
           "form that PostgreSQL reads.",
           .typed = true),
    OPTION(KIND, "kind", FILTERS | PAUSES | IN(SCHEDULE) | IN(CANARY) | IN(INTAKE), "KIND",
           "Only tasks of this kind.", .letter = 'k', .typed = true, .untyped = IN(INTAKE),
           .fits = fits_kind, .allowed = KIND_ALLOWED),
    OPTION(ERROR, "error", FILTERS, "CLASS",
           "Only tasks whose last error is of this class. The handler names the class; otherwise "
           "it is the exception in the error, how the process ended, or the error's first word.",
           .typed = true),
    OPTION(OLDER_THAN, "older-than", FILTERS, "TIME",
           "Only tasks that ended at least this long ago or, if they have not ended, were enqueued "
           "at least this long ago.",
           .type = OPTION_TYPE_DURATION, .typed = true, .max = (int64_t)3650 * DAY_MS),
    OPTION(LIMIT_KEY, "limit-key", FILTERS, "KEY",
           "Only tasks with this key in their `limit_keys`.", .typed = true),
    OPTION(TAG, "tag", FILTERS, "TAG", "Only tasks with this tag.", .typed = true),
    OPTION(PAYLOAD, "payload", FILTERS | IN(SCHEDULE) | IN(SIGNAL), "PATH|JSON",
           "Only tasks whose payload matches this SQL/JSON path predicate, such as `$.to == "
           "\"ann@example.com\"`.",
           .typed = true),
    OPTION(LIMIT, "limit", IN(LIST) | IN(AUDIT) | IN(FLOW) | IN(OUTBOX), "N",
           "Print at most this many rows.", .type = OPTION_TYPE_INT, .def = "50", .min = 1,
           .max = 10000),
    OPTION(CURSOR, "cursor", IN(LIST) | IN(AUDIT) | IN(FLOW) | IN(OUTBOX), "ID",
           "Print the next page, which begins after this number; each page prints the cursor of "
           "the next one.",
           .type = OPTION_TYPE_INT, .typed = true, .min = 1, .max = 999999999999999999),
    OPTION(OLDEST, "oldest", IN(LIST), NULL, "List the oldest tasks first.",
           .type = OPTION_TYPE_FLAG, .typed = true),
    OPTION(YES, "yes", ACTS | IN(ADOPT) | IN(OUTBOX), NULL, "Do not ask for confirmation.",
           .letter = 'y', .type = OPTION_TYPE_FLAG, .typed = true),
    OPTION(RATE, "rate", ACTS, "N/s",
           "Change at most this many tasks per second; by default without a limit.", .typed = true,
           .fits = fits_rate, .allowed = "a whole number from 1 to 99999 and /s, such as 100/s"),
    OPTION(WHY, "why", ACTS | PAUSES | IN(LIMIT) | IN(SCHEDULE), "TEXT",
           "The reason, which `tenon audit` shows.", .typed = true),
    OPTION(FROM_STEP, "from-step", IN(RETRY), "NAME",
           "Forget this step and those recorded after it, and keep those recorded before it.",
           .typed = true),
    OPTION(UNDO, "undo", IN(RETRY), NULL,
           "Undo a retry: the tasks that no worker has claimed since are dead again.",
           .type = OPTION_TYPE_FLAG, .typed = true),
    OPTION(ALL, "all", PAUSES, NULL,
           "Every queue and kind, including those that tenon does not know yet.",
           .type = OPTION_TYPE_FLAG, .typed = true),
    OPTION(TIMEOUT_MIN, "timeout-min", IN(KIND), "TIME",
           "The minimum timeout: a task of the kind with a shorter one is refused.",
           .type = OPTION_TYPE_DURATION, .typed = true, .min = 1, .max = (int64_t)30 * DAY_MS),
    OPTION(ON_TIMEOUT, "on-timeout", IN(KIND), "ACTION",
           "When a run reaches its timeout: `retry` the task as after a failure, or make it "
           "`dead`.",
           .type = OPTION_TYPE_CHOICE, .typed = true, .choices = "retry dead"),
    OPTION(MAX_CRASHES, "max-crashes", IN(KIND) | IN(SET), "N",
           "The number of crashes in a row that makes the task dead; a step or progress restarts "
           "the count. By default that of the kind, else 3. Before the last one the task runs "
           "alone.",
           .type = OPTION_TYPE_INT, .typed = true, .min = 2, .max = 100),
    OPTION(ON_DEAD, "on-dead", IN(KIND), "KIND",
           "When a task of this kind dies, enqueue a task of the kind given here.", .typed = true,
           .fits = fits_kind, .allowed = KIND_ALLOWED),
    OPTION(HISTORY_KEEP, "history-keep", IN(KIND), "TIME",
           "How long ended tasks of the kind stay in the history; by default as long as all "
           "others.",
           .type = OPTION_TYPE_DURATION, .typed = true, .min = DAY_MS / 24,
           .max = (int64_t)365000 * DAY_MS),
    OPTION(DEAD_KEEP, "dead-keep", IN(KIND), "TIME",
           "How long dead tasks of the kind are kept; by default as long as all others.",
           .type = OPTION_TYPE_DURATION, .typed = true, .min = DAY_MS / 24,
           .max = (int64_t)365000 * DAY_MS),
    OPTION(UNSET, "unset", DEFAULTS, "NAME,...",
           "Remove these defaults: `priority`, `max-attempts`, `timeout`, `retry`.",
           .type = OPTION_TYPE_LIST, .typed = true, .fits = fits_kind,
           .allowed = "an option's name"),
    OPTION(WATCH, "watch", IN(STATUS), NULL,
           "Print rates, latency and workers every second until interrupted.",
           .type = OPTION_TYPE_FLAG, .typed = true),
    OPTION(FOLLOW, "follow", IN(LOGS), NULL, "Print new lines as they come, until the task ends.",
           .type = OPTION_TYPE_FLAG, .typed = true, .letter = 'f'),
    OPTION(LEVEL, "level", IN(LOGS), "LEVEL",
           "Print lines of this level and of the more severe ones.", .type = OPTION_TYPE_CHOICE,
           .typed = true, .choices = "error warning info debug", .def = "debug"),
    OPTION(MAX_RUNNING, "max-running", IN(LIMIT), "N",
           "The maximum number of tasks of one key that run at once.", .type = OPTION_TYPE_INT,
           .typed = true, .min = 1, .max = 1000000),
    OPTION(MAX_STARTS, "max-starts", IN(LIMIT), "N/TIME",
           "The maximum number of starts of tasks of one key within any period of this length, "
           "such as `100/1min`: 1 to 10,000 within 100 ms to 31 days.",
           .typed = true, .fits = fits_starts,
           .allowed = "a whole number and a time in ms, s, min, h or d, such as 100/1min"),
    OPTION(STRICT, "strict", IN(LIMIT), NULL,
           "Run one task of a key at a time, in the order of ids. A failed task keeps its place.",
           .type = OPTION_TYPE_FLAG, .typed = true),
    OPTION(WHEN_DEAD, "when-dead", IN(LIMIT), "ACTION",
           "With `--strict`, when a task is dead: `block` the tasks behind it until it is retried "
           "or deleted, which is the default, or `skip` it.",
           .type = OPTION_TYPE_CHOICE, .typed = true, .choices = "block skip"),
    OPTION(FAIR, "fair", IN(LIMIT), NULL,
           "The keys that begin with this name and a colon take turns.", .type = OPTION_TYPE_FLAG,
           .typed = true),
    OPTION(WEIGHT, "weight", IN(LIMIT), "N",
           "How many tasks of a fair key are released at its turn.", .type = OPTION_TYPE_INT,
           .typed = true, .min = 1, .max = 1000),
    OPTION(UNTIL, "until", IN(LIMIT) | IN(OUTBOX), "TIME",
           "When the limit ends by itself, in any form that PostgreSQL reads.", .typed = true),
    OPTION(LATENCY, "latency", IN(SCALER), "TIME",
           "The target: how soon a ready task should start.", .type = OPTION_TYPE_DURATION,
           .def = "5s", .min = 1, .max = DAY_MS),
    OPTION(MIN, "min", IN(SCALER), "N", "Minimum workers.", .type = OPTION_TYPE_INT, .def = "1",
           .max = 10000),
    OPTION(MAX, "max", IN(SCALER), "N", "Maximum workers.", .type = OPTION_TYPE_INT, .def = "10",
           .min = 1, .max = 10000),
    OPTION(DOWN_AFTER, "down-after", IN(SCALER), "TIME",
           "Reduce the number of workers only after fewer were wanted for this long.",
           .type = OPTION_TYPE_DURATION, .def = "5min", .max = DAY_MS),
    OPTION(EXEC, "exec", IN(SCALER), "COMMAND",
           "The shell command that sets the number of workers, with `{n}` for the number, such as "
           "`docker compose up -d --no-recreate --scale worker={n}`. It may take 60 s, and is run "
           "again while it fails. Without this option the number is only logged."),
    OPTION(LISTEN, "listen", IN(UI), "ADDRESS",
           "The address and port of the page; port 0 picks a free port. An address that other "
           "machines can reach requires `--password-file`, `--token-file` or `--user-header`.",
           .def = "127.0.0.1:7070", .fits = fits_address, .allowed = ADDRESS_ALLOWED),
    OPTION(TOKEN_FILE, "token-file", IN(UI), "FILE",
           "A file whose first line is the token that lets users in, 16 to 128 characters. Without "
           "this option, `--password-file` and `--user-header`, a new token is printed at the "
           "start."),
    OPTION(PASSWORD_FILE, "password-file", IN(UI), "FILE",
           "A file with lines `NAME:HASH` or `NAME:HASH:read-only`. `openssl passwd -6` prints a "
           "hash; any form that crypt(3) knows will do. Browsers ask for the name and the password "
           "(HTTP Basic). The audit shows the name."),
    OPTION(USER_HEADER, "user-header", IN(UI), "HEADER",
           "The header in which a proxy names the user whom it has logged in, such as "
           "`X-Forwarded-User`. It counts only in requests from `--trusted-proxy`. The audit shows "
           "the name.",
           .fits = fits_header, .allowed = "the name of a header, such as X-Forwarded-User"),
    OPTION(TRUSTED_PROXY, "trusted-proxy", IN(UI), "ADDRESS,...",
           "Addresses or networks of proxies whose `--user-header` and `X-Forwarded-For` are "
           "believed.",
           .type = OPTION_TYPE_LIST, .fits = fits_network,
           .allowed = "an address or a network, such as 10.0.0.7 or 10.0.0.0/8"),
    OPTION(OPERATORS, "operators", IN(UI), "NAME,...",
           "The users of `--user-header` who may change things; all others can only read. By "
           "default all of them may.",
           .type = OPTION_TYPE_LIST),
    OPTION(HOSTS, "hosts", IN(UI), "NAME,...",
           "Names by which browsers reach the page, besides addresses and localhost; for instance "
           "the name of a proxy in front of it.",
           .type = OPTION_TYPE_LIST, .fits = fits_host, .allowed = "a host's name without a port"),
    OPTION(READ_ONLY, "read-only", IN(UI), NULL, "Show everything, but allow no changes.",
           .type = OPTION_TYPE_FLAG),
    OPTION(ALLOW_ACTS, "allow-acts", IN(MCP), NULL,
           "Also offer tools that retry, cancel and run tasks, and pause and resume queues and "
           "kinds. The audit names the client and its reason.",
           .type = OPTION_TYPE_FLAG),
    OPTION(HTTP, "http", IN(WORKER) | IN(CLEANER) | IN(INTAKE) | IN(HEALTH), "ADDRESS",
           "Serve `/metrics` for Prometheus, `/live` and `/ready` at this address over plain HTTP. "
           "Port 0 picks a free port, which the log names. By default nothing is served.",
           .fits = fits_address, .allowed = ADDRESS_ALLOWED),
    OPTION(LIVE, "live", IN(HEALTH), NULL,
           "Only check that it runs: request `/live` instead of `/ready`.",
           .type = OPTION_TYPE_FLAG, .typed = true),
    OPTION(OTLP_URL, "otlp-url", IN(WORKER) | IN(CLEANER), "URL",
           "The collector of traces, such as `http://localhost:4318`; `/v1/traces` is added to it. "
           "By default no spans are sent.",
           .env = "OTEL_EXPORTER_OTLP_ENDPOINT", .secret = true, .fits = fits_http_url,
           .allowed = "an http:// or https:// URL without a password (OTEL_EXPORTER_OTLP_HEADERS)"),
    OPTION(FROM, "from", IN(INTAKE), "QUEUE",
           "Take the messages of this queue of RabbitMQ, classic or quorum. Give the option once "
           "for each queue; in the variable, one per line.",
           .type = OPTION_TYPE_EACH, .fits = fits_broker_queue, .allowed = BROKER_QUEUE_ALLOWED),
    OPTION(FROM_STREAM, "from-stream", IN(INTAKE), "STREAM",
           "Take the messages of this stream of RabbitMQ, likewise. Its offset is kept in "
           "`tenon.stream_place`.",
           .type = OPTION_TYPE_EACH, .fits = fits_broker_queue, .allowed = BROKER_QUEUE_ALLOWED),
    OPTION(OFFSET, "offset", IN(INTAKE), "first|last|next|N",
           "Where to begin to read a stream that has no offset yet: at the first message, at the "
           "last chunk of messages, at the next message to come, or at this offset.",
           .def = "first", .fits = fits_offset, .allowed = "first, last, next or a number"),
    OPTION(KIND_FROM, "kind-from", IN(INTAKE), "type|routing-key|header:NAME",
           "Where a message says of which kind its task is: in the property `type`, its routing "
           "key, or this header. Requires `--allow-kinds`. Messages without a kind that is allowed "
           "get that of `--kind`, or are invalid if there is none.",
           .fits = fits_kind_from, .allowed = "type, routing-key or header:NAME"),
    OPTION(
        ALLOW_KINDS, "allow-kinds", IN(INTAKE), "KIND,...",
        "With `--kind-from`: the kinds that messages may choose; `order.*` allows all that begin "
        "with `order.`, and `*` all.",
        .type = OPTION_TYPE_LIST, .fits = fits_kinds,
        .allowed = KIND_ALLOWED ", or the beginning of one and *"),
    OPTION(KEY_FROM, "key-from", IN(INTAKE), "message-id|header:NAME|body",
           "What a message is recognized by when it comes again: the property `message-id`, this "
           "header, or a hash of its body.",
           .def = "message-id", .fits = fits_key_from,
           .allowed = "message-id, header:NAME or body"),
    OPTION(ENVELOPE, "envelope", IN(INTAKE), NULL,
           "Make the payload an object with the `body` and with what else the message has: "
           "`headers`, `exchange`, `routing_key`, `message_id` and other properties.",
           .type = OPTION_TYPE_FLAG),
    OPTION(ON_INVALID, "on-invalid", IN(INTAKE), "ACTION",
           "What becomes of a message whose body is not JSON or is too large, or that has no kind: "
           "`reject` it, whereupon RabbitMQ moves it to the dead letter exchange of the queue or, "
           "if there is none, drops it; or `keep` a body that is not JSON as `base64` in the "
           "payload.",
           .type = OPTION_TYPE_CHOICE, .choices = "reject keep", .def = "reject"),
    OPTION(PREFETCH, "prefetch", IN(INTAKE), "N",
           "How many messages of each queue may be on their way; by default as many as are "
           "committed in a quarter of a second, 32 to 2000.",
           .type = OPTION_TYPE_INT, .min = 1, .max = 10000),
};

#define USE(ID, COMMANDS, TEXT)                                                                    \
    {                                                                                              \
        .id = OPTION_##ID, .commands = COMMANDS, .text = TEXT                                      \
    }

const struct option_use option_uses[] = {
    USE(HTTP, IN(HEALTH), "The address that the worker, cleaner or intake got as `--http`."),
    USE(DRY_RUN, IN(SETUP), "Print the changes and their SQL, and change nothing."),
    USE(DRY_RUN, IN(SYNC), "Print the changes, and change nothing."),
    USE(DRY_RUN, IN(SCHEDULE), "With `sync`: print the changes, and change nothing."),
    USE(DRY_RUN, IN(OUTBOX), "Print how many messages match; change nothing."),
    USE(STATE, IN(OUTBOX),
        "With `list`: only messages that are `waiting` for the relay, or `refused` by RabbitMQ."),
    USE(UNTIL, IN(OUTBOX), "With `replay`: only messages that were sent before this time."),
    USE(QUEUE, TASKS, "The queue of the task; by default the queue of its kind, else `default`."),
    USE(QUEUE, IN(KIND), "The queue of the kind's tasks, unless the producer names one."),
    USE(QUEUE, IN(CANARY), "The queue to test; by default the queue of the kind, else `default`."),
    USE(PRIORITY, IN(SET), "The new priority; a higher one runs first."),
    USE(PRIORITY, DEFAULTS,
        "The priority of tasks that are enqueued without one; a higher one runs first."),
    USE(RUN_AT, IN(SET),
        "The new start time, at most 10 years ahead, such as `2030-01-31 08:00+01`. Any form that "
        "PostgreSQL reads will do; without a zone it is UTC."),
    USE(UNIQUE_KEY, IN(ENQUEUE),
        "1 to 200 characters. If a task of the kind waits with this key, that task's id is printed "
        "and no task is added. If it is running, one more run follows it."),
    USE(QUEUE, IN(INTAKE), "The queue of the tasks; by default that of the kind, else `default`."),
    USE(KIND, IN(INTAKE), "The kind of the tasks."),
    USE(AMQP_URL, IN(INTAKE), "The RabbitMQ broker, as for the other commands, but not `none`."),
    USE(MAX_ATTEMPTS, DEFAULTS,
        "The number of failures that makes a task dead, for tasks that are enqueued without one."),
    USE(RETRY, DEFAULTS,
        "The delay before a retry, for tasks that are enqueued without a policy: `polynomial`, "
        "`polynomial(1 day, 10 %)` with the longest delay and the random addition, or "
        "`exponential(10 s, 1 h, 10 %)`, `linear(...)` or `constant(...)` with the first delay in "
        "front."),
    USE(LIMIT_KEYS, IN(KIND),
        "The keys of tasks that are enqueued without keys: 1 to 4, such as `openai`."),
    USE(MAX_CRASHES, IN(KIND),
        "The number of crashes in a row that makes a task dead; a step or progress restarts the "
        "count. By default 3. Before the last one the task runs alone."),
    USE(TIMEOUT, DEFAULTS, "The time limit of one run, for tasks that are enqueued without one."),
    USE(TIMEOUT, IN(WAIT), "How long to wait; by default until all tasks have ended."),
    USE(TIMEOUT, IN(CANARY), "How long to wait for the task; by default 10s."),
    USE(FLOW, IN(ENQUEUE), "Add the task to this flow."),
    USE(QUEUES, IN(SETUP),
        "The only queues that the role of `--grant-producer` may enqueue to; by default all. Only "
        "the command line counts."),
    USE(QUEUES, IN(SCALER), "The queues whose tasks the workers should start in time."),
    USE(SLOTS, IN(SCALER), "The slots of each worker that the command starts."),
    USE(DRAIN_LIMIT, IN(DEV),
        "How long running tasks may continue when a worker is stopped or replaced; with `dev` 5s, "
        "unless given."),
    USE(ONCE, IN(SCALER), "Ask once, remove at most one worker, and exit, for use in cron."),
    USE(STATE, IN(RETRY) | IN(DELETE), "Only tasks in one of these states; by default dead ones."),
    USE(KIND, PAUSES, "The kind, in all queues."),
    USE(KIND, IN(SCHEDULE), "The kind of the schedule's tasks."),
    USE(KIND, IN(CANARY), "The kind of the test task; by default `canary`."),
    USE(LIMIT_KEY, IN(LIST),
        "Only tasks with this key in their `limit_keys`; without `--state`, only unfinished ones."),
    USE(PAYLOAD, IN(SCHEDULE),
        "The payload of its tasks, by default `{}`. An object also gets the key `tick`, the time "
        "of the tick."),
    USE(JSON, IN(LOGS), "Print a JSON object for each line."),
    USE(PAYLOAD, IN(SIGNAL), "The JSON value that the signal carries; by default `true`."),
    USE(LIMIT, IN(FLOW),
        "With `list`: print at most this many flows. With `ID`: print at most this many tasks, by "
        "default 10,000."),
    USE(UNSET, IN(KIND),
        "Remove these defaults: `priority`, `max-attempts`, `timeout`, `retry`, `queue`, "
        "`timeout-min`, `on-timeout`, `max-crashes`, `on-dead`, `history-keep`, `dead-keep`."),
};
const size_t option_uses_n = sizeof option_uses / sizeof *option_uses;
