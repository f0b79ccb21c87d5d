/* The tools: which command each is, and its arguments. */
#include "cli/mcp/mcp.h"

#include <stdio.h>
#include <string.h>

enum { ARGS_MAX = 16, COMMAND_WORDS = 2 };

enum kind_of {
    A_NUMBER = 1, /* an id, as a word */
    NUMBERS,      /* ids, as words */
    A_WORD,       /* a text, as a word */
    A_TEXT,       /* --option=text */
    A_COUNT,      /* --option=number, 20 if it is omitted */
    A_CURSOR,     /* --option=id */
    A_FLAG        /* --option */
};

struct argument {
    const char *name;
    enum kind_of kind;
    const char *option; /* NULL = it is a word */
    const char *text;
    bool required;
};

struct mcp_tool {
    const char *name, *text;
    const char *command[COMMAND_WORDS];
    const char *member; /* of the answer, if not all of it is of interest */
    bool acts, destroys, prints_text;
    bool newest_last; /* a long answer loses its beginning */
    const struct argument *arguments[ARGS_MAX];
};

/* --- arguments ------------------------------------------------------------------------------ */

#define ARGUMENT(ID, ...) static const struct argument ID = {__VA_ARGS__}

ARGUMENT(id, "id", A_NUMBER, NULL, "The number of the task.", true);
ARGUMENT(flow_id, "id", A_NUMBER, NULL, "The number of the flow.", true);
ARGUMENT(ids, "ids", NUMBERS, NULL, "The numbers of the tasks. Omit them to use a filter.", false);
ARGUMENT(state, "state", A_TEXT, "state",
         "Only tasks in one of these states, separated by commas: blocked, scheduled, ready, "
         "running, retrying, done, cancelled, expired, dead.",
         false);
ARGUMENT(of_kind, "kind", A_TEXT, "kind", "Only tasks of this kind.", false);
ARGUMENT(of_queue, "queue", A_TEXT, "queue", "Only tasks of this queue.", false);
ARGUMENT(of_class, "error", A_TEXT, "error", "Only tasks whose last error is of this class.",
         false);
ARGUMENT(tag, "tag", A_TEXT, "tag", "Only tasks with this tag.", false);
ARGUMENT(payload, "payload", A_TEXT, "payload",
         "Only tasks whose payload matches this SQL/JSON path predicate, such as "
         "$.to == \"ann@example.org\".",
         false);
ARGUMENT(older_than, "older_than", A_TEXT, "older-than",
         "Only tasks that ended, or were enqueued, at least this long ago: 30min, 2h, 7d.", false);
ARGUMENT(limit_key, "limit_key", A_TEXT, "limit-key", "Only tasks with this limit key.", false);
ARGUMENT(of_flow, "flow", A_CURSOR, "flow", "Only tasks of the flow of this number.", false);
ARGUMENT(count, "limit", A_COUNT, "limit", "How many to return at most, 1 to 100; 20 if omitted.",
         false);
ARGUMENT(level, "level", A_TEXT, "level",
         "Only lines of this level and of the more severe ones: error, warning, info, debug.",
         false);
ARGUMENT(cursor, "cursor", A_CURSOR, "cursor", "Continue after this: `next` of the last answer.",
         false);
ARGUMENT(outbox_state, "state", A_TEXT, "state", "Only messages in this state: waiting, refused.",
         false);
ARGUMENT(queue, "queue", A_WORD, NULL, "The queue. Give a queue or a kind.", false);
ARGUMENT(kind, "kind", A_TEXT, "kind", "The kind. Give a queue or a kind.", false);
ARGUMENT(dry_run, "dry_run", A_FLAG, "dry-run", "Only count the tasks; change nothing.", false);
ARGUMENT(reason, "reason", A_TEXT, "why", "Why you do this, for the audit.", true);

/* --- tools ---------------------------------------------------------------------------------- */

#define FILTER                                                                                     \
    &state, &of_kind, &of_queue, &of_class, &tag, &payload, &older_than, &limit_key, &of_flow

