/* The statements of tenon, each named after its .sql file. What blocks on a row says so; the caller
 * waits (server_wait()) and asks again. All times are in microseconds of the server's clock. */
#ifndef TENON_TESTS_SIM_STATEMENTS_H
#define TENON_TESTS_SIM_STATEMENTS_H

#include "tests/sim/server.h"
#include "worker/decide/decider.h"
#include "worker/poll.h"

struct request;
struct said;

struct fence {
    int64_t id, key;
};

/* A key of the model tells which claim of its task it is of. */
enum { KEY_CLAIMS = 1 << 16 };
static inline int fence_claims(struct fence f)
{
    return (int)(f.key % KEY_CLAIMS);
}

enum answer { ANSWER_NONE, ANSWER_YES, ANSWER_BLOCKED };

/* worker/ */
int worker_register(struct sim *s, int node);
bool worker_is(const struct sim *s, int worker, enum worker_state state, int64_t session);
/* `kinds`: a bit for each kind; ret: the row, claimed, or NULL */
struct row *task_claim(struct sim *s, int64_t session, int worker, int64_t id, unsigned kinds);
/* The next row of a range behind `place`, which moves there. NULL: no more */
struct row *task_read(struct sim *s, int64_t session, size_t queue, int priority,
                      struct poll_place *place);
enum write_state task_progress(struct sim *s, const struct request *from, const struct said *p);
enum write_state task_step(struct sim *s, int64_t session, struct fence f, int number);
enum answer task_finish(struct sim *s, int64_t session, struct fence f, bool unlocked);
enum requeue_state task_requeue(struct sim *s, int64_t session, struct fence f, const char *reason,
                                int64_t delay_ms);
enum verdict task_verify(struct sim *s, int64_t session, struct fence f, int64_t *ret_timeout_ms);

/* applications */
struct row *task_enqueue(struct sim *s, int64_t session);
enum answer task_cancel(struct sim *s, int64_t session, int64_t id);
void task_retry(struct sim *s, int64_t session, struct row *r); /* a dead one */
void task_delete(struct sim *s, int64_t session, struct row *r);
enum answer task_lock(struct sim *s, int64_t session, int64_t id);

/* cleaner/ */
bool worker_declare_dead(struct sim *s, int64_t session, int worker);
bool worker_lock_is_free(const struct sim *s, int worker);

/* turn.sql, claim_alone.sql, turn_over.sql: which of them a request asks for; and its commit */
void alone_answer(struct sim *s, struct request *r);
void alone_commit(struct sim *s, const struct request *r);

#endif
