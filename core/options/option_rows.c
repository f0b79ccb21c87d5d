#include "core/options/option_value.h"

#define IN(COMMAND) (UINT64_C(1) << COMMAND_##COMMAND)
#define SERVERS (IN(ENQUEUE) | IN(WORKER) | IN(CLEANER)) /* those that need a broker */
#define TASKS (IN(ENQUEUE) | IN(SCHEDULE))               /* those that say what a task is to be */
#define ACTS (IN(RETRY) | IN(CANCEL) | IN(DELETE) | IN(RUN_NOW) | IN(SET))
#define FILTERS (IN(LIST) | ACTS)
#define PAUSES (IN(PAUSE) | IN(RESUME))
#define DEFAULTS (IN(QUEUE) | IN(KIND))
#define LISTS                                                                                      \
    (IN(SETUP) | IN(STATUS) | IN(SHOW) | IN(WHY) | IN(SCHEDULE) | FILTERS | DEFAULTS | IN(AUDIT) | \
     IN(DOCTOR) | IN(FLOW) | IN(LIMIT) | IN(CANARY))

enum { DAY_MS = 86400000 };

/* What every option has; what only some have follows by name. */
#define OPTION(ID, NAME, COMMANDS, ARG, TEXT, ...)                                                 \
    [OPTION_##ID] = {.name = NAME, .commands = COMMANDS, .arg = ARG, .text = TEXT, __VA_ARGS__}

const struct option_row option_rows[OPTION_COUNT] = {
    OPTION(CONFIG, "config", COMMANDS_ALL, "FILE", "Read this config file.", .letter = 'c'),
    OPTION(
        DATABASE_URL, "database-url", COMMANDS_ALL, "URL",
        "The PostgreSQL database; what the URL leaves out, libpq's variables (PGHOST, PGDATABASE "
        "...) say. On the command line a password can be seen in `ps`.",
        .env = "DATABASE_URL", .secret = true, .required = COMMANDS_ALL & ~IN(DEV),
        .allowed = "a libpq URL or keyword string, such as postgresql://app@db.example/app?"
                   "sslmode=verify-full"),
    OPTION(AMQP_URL, "amqp-url", SERVERS | IN(SETUP) | IN(DOCTOR) | IN(DEV), "URL",
           "The RabbitMQ broker. `none` works without one: the cleaner then wakes workers by "
           "NOTIFY, a task starts within milliseconds, and a backlog is drained as fast or "
           "faster; it is for few producers and workers. Hosts of a cluster stand beside each "
           "other, `amqp://user:word@a:5672,b:5672/vhost`, and are tried in this "
           "order. On the command line a password can be seen in `ps`.",
           .env = "AMQP_URL", .secret = true, .required = SERVERS, .fits = fits_amqp_url,
           .allowed = "an amqp:// or amqps:// URL, or none"),
    OPTION(LOG_LEVEL, "log-level", COMMANDS_ALL, "LEVEL", "Log this and what is worse.",
           .type = OPTION_TYPE_CHOICE, .choices = "error warning info debug", .def = "info"),
    OPTION(LOG_FORMAT, "log-format", COMMANDS_ALL, "FORMAT",
           "How a log line is written; log lines go to stderr.", .type = OPTION_TYPE_CHOICE,
           .choices = "logfmt json", .def = "logfmt"),
    OPTION(HELP, "help", COMMANDS_ALL, NULL, "Show this help.", .letter = 'h',
           .type = OPTION_TYPE_FLAG, .typed = true),
    OPTION(JSON, "json", LISTS, NULL, "Print one JSON object (docs/cli.md).",
           .type = OPTION_TYPE_FLAG),
    OPTION(DRY_RUN, "dry-run", IN(SETUP) | IN(SCHEDULE) | ACTS, NULL,
           "Print what would be done, of `setup` with the SQL, and change nothing.",
           .type = OPTION_TYPE_FLAG),
    OPTION(
        GRANT_PRODUCER, "grant-producer", IN(SETUP), "ROLE",
        "Let this role enqueue and cancel tasks, wait for their results, send signals, and finish, "
        "extend and record the steps and the progress of those that it runs, and nothing else; "
        "with `--queues` or "
        "`--kinds`, enqueue only to those."),
    OPTION(KINDS, "kinds", IN(SETUP), "KIND,...",
           "The kinds that the role of `--grant-producer` may enqueue; without it all.",
           .type = OPTION_TYPE_LIST, .fits = fits_kind, .allowed = KIND_ALLOWED),
    OPTION(GRANT_READER, "grant-reader", IN(SETUP), "ROLE",
           "Let this role read everything, as `tenon status`, `tenon list` and `tenon show` do."),
    OPTION(GRANT_OPERATOR, "grant-operator", IN(SETUP), "ROLE",
           "Let this role read everything, change queues, kinds and settings, enqueue, pause and "
           "resume, and cancel, retry, change and delete any task."),
    OPTION(GRANT_WORKER, "grant-worker", IN(SETUP), "ROLE",
           "Let this role do what `tenon worker` does, and nothing else."),
    OPTION(GRANT_CLEANER, "grant-cleaner", IN(SETUP), "ROLE",
           "Let this role do what `tenon cleaner` does, and nothing else."),
    OPTION(QUEUE, "queue", TASKS | FILTERS | IN(KIND) | IN(CANARY), "QUEUE",
           "The task's queue; else the one of its kind in `tenon.kind`, else `default`. Of a "
           "filter: only tasks of this queue. For `kind`: the queue of its tasks.",
           .letter = 'q', .fits = fits_queue, .allowed = QUEUE_ALLOWED),
    OPTION(PRIORITY, "priority", TASKS | IN(SET) | DEFAULTS, "N",
           "Higher runs first; else the one of its kind or queue, else 4.", .letter = 'p',
           .type = OPTION_TYPE_INT, .max = 9),
    OPTION(RUN_AT, "run-at", IN(ENQUEUE) | IN(SET), "TIME",
           "Not before this moment, at most 10 years ahead, such as `2030-01-31 08:00+01` or "
           "anything else that PostgreSQL reads; without a zone it is UTC."),
    OPTION(DELAY, "delay", IN(ENQUEUE), "TIME", "Not before so much time has passed.",
           .type = OPTION_TYPE_DURATION, .max = (int64_t)3650 * DAY_MS),
    OPTION(UNIQUE_KEY, "unique-key", IN(ENQUEUE) | FILTERS, "KEY",
           "While an unfinished task holds this key (1 to 200 characters), its id is returned "
           "instead of a new task's. Of a filter: only tasks with this unique key.",
           .typed = true),
    OPTION(
        ON_CONFLICT, "on-conflict", IN(ENQUEUE), "keep|replace|merge",
        "What becomes of an unstarted task that holds the key: `keep` it, the default; `replace` "
        "its payload and times; `merge` the payloads."),
    OPTION(UNIQUE_FOR, "unique-for", IN(ENQUEUE), "TIME",
           "The key is taken for so long, also after its task has ended.",
           .type = OPTION_TYPE_DURATION, .min = 1, .max = (int64_t)365 * DAY_MS),
    OPTION(DEBOUNCE, "debounce", IN(ENQUEUE), "TIME",
           "Start when nobody has enqueued under the key for so long; the last payload counts.",
           .type = OPTION_TYPE_DURATION, .min = 1, .max = (int64_t)30 * DAY_MS),
    OPTION(DEBOUNCE_MAX, "debounce-max", IN(ENQUEUE), "TIME",
           "With `--debounce`: no later than so long after the first.",
           .type = OPTION_TYPE_DURATION, .min = 1, .max = (int64_t)365 * DAY_MS),
    OPTION(START_BEFORE, "start-before", IN(ENQUEUE), "TIME",
           "What has not started by this moment is expired; a moment as for `--run-at`."),
    OPTION(MAX_ATTEMPTS, "max-attempts", TASKS | DEFAULTS, "N",
           "With so many failures the task is dead; else the number of its kind or queue, else 25.",
           .type = OPTION_TYPE_INT, .min = 1, .max = 1000),
    OPTION(
        TIMEOUT, "timeout", TASKS | DEFAULTS | IN(WAIT) | IN(CANARY), "TIME",
        "How long one run may take; else the time of its kind or queue, else 1h. For `wait`: how "
        "long to wait at most; without it until all have ended. For `canary`: likewise, else 10s.",
        .type = OPTION_TYPE_DURATION, .min = 1, .max = (int64_t)30 * DAY_MS),
    OPTION(
        RETRY, "retry", IN(ENQUEUE) | DEFAULTS, "POLICY",
        "How long it waits after a failure: `polynomial`, `exponential(10 s, 1 h, 10 %)`, "
        "`linear(...)` or `constant(...)`, with the first delay, the longest, and what chance "
        "adds, or `polynomial(1 day, 10 %)`; else that of its kind or queue, else `polynomial`."),
    OPTION(
        TRACE, "trace", IN(ENQUEUE), "TRACEPARENT", "The trace that the handler continues.",
        .fits = fits_trace,
        .allowed =
            "a W3C traceparent: 2, 32, 16 and 2 hexadecimal digits in lower case, with - between"),
    OPTION(FLOW, "flow", IN(ENQUEUE) | FILTERS, "ID",
           "The flow that it becomes a task of. Of a filter: only tasks of this flow.",
           .type = OPTION_TYPE_INT, .typed = true, .min = 1, .max = 999999999999999999),
    OPTION(DEPENDS_ON, "depends-on", IN(ENQUEUE), "ID,...",
           "With `--flow`: tasks of flows, which it waits for.", .type = OPTION_TYPE_LIST,
           .typed = true, .fits = fits_id, .allowed = "a task's number, at most 18 digits"),
    OPTION(ON_PARENT_DEAD, "on-parent-dead", IN(ENQUEUE), "WHAT",
           "What it does when one of them is dead, cancelled or expired: wait until that one is "
           "retried and done, run, or be cancelled.",
           .type = OPTION_TYPE_CHOICE, .typed = true, .choices = "wait run cancel"),
    OPTION(LIMIT_KEYS, "limit-keys", IN(ENQUEUE), "KEY,...",
           "1 to 4 keys, such as `tenant:42`, whose limits hold for it.", .type = OPTION_TYPE_LIST,
           .typed = true),
    OPTION(
        QUEUES, "queues", IN(WORKER) | IN(DEV) | IN(SETUP) | IN(SCALER), "QUEUE,...",
        "The queues that a worker serves, or that a scaler asks for. For `setup`, where only the "
        "command line counts: those that the role of `--grant-producer` may enqueue to; without it "
        "all.",
        .letter = 'Q', .type = OPTION_TYPE_LIST, .def = "default", .fits = fits_queue,
        .allowed = QUEUE_ALLOWED),
    OPTION(HANDLERS, "handlers", IN(WORKER) | IN(DEV), "FILE",
           "The file that says which program handles which kind (docs/handlers-file.md)."),
    OPTION(HANDLER, "handler", IN(WORKER) | IN(DEV), "KIND=COMMAND",
           "A program that handles one kind: started anew for each task, or after pool: one that "
           "stays and reads tasks; may be given many times, in the variable one per line.",
           .type = OPTION_TYPE_EACH, .fits = fits_handler,
           .allowed = "KIND=COMMAND, where KIND is " KIND_ALLOWED),
    OPTION(SLOTS, "slots", IN(WORKER) | IN(DEV) | IN(SCALER), "N",
           "How many children run at once, of all handlers together. For `scaler`: of each worker "
           "that its command starts.",
           .type = OPTION_TYPE_INT, .def = "auto", .min = 1, .max = 1000),
    OPTION(PRESENCE_URL, "presence-url", IN(WORKER), "URL",
           "A direct way to the same database, when the database URL leads through a pooler, in "
           "session or transaction mode; by default the database URL.",
           .secret = true),
    OPTION(PASS_ENV, "pass-env", IN(WORKER) | IN(DEV), "NAME,...",
           "Variables that handlers get though the worker connects with them: `DATABASE_URL` or "
           "`AMQP_URL` where it took its own from there, and those that begin with `PG`.",
           .type = OPTION_TYPE_LIST, .fits = fits_variable, .allowed = VARIABLE_ALLOWED),
    OPTION(START_LIMIT, "start-limit", IN(WORKER) | IN(DEV), "TIME",
           "How long a child of a pool handler may take to say hello; `start_limit` in a handler's "
           "section of the handlers file overrides it.",
           .type = OPTION_TYPE_DURATION, .def = "60s", .min = 1000, .max = 3600000),
    OPTION(
        USER, "user", IN(WORKER) | IN(DEV), "NAME",
        "The user that handlers without a `user` in the handlers file run as, when the worker runs "
        "as root."),
    OPTION(DRAIN_LIMIT, "drain-limit", IN(WORKER) | IN(DEV), "TIME",
           "After SIGTERM, tasks that run longer than this are given back, uncharged. "
           "`dev` gives its worker 5s, unless it is told otherwise.",
           .type = OPTION_TYPE_DURATION, .def = "25s", .max = DAY_MS),
    OPTION(UNTIL_EMPTY, "until-empty", IN(WORKER), NULL,
           "Exit when no task of these queues and kinds is ready or running.",
           .type = OPTION_TYPE_FLAG),
    OPTION(STDERR, "stderr", IN(WORKER), NULL,
           "Handlers write to the worker's stderr; what they wrote last is then not kept with a "
           "failure.",
           .type = OPTION_TYPE_FLAG),
    OPTION(RUN_ONE, "run-one", IN(WORKER), "KIND",
           "Run this kind's handler once, by hand, on the payload in the file that is given as "
           "argument; needs no server.",
           .fits = fits_kind, .allowed = KIND_ALLOWED),
    OPTION(ONCE, "once", IN(CLEANER) | IN(SCALER), NULL,
           "Do every chore once and exit; for cron. For `scaler`: ask once, and go down by one "
           "worker at most.",
           .type = OPTION_TYPE_FLAG),
    OPTION(CRON, "cron", IN(SCHEDULE), "EXPR",
           "When it ticks: minute, hour, day of month, month, day of week, such as `30 3 * * "
           "mon-fri`; or `@daily` and its like (docs/schedules.md)."),
    OPTION(EVERY, "every", IN(SCHEDULE), "TIME",
           "Instead of `--cron`: it ticks so often, the first time after that time.",
           .type = OPTION_TYPE_DURATION, .min = 1000, .max = (int64_t)366 * DAY_MS),
    OPTION(ZONE, "zone", IN(SCHEDULE), "ZONE",
           "The time zone of the cron expression, such as `Europe/Berlin`.", .def = "UTC"),
    OPTION(CATCH_UP, "catch-up", IN(SCHEDULE), "WHICH",
           "What becomes of ticks that are more than a minute late, as no cleaner ran.",
           .type = OPTION_TYPE_CHOICE, .choices = "none last all", .def = "last"),
    OPTION(OVERLAP, "overlap", IN(SCHEDULE), "WHAT",
           "What a tick does while the last task has not ended: make another one, or be skipped.",
           .type = OPTION_TYPE_CHOICE, .choices = "allow skip", .def = "allow"),
    OPTION(HOW_MANY, "count", IN(SCHEDULE), "N", "How many coming ticks to print.",
           .type = OPTION_TYPE_INT, .def = "10", .min = 1, .max = 1000),
    OPTION(STATE, "state", FILTERS, "STATE,...",
           "Only tasks in one of these states. Without it, `retry` and `delete` mean what is dead.",
           .type = OPTION_TYPE_LIST, .typed = true, .fits = fits_kind,
           .allowed =
               "a state: blocked, scheduled, ready, running, retrying, done, cancelled, expired or "
               "dead"),
    OPTION(KIND, "kind", FILTERS | PAUSES | IN(SCHEDULE) | IN(CANARY), "KIND",
           "Only tasks of this kind. For `pause` and `resume`: this kind, in whatever queue. For "
           "`schedule`: the kind of its tasks. For `canary`: its kind, else `canary`.",
           .letter = 'k', .typed = true, .fits = fits_kind, .allowed = KIND_ALLOWED),
    OPTION(ERROR, "error", FILTERS, "CLASS",
           "Only tasks whose last error is of this class: as the handler says, else the exception "
           "that the error names, how the process ended, or its first word.",
           .typed = true),
    OPTION(OLDER_THAN, "older-than", FILTERS, "TIME",
           "Only tasks that were enqueued or, if they have ended, ended so long ago.",
           .type = OPTION_TYPE_DURATION, .typed = true, .max = (int64_t)3650 * DAY_MS),
    OPTION(
        LIMIT_KEY, "limit-key", FILTERS, "KEY",
        "Only tasks that have this among their `limit_keys`. Without `--state`, `list` then means "
        "what has not ended.",
        .typed = true),
    OPTION(
        PAYLOAD, "payload", FILTERS | IN(SCHEDULE) | IN(SIGNAL), "PATH|JSON",
        "Only tasks whose payload fits this predicate of SQL/JSON path, such as "
        "`$.to == \"ann@example.com\"`. For `schedule`: the payload of its tasks, by default `{}`; "
        "an object gets the key `tick`, the moment of the tick. For `signal`: what it carries, by "
        "default `true`.",
        .typed = true),
    OPTION(LIMIT, "limit", IN(LIST) | IN(AUDIT) | IN(FLOW), "N",
           "So many at most. For `flow ID`: so many of its tasks, else 10,000.",
           .type = OPTION_TYPE_INT, .def = "50", .min = 1, .max = 10000),
    OPTION(CURSOR, "cursor", IN(LIST) | IN(AUDIT) | IN(FLOW), "ID",
           "The next page: only what comes after this task, as the page before said.",
           .type = OPTION_TYPE_INT, .typed = true, .min = 1, .max = 999999999999999999),
    OPTION(OLDEST, "oldest", IN(LIST), NULL, "The oldest first.", .type = OPTION_TYPE_FLAG,
           .typed = true),
    OPTION(YES, "yes", ACTS | IN(ADOPT), NULL, "Do not ask.", .letter = 'y',
           .type = OPTION_TYPE_FLAG, .typed = true),
    OPTION(RATE, "rate", ACTS, "N/s",
           "Change so many tasks a second at most; without it as fast as it goes.", .typed = true,
           .fits = fits_rate, .allowed = "a whole number from 1 to 99999 and /s, such as 100/s"),
    OPTION(WHY, "why", ACTS | PAUSES | IN(LIMIT) | IN(SCHEDULE), "TEXT", "Why, for `tenon audit`.",
           .typed = true),
    OPTION(ALL, "all", PAUSES, NULL, "Everything, also queues and kinds that nobody knows yet.",
           .type = OPTION_TYPE_FLAG, .typed = true),
    OPTION(TIMEOUT_MIN, "timeout-min", IN(KIND), "TIME",
           "No task of the kind may be enqueued with a shorter timeout.",
           .type = OPTION_TYPE_DURATION, .typed = true, .min = 1, .max = (int64_t)30 * DAY_MS),
    OPTION(ON_TIMEOUT, "on-timeout", IN(KIND), "WHAT",
           "What becomes of a task that runs out of time: a failure that is retried, or its end.",
           .type = OPTION_TYPE_CHOICE, .typed = true, .choices = "retry dead"),
    OPTION(MAX_CRASHES, "max-crashes", IN(KIND) | IN(SET), "N",
           "A task is dead after this many crashes in a row, without a step or progress between "
           "them; default: that of its kind, else 3. Before the last one it runs alone.",
           .type = OPTION_TYPE_INT, .typed = true, .min = 2, .max = 100),
    OPTION(ON_DEAD, "on-dead", IN(KIND), "KIND",
           "The kind of the task that is enqueued when a task of this kind dies.", .typed = true,
           .fits = fits_kind, .allowed = KIND_ALLOWED),
    OPTION(UNSET, "unset", DEFAULTS, "NAME,...",
           "Take these defaults away: `priority`, `max-attempts`, `timeout`, `retry`, and of a "
           "kind `queue`, `timeout-min`, `on-timeout`, `max-crashes`, `on-dead`.",
           .type = OPTION_TYPE_LIST, .typed = true, .fits = fits_kind,
           .allowed = "an option's name"),
    OPTION(WATCH, "watch", IN(STATUS), NULL,
           "Print rates, latency and workers each second, until it is interrupted.",
           .type = OPTION_TYPE_FLAG, .typed = true),
    OPTION(MAX_RUNNING, "max-running", IN(LIMIT), "N", "So many tasks of a key at once, at most.",
           .type = OPTION_TYPE_INT, .typed = true, .min = 1, .max = 1000000),
    OPTION(MAX_STARTS, "max-starts", IN(LIMIT), "N/TIME",
           "So many starts of tasks of a key within that time, at most, wherever it begins, such "
           "as `100/1min`: 1 to 10,000 within 100 ms to 31 days.",
           .typed = true, .fits = fits_starts,
           .allowed = "a whole number and a time in ms, s, min, h or d, such as 100/1min"),
    OPTION(STRICT, "strict", IN(LIMIT), NULL,
           "One task of a key at a time, in the order of ids; one that failed keeps its place.",
           .type = OPTION_TYPE_FLAG, .typed = true),
    OPTION(WHEN_DEAD, "when-dead", IN(LIMIT), "WHAT",
           "What a dead task does to those behind it, with `--strict`: block them, until it is "
           "retried or deleted, or let them skip it.",
           .type = OPTION_TYPE_CHOICE, .typed = true, .choices = "block skip"),
    OPTION(FAIR, "fair", IN(LIMIT), NULL, "The keys with this part before the colon take turns.",
           .type = OPTION_TYPE_FLAG, .typed = true),
    OPTION(WEIGHT, "weight", IN(LIMIT), "N", "So many tasks of a fair key at its turn.",
           .type = OPTION_TYPE_INT, .typed = true, .min = 1, .max = 1000),
    OPTION(UNTIL, "until", IN(LIMIT), "WHEN",
           "The limit ends by itself at this moment, in any form that PostgreSQL reads.",
           .typed = true),
    OPTION(LATENCY, "latency", IN(SCALER), "TIME",
           "How soon tasks are to start after they are ready.", .type = OPTION_TYPE_DURATION,
           .def = "5s", .min = 1, .max = DAY_MS),
    OPTION(MIN, "min", IN(SCALER), "N", "No fewer workers than so many.", .type = OPTION_TYPE_INT,
           .def = "1", .max = 10000),
    OPTION(MAX, "max", IN(SCALER), "N", "And no more than so many.", .type = OPTION_TYPE_INT,
           .def = "10", .min = 1, .max = 10000),
    OPTION(DOWN_AFTER, "down-after", IN(SCALER), "TIME",
           "There are fewer workers only when fewer were wanted for so long.",
           .type = OPTION_TYPE_DURATION, .def = "5min", .max = DAY_MS),
    OPTION(EXEC, "exec", IN(SCALER), "COMMAND",
           "What makes it so many workers, in a shell, with `{n}` for the number, such as `docker "
           "compose up -d --no-recreate --scale worker={n}`; at most 60 s, and once more while it "
           "fails. Without it the number is only logged."),
    OPTION(LISTEN, "listen", IN(UI), "ADDRESS",
           "Where the page is served, with its port; port 0 takes a free one. Anything but this "
           "machine's loopback needs `--password-file` or `--token-file` (docs/ui.md).",
           .def = "127.0.0.1:7070", .fits = fits_address, .allowed = ADDRESS_ALLOWED),
    OPTION(TOKEN_FILE, "token-file", IN(UI), "FILE",
           "A file whose first line lets in whoever knows it, 16 to 128 characters. Without it and "
           "without `--password-file` a token is made at the start, and printed."),
    OPTION(PASSWORD_FILE, "password-file", IN(UI), "FILE",
           "A file of `NAME:HASH` or `NAME:HASH:read-only`, as crypt(3) and `openssl passwd -6` "
           "make hashes; the audit has the name."),
    OPTION(HOSTS, "hosts", IN(UI), "NAME,...",
           "Names by which browsers reach the page, besides addresses and localhost: those of a "
           "proxy in front of it.",
           .type = OPTION_TYPE_LIST, .fits = fits_host, .allowed = "a host's name without a port"),
    OPTION(READ_ONLY, "read-only", IN(UI), NULL, "Show everything, and let nobody change it.",
           .type = OPTION_TYPE_FLAG),
    OPTION(
        HTTP, "http", IN(WORKER) | IN(CLEANER), "ADDRESS",
        "Serve `/metrics` for Prometheus, `/live` and `/ready` here, as plain HTTP; port 0 takes a "
        "free one, which the log says. Without it there is no port (docs/metrics.md).",
        .fits = fits_address, .allowed = ADDRESS_ALLOWED),
    OPTION(OTLP_URL, "otlp-url", IN(WORKER) | IN(CLEANER), "URL",
           "The collector of traces, such as `http://localhost:4318`, to which `/v1/traces` is "
           "added; without it no spans are made (docs/traces.md).",
           .env = "OTEL_EXPORTER_OTLP_ENDPOINT", .secret = true, .fits = fits_http_url,
           .allowed = "an http:// or https:// URL without a password (OTEL_EXPORTER_OTLP_HEADERS)"),
};