static const struct mcp_tool tools[] = {
    {.name = "doctor",
     .text = "Check servers, settings, workers and queues: what is wrong now, and what to do about "
             "it. Begin here.",
     .command = {"doctor"}},
    {.name = "status",
     .text = "Queues with their numbers of tasks, workers, pauses, kinds that no worker handles, "
             "kinds that fail, and counts of the last hour and day.",
     .command = {"status"}},
    {.name = "list_tasks",
     .text = "Tasks that match a filter, newest first.",
     .command = {"list"},
     .arguments = {FILTER, &count, &cursor}},
    {.name = "show_task",
     .text = "Everything about a task: payload, result, progress, steps, and each failed attempt "
             "with its error.",
     .command = {"show"},
     .arguments = {&id}},
    {.name = "show_logs",
     .text = "The lines that handlers logged while a task ran, oldest first, with the attempt of "
             "each; of many lines only the last ones. An attempt that failed also has what its "
             "process printed.",
     .command = {"logs"},
     .prints_text = true,
     .newest_last = true,
     .arguments = {&id, &level}},
    {.name = "explain_task",
     .text = "Why a task is in its state, and what to do, in a sentence.",
     .command = {"why"},
     .arguments = {&id}},
    {.name = "dead_tasks",
     .text = "The newest dead tasks by error class and kind, with an error of each.",
     .command = {"dead"}},
    {.name = "list_workers",
     .text = "The workers: where they run, what they serve, and how many of their slots are in "
             "use.",
     .command = {"status"},
     .member = "workers"},
    {.name = "list_schedules",
     .text = "The schedules: when each ticks, its last task and the state of that.",
     .command = {"schedule", "list"}},
    {.name = "list_limits",
     .text = "The limits on tasks with the same key.",
     .command = {"limit", "list"}},
    {.name = "list_flows",
     .text = "Flows and batches, newest first.",
     .command = {"flow", "list"},
     .arguments = {&count, &cursor}},
    {.name = "show_flow",
     .text = "A flow and the states of its tasks.",
     .command = {"flow"},
     .arguments = {&flow_id}},
    {.name = "list_outbox",
     .text = "Messages that wait to be published, or were refused by RabbitMQ.",
     .command = {"outbox", "list"},
     .arguments = {&outbox_state, &count, &cursor}},
    {.name = "list_audit",
     .text = "Changes of tasks, queues, limits and schedules: by whom, when and why, newest first.",
     .command = {"audit"},
     .arguments = {&count, &cursor}},
    {.name = "retry_tasks",
     .text = "Make dead tasks ready again, by id or by a filter. Fix the cause first.",
     .command = {"retry"},
     .acts = true,
     .arguments = {&ids, FILTER, &dry_run, &reason}},
    {.name = "cancel_tasks",
     .text = "Cancel tasks that have not ended, by id or by a filter. This cannot be "
             "undone.",
     .command = {"cancel"},
     .acts = true,
     .destroys = true,
     .arguments = {&ids, FILTER, &dry_run, &reason}},
    {.name = "run_tasks_now",
     .text = "Make scheduled and retrying tasks ready at once, by id or by a filter.",
     .command = {"run-now"},
     .acts = true,
     .arguments = {&ids, FILTER, &dry_run, &reason}},
    {.name = "pause",
     .text = "Pause a queue or a kind; its running tasks continue.",
     .command = {"pause"},
     .acts = true,
     .prints_text = true,
     .arguments = {&queue, &kind, &reason}},
    {.name = "resume",
     .text = "End the pause of a queue or a kind.",
     .command = {"resume"},
     .acts = true,
     .prints_text = true,
     .arguments = {&queue, &kind, &reason}},
};
enum { TOOLS = sizeof tools / sizeof *tools };

const struct mcp_tool *mcp_tool_find(const char *name, bool acts)
{
    for (size_t i = 0; i < TOOLS; i++) {
        if (strcmp(tools[i].name, name) == 0 && (acts || !tools[i].acts)) {
            return &tools[i];
        }
    }
    return NULL;
}

bool mcp_tool_acts(const struct mcp_tool *tool)
{
    return tool->acts;
}

