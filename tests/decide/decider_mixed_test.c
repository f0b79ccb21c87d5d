/* label: unit */
/* Handlers of two kinds in one worker with few slots: what a task costs, in children that start. */
#include "tests/support/deciding.h"

enum { SLOTS = 2, TASKS = 600, EXEC_MS = 25, START_MS = 40, POOL_MS = 2, LIMIT_MS = 30000 };

/* A backlog of tasks that take turns; "a" is the first handler, "b" the other. */
struct backlog {
    struct decider *d;
    int next, done, started[2];
    int64_t due_ms[SLOTS]; /* when the child of a slot says its next word; 0 = it is silent */
};

static void answer_round(struct backlog *b, int64_t now)
{
    struct claim *found[ROUND_CLAIMS_MAX];
    size_t n = 0, most = (size_t)b->d->round.n_poll;
    while (n < most && b->next < TASKS) {
        found[n++] = claimed(1 + b->next, b->next % 2 == 0 ? "a" : "b");
        b->next++;
    }
    commit(b->d, now, found, n);
}

static void child_speaks(struct backlog *b, int slot, int64_t now)
{
    const struct slot *s = &b->d->slots[slot];
    bool pool = b->d->handlers[s->handler].pool;
    b->due_ms[slot] = 0;
    if (s->state == SLOT_STARTING) {
        feed(b->d, now, (struct event){.type = EVENT_CHILD_READY, .slot = slot, .room = 1});
        return;
    }
    if (s->given) {
        feed(b->d, now,
             (struct event){.type = EVENT_REPLY,
                            .slot = slot,
                            .id = s->given->id,
                            .delay_ms = -1,
                            .outcome = OUTCOME_DONE});
        b->done++;
    }
    if (!pool || s->closing) {
        gone(b->d, now, slot, "exit status 0");
    }
}

static void act(struct backlog *b, int64_t now)
{
    (void)decide(b->d, now);
    for (size_t i = 0; i < b->d->actions.n; i++) {
        const struct action *a = &b->d->actions.items[i];
        if (a->type == ACTION_SPAWN) {
            b->started[a->handler]++;
            b->due_ms[a->slot] = now + (a->claim ? EXEC_MS : START_MS);
        } else if (a->type == ACTION_GIVE || a->type == ACTION_CLOSE) {
            b->due_ms[a->slot] = now + POOL_MS;
        }
    }
}

/* ret: when all were done, in milliseconds from the first poll on */
static int64_t run_backlog(struct backlog *b, const bool *mode)
{
    *b = (struct backlog){.d = decider_make(SLOTS, 2, mode)};
    present(b->d, 0);
    for (int64_t now = 0; now < LIMIT_MS; now++) {
        for (int slot = 0; slot < SLOTS; slot++) {
            if (b->due_ms[slot] > 0 && now >= b->due_ms[slot]) {
                child_speaks(b, slot, now);
            }
        }
        act(b, now);
        if (b->d->rounds.in_flight) {
            b->d->polling.next_ms = now;
            answer_round(b, now);
            act(b, now);
        }
        if (b->done == TASKS) {
            return now;
        }
    }
    fail_msg("%d of %d tasks ended", b->done, TASKS);
    return 0;
}

static void end_backlog(struct backlog *b)
{
    settle(b->d, LIMIT_MS);
    decider_free(b->d);
}

/* The exec tasks keep one slot busy, the pool's child stays in the other one. Half of the mean of
 * what both do apart: as long as all tasks of the one and all of the other, one after the other. */
static void test_exec_and_pool_do_not_thrash(void **state)
{
    (void)state;
    static const bool modes[][2] = {{false, true}, {true, false}};
    const int64_t apart_ms = (int64_t)TASKS / SLOTS * (EXEC_MS + POOL_MS);
    for (int i = 0; i < 2; i++) {
        struct backlog b;
        int64_t took_ms = run_backlog(&b, modes[i]);
        assert_in_range(b.started[i == 0 ? 1 : 0], 1, 3);
        assert_in_range(took_ms, 1, apart_ms);
        end_backlog(&b);
    }
}

static void test_two_pools_do_not_thrash(void **state)
{
    (void)state;
    struct backlog b;
    (void)run_backlog(&b, pool_mode);
    assert_in_range(b.started[0] + b.started[1], 2, 4);
    end_backlog(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exec_and_pool_do_not_thrash),
        cmocka_unit_test(test_two_pools_do_not_thrash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
