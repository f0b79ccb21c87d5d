/* The table of the commands: what each takes, what it does, and two examples of its use. */
#include "cleaner/cleaner.h"
#include "cli/command.h"
#include "enqueue/enqueue.h"
#include "intake/intake.h"
#include "ui/ui.h"

enum { IDS_MAX = 100000, WAIT_IDS_MAX = 10000, PATHS_MAX = 1000 }; /* on a command line */

const char *const command_groups[COMMAND_GROUPS] = {
    [COMMANDS_TASKS] = "Tasks",
    [COMMANDS_QUEUES] = "Queues and kinds",
    [COMMANDS_PLANS] = "Schedules and limits",
    [COMMANDS_FLEET] = "Workers, cleaners and what they do",
    [COMMANDS_SETUP] = "Setup and checks",
    [COMMANDS_DEVELOPMENT] = "Development",
};

#define DAEMON(COMMAND, GROUP, MAIN, ...)                                                          \
    {                                                                                              \
        .command = COMMAND_##COMMAND, .group = COMMANDS_##GROUP, .daemon = MAIN, __VA_ARGS__       \
    }
#define COMMAND(COMMAND, GROUP, RUN, ...)                                                          \
    {                                                                                              \
        .command = COMMAND_##COMMAND, .group = COMMANDS_##GROUP, .run = RUN, __VA_ARGS__           \
    }
#define ARGS(MIN, MAX, TEXT) .args_min = (MIN), .args_max = (MAX), .args = (TEXT)