const char *mcp_tool_member(const struct mcp_tool *tool)
{
    return tool->member;
}

bool mcp_tool_newest_last(const struct mcp_tool *tool)
{
    return tool->newest_last;
}

/* --- as tools/list shows them --------------------------------------------------------------- */

static json_t *type_of(enum kind_of type)
{
    switch (type) {
    case NUMBERS:
        return json_pack("{s:s, s:{s:s, s:i}, s:i, s:i}", "type", "array", "items", "type",
                         "integer", "minimum", 1, "minItems", 1, "maxItems", MCP_IDS_MAX);
    case A_NUMBER:
    case A_CURSOR:
        return json_pack("{s:s, s:i}", "type", "integer", "minimum", 1);
    case A_COUNT:
        return json_pack("{s:s, s:i, s:i}", "type", "integer", "minimum", 1, "maximum", 100);
    case A_FLAG:
        return json_pack("{s:s}", "type", "boolean");
    case A_WORD:
    case A_TEXT:
    default:
        return json_pack("{s:s, s:i, s:i}", "type", "string", "minLength", 1, "maxLength",
                         MCP_TEXT_BYTES_MAX);
    }
}

static json_t *schema_of(const struct mcp_tool *tool)
{
    json_t *properties = json_object(), *required = json_array();
    for (size_t i = 0; i < ARGS_MAX && tool->arguments[i]; i++) {
        const struct argument *a = tool->arguments[i];
        json_t *type = type_of(a->kind);
        (void)json_object_set_new(type, "description", json_string(a->text));
        (void)json_object_set_new(properties, a->name, type);
        if (a->required) {
            (void)json_array_append_new(required, json_string(a->name));
        }
    }
    return json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties, "required",
                     required, "additionalProperties", 0);
}

json_t *mcp_tools_list(bool acts)
{
    json_t *list = json_array();
    for (size_t i = 0; i < TOOLS; i++) {
        const struct mcp_tool *t = &tools[i];
        if (acts || !t->acts) {
            (void)json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:{s:b, s:b, s:b}}",
                                                        "name", t->name, "description", t->text,
                                                        "inputSchema", schema_of(t), "annotations",
                                                        "readOnlyHint", !t->acts, "destructiveHint",
                                                        t->destroys, "openWorldHint", 0));
        }
    }
    return list;
}

/* --- as command lines ----------------------------------------------------------------------- */

/* The text moves while it grows: a word is its place until all are there. */
static bool word_add(struct mcp_command *c, struct fault *f)
{
    if (c->n + 1 >= MCP_WORDS_MAX) {
        return fault_set(f, FAULT_REFUSED, "too many arguments");
    }
    c->n++;
    buf_put_char(&c->text, '\0');
    return true;
}

static bool bad(const struct argument *a, const char *must, struct fault *f)
{
    return fault_set(f, FAULT_REFUSED, "\"%s\" must be %s", a->name, must);
}

static bool put_number(struct mcp_command *c, const struct argument *a, const json_t *value,
                       struct fault *f)
{
    if (!json_is_integer(value) || json_integer_value(value) < 1) {
        return bad(a, a->kind == NUMBERS ? "a list of numbers above 0" : "a number above 0", f);
    }
    if (a->kind == A_COUNT && json_integer_value(value) > 100) {
        return bad(a, "1 to 100", f);
    }
    if (a->option) {
        buf_printf(&c->text, "--%s=", a->option);
    }
    buf_printf(&c->text, "%lld", (long long)json_integer_value(value));
    return word_add(c, f);
}

static bool put_numbers(struct mcp_command *c, const struct argument *a, const json_t *value,
                        struct fault *f)
{
    size_t n = json_array_size(value);
    bool ok = (n >= 1 && n <= MCP_IDS_MAX) || bad(a, "a list of 1 to 100 numbers", f);
    for (size_t i = 0; i < n && ok; i++) {
        ok = put_number(c, a, json_array_get(value, i), f);
    }
    return ok;
}

