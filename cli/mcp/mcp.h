/* `tenon mcp`: the Model Context Protocol on stdin and stdout, a message on each line. A tool is a
 * command of tenon, which runs as a process of its own: the answer is what it prints as JSON. */
#ifndef TENON_CLI_MCP_H
#define TENON_CLI_MCP_H

#include "core/base/buf.h"
#include "core/options/option.h"

#include <jansson.h>
#include <sys/types.h>

enum {
    MCP_LINE_BYTES_MAX = 1 << 20,    /* of a message */
    MCP_CALLS_MAX = 8,               /* at once */
    MCP_CALL_LIMIT_MS = 60000,       /* of one of them */
    MCP_END_LIMIT_MS = 2000,         /* of those that run when stdin ends */
    MCP_OUTPUT_BYTES_MAX = 16 << 20, /* of a command */
    MCP_ERROR_BYTES_MAX = 4096,      /* of what it says on stderr */
    MCP_ANSWER_BYTES_MAX = 32768,    /* of what a model gets to read */
    MCP_IDS_MAX = 100,               /* of an act */
    MCP_TEXT_BYTES_MAX = 1000,       /* of an argument */
    MCP_WORDS_MAX = MCP_IDS_MAX + 32 /* of a command line */
};

/* --- tools: mcp_tools.c --------------------------------------------------------------------- */

struct mcp_tool;

/* Those that there are, as tools/list shows them. A new reference; NULL: no memory. */
json_t *mcp_tools_list(bool acts);

/* NULL: there is none of this name. */
const struct mcp_tool *mcp_tool_find(const char *name, bool acts);

bool mcp_tool_acts(const struct mcp_tool *tool);

/* The member of the command's answer that the tool returns; NULL = all of it. */
const char *mcp_tool_member(const struct mcp_tool *tool);

/* The newest of the command's lines come last, and matter most. */
bool mcp_tool_newest_last(const struct mcp_tool *tool);

/* A command line. The words live as long as `text`. */
struct mcp_command {
    const char *words[MCP_WORDS_MAX]; /* a NULL ends them */
    size_t n;
    struct buf text;
};

/* The command line for these arguments, which may be NULL.
 *   ret     cleared by the caller, whatever comes back
 *   false   REFUSED: which argument is missing, unknown or not allowed; MEMORY */
MUST_CHECK bool mcp_tool_command(const struct mcp_tool *tool, const json_t *arguments,
                                 struct mcp_command *ret, struct fault *f);
void mcp_command_clear(struct mcp_command *c);

/* --- answers: mcp_bound.c ------------------------------------------------------------------- */

/* How many bytes of a text of `n` bytes fit in `most`; no UTF-8 character is cut, since JSON has
 * whole ones only. */
size_t mcp_cut(const char *text, size_t n, size_t most);

/* Put what a command has printed, of at most MCP_ANSWER_BYTES_MAX bytes: JSON loses the ends of its
 * long texts and lists, each of which says how much is left out; other texts lose their end, or
 * where the newest lines come last, the lines at their beginning. */
void mcp_bound(struct buf *b, const struct buf *printed, const struct mcp_tool *tool);

/* --- calls: mcp_call.c ---------------------------------------------------------------------- */

struct mcp_call {
    json_t *id; /* NULL = this one is free */
    const struct mcp_tool *tool;
    pid_t pid;
    int out, err; /* of the command; -1 = it has closed it */
    struct buf text, errors;
    int64_t until_ms;
};

/* Start the command line as a process.
 *   user    for the audit, as the name of the web user
 *   false   RETRY: no pipe, no process */
MUST_CHECK bool mcp_call_start(struct mcp_call *c, const struct options *o,
                               const struct mcp_command *command, const char *user,
                               struct fault *f);

/* Read what is there. True: the command has closed both of its outputs. */
bool mcp_call_read(struct mcp_call *c);

/* Wait for the process, which is killed first where `kills`. Its exit code. */
int mcp_call_end(struct mcp_call *c, bool kills);
void mcp_call_clear(struct mcp_call *c);

/* --- messages: mcp_message.c ---------------------------------------------------------------- */

struct mcp {
    const struct options *options;
    bool acts;
    bool greeted;    /* the client began with initialize, as before 2026-07-28 */
    char client[64]; /* what it calls itself */
    struct mcp_call calls[MCP_CALLS_MAX];
};

/* Answer a line, or start its call. */
void mcp_take_line(struct mcp *m, const char *line, size_t bytes);

/* The line was over the limit. */
void mcp_refuse_line(void);

/* Answer a call that has ended, or ran out of time. */
void mcp_answer_call(struct mcp_call *c, bool in_time);

#endif