const struct command_row command_rows[] = {
    COMMAND(ENQUEUE, TASKS, enqueue_run, ARGS(1, 2, "KIND [PAYLOAD | -]"),
            .text = "Enqueue a task and print its id.",
            .more = "The payload is JSON, by default {}; with - it is read from stdin.",
            .examples = {"tenon enqueue welcome_mail '{\"to\": \"ann@example.org\"}'",
                         "tenon enqueue report --run-at '2030-01-31 08:00+01' --unique-key january",
                         "tenon enqueue import --queue slow --priority 2 - < rows.json"}),
    DAEMON(WAIT, TASKS, wait_main, ARGS(1, WAIT_IDS_MAX, "ID ..."),
           .text = "Wait until tasks have ended, and print their results as JSON.",
           .examples = {"tenon wait 4711", "tenon wait 4711 4712 --timeout 30s"}),
    COMMAND(SIGNAL, TASKS, signal_run, ARGS(1, 1, "NAME"),
            .text = "Send a signal to the tasks that wait for it now or later.",
            .examples = {"tenon signal payment:17",
                         "tenon signal payment:17 --payload '{\"paid\": true}'"}),
    COMMAND(LIST, TASKS, list_run, ARGS(0, 0, ""),
            .text = "List tasks that match a filter, the newest first.",
            .examples = {"tenon list --state dead --kind welcome_mail",
                         "tenon list --payload '$.to == \"ann@example.org\"' --limit 10",
                         "tenon list --limit-key tenant:42"}),
    COMMAND(SHOW, TASKS, show_run, ARGS(1, 1, "ID"),
            .text = "Show everything about a task, with its failed attempts.",
            .examples = {"tenon show 4711", "tenon show 4711 --json"}),
    COMMAND(LOGS, TASKS, logs_run, ARGS(1, 1, "ID"),
            .text = "Print the lines that handlers logged while a task ran.",
            .examples = {"tenon logs 4711 --follow", "tenon logs 4711 --level warning --json"}),
    COMMAND(WHY, TASKS, why_run, ARGS(1, 1, "ID"),
            .text = "Explain in a sentence why a task is in its state, and what to do.",
            .examples = {"tenon why 4711", "tenon why 4711 --json"}),
    COMMAND(DEAD, TASKS, dead_run, ARGS(0, 0, ""),
            .text = "Show the newest dead tasks by error class and kind.",
            .examples = {"tenon dead", "tenon dead --json"}),
    COMMAND(RETRY, TASKS, act_run, ARGS(0, IDS_MAX, "[ID ...]"),
            .text = "Make dead tasks ready again.",
            .more = "Give the ids of tasks, or at least one option that selects tasks.",
            .examples = {"tenon retry 4711",
                         "tenon retry --kind welcome_mail --error timeout --rate 100/s"}),
    COMMAND(CANCEL, TASKS, act_run, ARGS(0, IDS_MAX, "[ID ...]"),
            .text = "Cancel tasks that have not ended, and stop those that are running.",
            .more = "Give the ids of tasks, or at least one option that selects tasks.",
            .examples = {"tenon cancel 4711",
                         "tenon cancel --queue mail --state ready --why 'wrong template'"}),
    COMMAND(DELETE, TASKS, act_run, ARGS(0, IDS_MAX, "[ID ...]"),
            .text = "Delete tasks that have ended.",
            .more = "Give the ids of tasks, or at least one option that selects tasks.",
            .examples = {"tenon delete 4711", "tenon delete --state dead --older-than 30d --yes"}),
    COMMAND(RUN_NOW, TASKS, act_run, ARGS(0, IDS_MAX, "[ID ...]"),
            .text = "Make scheduled and retrying tasks ready at once.",
            .more = "Give the ids of tasks, or at least one option that selects tasks.",
            .examples = {"tenon run-now 4711", "tenon run-now --kind report --state scheduled"}),
    COMMAND(SET, TASKS, act_run, ARGS(0, IDS_MAX, "[ID ...]"),
            .text = "Change the priority or the start time of tasks that are not running.",
            .more = "Give the ids of tasks, or at least one option that selects tasks.",
            .examples = {"tenon set 4711 --priority 9",
                         "tenon set --kind report --state ready --run-at '2030-01-31 08:00+01'"}),
    COMMAND(FLOW, TASKS, flow_run, ARGS(1, 2, "ID | list | cancel ID | close ID"),
            .text = "Show, cancel or close flows and batches.",
            .examples = {"tenon flow list", "tenon flow 17", "tenon flow cancel 17"}),
    COMMAND(
        OUTBOX, TASKS, outbox_run, ARGS(1, IDS_MAX, "list | retry|delete [ID ...] | replay"),
        .text = "List, retry, delete and replay messages for RabbitMQ.",
        .more = "The messages are those of tenon.publish that RabbitMQ does not have yet. `replay` "
                "publishes\nthose again that were sent while `outbox_keep` was set.",
        .examples = {"tenon outbox list --state refused", "tenon outbox retry --exchange orders",
                     "tenon outbox replay --since '2030-01-31 08:00+01' --exchange orders"}),

    COMMAND(QUEUE, QUEUES, defaults_run, ARGS(0, 1, "[NAME]"),
            .text = "Show queues, or set the defaults of one.",
            .more = "Without options it shows all queues, or the one that is named.",
            .examples = {"tenon queue", "tenon queue mail --priority 6 --max-attempts 10",
                         "tenon queue mail --unset priority"}),
    COMMAND(KIND, QUEUES, defaults_run, ARGS(0, 1, "[NAME]"),
            .text = "Show kinds, or set the defaults of one.",
            .more = "Without options it shows all kinds, or the one that is named.",
            .examples = {"tenon kind", "tenon kind welcome_mail --queue mail --timeout 30s",
                         "tenon kind charge --on-timeout dead --on-dead refund"}),
    COMMAND(PAUSE, QUEUES, pause_run, ARGS(0, 1, "QUEUE | --kind KIND | --all"),
            .text = "Pause a queue, a kind or everything; running tasks continue.",
            .examples = {"tenon pause mail --why 'the provider is down'",
                         "tenon pause --kind export", "tenon pause --all"}),
    COMMAND(RESUME, QUEUES, pause_run, ARGS(0, 1, "QUEUE | --kind KIND | --all"),
            .text = "End a pause.", .examples = {"tenon resume mail", "tenon resume --all"}),

    COMMAND(SCHEDULE, PLANS, schedule_run,
            ARGS(1, 2,
                 "add|show|pause|resume|run-now|remove NAME | list | next [NAME] | sync FILE"),
            .text = "Set, show and control schedules.",
            .examples = {"tenon schedule add nightly --cron '30 3 * * *' --kind report",
                         "tenon schedule next nightly --count 3",
                         "tenon schedule sync schedules.json --dry-run"}),
    COMMAND(LIMIT, PLANS, limit_run, ARGS(1, 2, "set|show|remove|pause|resume NAME | list"),
            .text = "Set, show and control limits on tasks with the same key.",
            .examples = {"tenon limit set tenant --max-running 5 --fair",
                         "tenon limit set openai --max-starts 100/1min",
                         "tenon limit pause tenant:42 --why 'unpaid'"}),
    COMMAND(SYNC, PLANS, sync_run, ARGS(1, 1, "FILE"),
            .text = "Apply what an application says about its queues, kinds, limits and schedules.",
            .more =
                "The file is JSON, as for tenon.sync of SQL; - reads it from stdin. What it does "
                "not\nname stays unchanged.",
            .examples = {"tenon sync tasks.json", "tenon sync tasks.json --dry-run"}),

    DAEMON(
        WORKER, FLEET, worker_command_main, ARGS(0, 1, "[PAYLOAD-FILE]"), .text = "Run tasks.",
        .more = "A payload file is only for --run-one.",
        .examples = {"tenon worker --handler 'welcome_mail=./send_mail'",
                     "tenon worker --queues mail,default --handlers handlers.conf --slots 8",
                     "tenon worker --handlers handlers.conf --run-one welcome_mail payload.json"}),
    DAEMON(CLEANER, FLEET, cleaner_main, ARGS(0, 0, ""),
           .text = "Wake workers, recover the tasks of dead workers, delete old history.",
           .examples = {"tenon cleaner", "tenon cleaner --once"}),
    DAEMON(INTAKE, FLEET, intake_main, ARGS(0, 0, ""),
           .text = "Make tasks of the messages in queues of RabbitMQ.",
           .examples = {"tenon intake --from orders --kind take_order",
                        "tenon intake --from events --kind-from type --allow-kinds 'order.*'",
                        "tenon intake --from-stream audit --kind archive --envelope"}),
    DAEMON(SCALER, FLEET, scaler_main, ARGS(0, 0, ""),
           .text = "Run a command whenever more or fewer workers are needed.",
           .examples = {"tenon scaler --max 20 --exec 'docker compose up -d --scale worker={n}'",
                        "tenon scaler --slots 8 --latency 10s --once"}),
    COMMAND(STATUS, FLEET, status_run, ARGS(0, 0, ""),
            .text = "Show queues, workers, and kinds that no worker handles.",
            .examples = {"tenon status", "tenon status --watch"}),
    COMMAND(HEALTH, FLEET, health_run, ARGS(0, 0, ""),
            .text = "Check whether the worker or cleaner at an address does its work.",
            .more =
                "Exit code 0 if it does. 1 with the reason if it does not, for instance while it\n"
                "starts, drains, or has no connection to PostgreSQL.",
            .examples = {"tenon health", "tenon health --live --http 127.0.0.1:7071"}),
    DAEMON(UI, FLEET, ui_main, ARGS(0, 0, ""), .text = "Serve the page for the browser.",
           .examples = {"tenon ui",
                        "tenon ui --listen 0.0.0.0:7070 --password-file /etc/tenon/ui.passwords"}),
    COMMAND(MCP, FLEET, mcp_run, ARGS(0, 0, ""),
            .text = "Serve tools to an AI assistant, by the Model Context Protocol on stdin and "
                    "stdout.",
            .more = "The tools only read, unless --allow-acts is given.",
            .examples = {"tenon mcp", "tenon mcp --allow-acts"}),
    COMMAND(AUDIT, FLEET, audit_run, ARGS(0, 0, ""),
            .text = "Show who changed tasks, queues, limits and schedules, and when.",
            .examples = {"tenon audit", "tenon audit --limit 200 --json"}),

    COMMAND(SETUP, SETUP, setup_run, ARGS(0, 0, ""),
            .text = "Create or update the schema in PostgreSQL and the exchange in RabbitMQ.",
            .examples = {"tenon setup", "tenon setup --grant-worker tenon_worker",
                         "tenon setup --grant-producer shop --queues mail --kinds welcome_mail"}),
    COMMAND(DOCTOR, SETUP, doctor_run, ARGS(0, 0, ""),
            .text = "Check servers, settings, workers and queues, and print what to do.",
            .examples = {"tenon doctor", "tenon doctor --json"}),
    COMMAND(CANARY, SETUP, canary_run, ARGS(0, 0, ""),
            .text = "Run a test task from enqueue to end, and print how long it took.",
            .examples = {"tenon canary", "tenon canary --queue mail --timeout 30s"}),
    COMMAND(ADOPT, SETUP, adopt_run, ARGS(0, 0, ""),
            .text = "Allow tasks to run in a database that is a copy of another one.",
            .examples = {"tenon adopt", "tenon adopt --yes"}),

    DAEMON(DEV, DEVELOPMENT, dev_main, ARGS(0, PATHS_MAX, "[PATH ...]"),
           .text = "Run servers, a cleaner and a worker that restarts when a file changes.",
           .more = "It watches the files of the handlers and the paths that are given.",
           .examples = {"tenon dev --handler 'welcome_mail=./send_mail'",
                        "tenon dev --handlers handlers.conf src templates"}),
};
const size_t command_rows_n = sizeof command_rows / sizeof *command_rows;