static bool put_text(struct mcp_command *c, const struct argument *a, const json_t *value,
                     struct fault *f)
{
    const char *text = json_string_value(value);
    size_t n = text ? json_string_length(value) : 0;
    if (n < 1 || n > MCP_TEXT_BYTES_MAX || strlen(text) != n) {
        return bad(a, "a text of 1 to 1000 bytes", f);
    }
    if (a->option) {
        buf_printf(&c->text, "--%s=", a->option);
    }
    buf_put(&c->text, text, n);
    return word_add(c, f);
}

static bool put_flag(struct mcp_command *c, const struct argument *a, const json_t *value,
                     struct fault *f)
{
    if (!json_is_boolean(value)) {
        return bad(a, "true or false", f);
    }
    if (json_is_false(value)) {
        return true;
    }
    buf_printf(&c->text, "--%s", a->option);
    return word_add(c, f);
}

static bool put_argument(struct mcp_command *c, const struct argument *a, const json_t *value,
                         struct fault *f)
{
    switch (a->kind) {
    case NUMBERS:
        return put_numbers(c, a, value, f);
    case A_NUMBER:
    case A_COUNT:
    case A_CURSOR:
        return put_number(c, a, value, f);
    case A_FLAG:
        return put_flag(c, a, value, f);
    case A_WORD:
    case A_TEXT:
    default:
        return put_text(c, a, value, f);
    }
}

static bool put_word(struct mcp_command *c, const char *word, struct fault *f)
{
    buf_put_text(&c->text, word);
    return word_add(c, f);
}

/* Options first, then "--", after which nothing is one. */
static bool put_arguments(struct mcp_command *c, const struct mcp_tool *tool,
                          const json_t *arguments, bool options, struct fault *f)
{
    bool ok = true;
    for (size_t i = 0; i < ARGS_MAX && tool->arguments[i] && ok; i++) {
        const struct argument *a = tool->arguments[i];
        const json_t *value = json_object_get(arguments, a->name);
        if ((a->option != NULL) != options) {
            continue;
        }
        if (value && !json_is_null(value)) {
            ok = put_argument(c, a, value, f);
        } else if (a->required) {
            ok = fault_set(f, FAULT_REFUSED, "\"%s\" is missing", a->name);
        } else if (a->kind == A_COUNT) {
            ok = put_word(c, "--limit=20", f);
        }
    }
    return ok;
}

static bool names_check(const struct mcp_tool *tool, const json_t *arguments, struct fault *f)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)arguments, name, value)
    {
        bool known = false;
        for (size_t i = 0; i < ARGS_MAX && tool->arguments[i] && !known; i++) {
            known = strcmp(tool->arguments[i]->name, name) == 0;
        }
        if (!known) {
            return fault_set(f, FAULT_REFUSED, "there is no argument \"%.*s\"",
                             (int)mcp_cut(name, strlen(name), 100), name);
        }
    }
    return true;
}

static void words_find(struct mcp_command *c)
{
    const char *at = buf_text(&c->text);
    for (size_t i = 0; i < c->n; i++) {
        c->words[i] = at;
        at += strlen(at) + 1;
    }
    c->words[c->n] = NULL;
}

bool mcp_tool_command(const struct mcp_tool *tool, const json_t *arguments, struct mcp_command *ret,
                      struct fault *f)
{
    *ret = (struct mcp_command){.n = 0};
    buf_init(&ret->text, MCP_OUTPUT_BYTES_MAX);
    bool ok = names_check(tool, arguments, f) && put_word(ret, "tenon", f) &&
              put_word(ret, tool->command[0], f) &&
              (tool->prints_text || put_word(ret, "--json", f)) &&
              (!tool->acts || tool->prints_text || put_word(ret, "--yes", f)) &&
              put_arguments(ret, tool, arguments, true, f) && put_word(ret, "--", f) &&
              (!tool->command[1] || put_word(ret, tool->command[1], f)) &&
              put_arguments(ret, tool, arguments, false, f);
    if (ok && ret->text.failed) {
        ok = fault_memory(f);
    }
    if (ok) {
        words_find(ret);
    }
    return ok;
}

void mcp_command_clear(struct mcp_command *c)
{
    buf_clear(&c->text);
}
