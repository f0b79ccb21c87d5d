/* label: unit */
/* Tasks that are given together: how many, when, and what becomes of those that wait. */
#include "tests/support/deciding.h"

#include <stdlib.h>

/* A worker of one slot whose child takes so many together; present, and its first round is asked
 * for. */
static struct decider *with_chunks(int chunk_size, int64_t chunk_wait_ms)
{
    struct decider *d = decider_make(1, 1, pool_mode);
    verdict = VERDICT_MINE;
    decider_chunks(d, 0, chunk_size, chunk_wait_ms);
    present(d, 0);
    (void)decide(d, 0);
    assert_int_equal(d->round.n_poll, chunk_size); /* as many as its child may get */
    return d;
}

/* The round in flight claims tasks `from` to `to`. */
static void claims(struct decider *d, int64_t now, int64_t from, int64_t to)
{
    struct claim *all[16];
    size_t n = 0;
    for (int64_t id = from; id <= to; id++) {
        all[n++] = claimed(id, "a");
    }
    commit(d, now, all, n);
    (void)decide(d, now);
}

static void ready(struct decider *d, int64_t now)
{
    feed(d, now, (struct event){.type = EVENT_CHILD_READY, .slot = 0, .room = d->handlers[0].room});
    (void)decide(d, now);
}

/* The tasks of the one call that was begun, in order, from this one on. */
static void assert_given(const struct decider *d, int64_t first, int n)
{
    const struct action *a = action_find(d, ACTION_GIVE);
    assert_int_equal(action_count(d, ACTION_GIVE), 1);
    assert_int_equal(a->n, n);
    const struct claim *c = a->claim;
    for (int i = 0; i < n; i++, c = c->next) {
        assert_int_equal(c->id, first + i);
        assert_int_equal(c->slot, a->slot);
    }
}

/* Another one has come, and wakes it. */
static void wake(struct decider *d, int64_t now, int64_t id)
{
    feed(d, now,
         (struct event){.type = EVENT_WAKEUPS, .ids = &id, .n = 1, .last_tag = (uint64_t)id});
    (void)decide(d, now);
    assert_int_equal(d->round.n_ids, 1);
    claims(d, now + 1, id, id);
}

/* It is claimed though there is no room now: its child was to be free by then. */
static void claim_ahead(struct decider *d, int64_t now, int64_t id)
{
    assert_false(d->rounds.in_flight);
    d->rounds.in_flight = true;
    claims(d, now, id, id);
}

static void test_they_wait_for_each_other(void **state)
{
    (void)state;
    struct decider *d = with_chunks(3, 5000);
    claims(d, 1, 1, 2);
    assert_non_null(action_find(d, ACTION_SPAWN));
    ready(d, 2);
    assert_null(action_find(d, ACTION_GIVE));
    wake(d, 10, 3);
    assert_given(d, 1, 3);
    assert_int_equal(slots_room(d), 0);
    decider_free(d);
}

/* Nobody asks for them while they wait, but in the end: one may have been cancelled. */
static void test_the_first_waits_no_longer(void **state)
{
    (void)state;
    struct decider *d = with_chunks(3, 700);
    claims(d, 1, 1, 2);
    ready(d, 2);
    for (int64_t now = 3; now < 701; now += 20) {
        assert_true(decide(d, now) <= 701);
        assert_int_equal(d->rounds.in_flight ? d->round.n_verify : 0, 0);
        settle(d, now);
        assert_int_equal(d->n_given, 0);
    }
    (void)decide(d, 701);
    assert_int_equal(d->n_given, 0);
    assert_int_equal(d->round.n_verify, 2);
    for (size_t i = 0; i < 2; i++) {
        d->round.verdicts[i] = d->round.verify[i].id == 1 ? VERDICT_CANCELLED : VERDICT_MINE;
    }
    feed(d, 750, (struct event){.type = EVENT_ROUND_DONE});
    (void)decide(d, 750);
    assert_non_null(note_find(d, NOTE_CLAIM_LOST));
    assert_given(d, 2, 1);
    decider_free(d);
}

/* One of those that were asked about is gone: the next one is asked about too, and goes along. */
static void test_one_that_is_gone_is_replaced(void **state)
{
    (void)state;
    struct decider *d = with_chunks(2, 5000);
    claims(d, 1, 1, 2);
    claim_ahead(d, 2, 3);
    ready(d, 200);
    assert_int_equal(d->round.n_verify, 2);
    for (size_t i = 0; i < 2; i++) {
        d->round.verdicts[i] = d->round.verify[i].id == 2 ? VERDICT_CANCELLED : VERDICT_MINE;
    }
    feed(d, 210, (struct event){.type = EVENT_ROUND_DONE});
    int64_t due = decide(d, 210);
    assert_int_equal(d->n_given, 0);
    (void)decide(d, due);
    assert_int_equal(d->round.n_verify, 2);
    for (size_t i = 0; i < 2; i++) {
        d->round.verdicts[i] = VERDICT_MINE;
    }
    feed(d, due, (struct event){.type = EVENT_ROUND_DONE});
    (void)decide(d, due);
    const struct action *a = action_find(d, ACTION_GIVE);
    assert_non_null(a);
    assert_int_equal(a->n, 2);
    assert_int_equal(a->claim->next->id, 3);
    decider_free(d);
}

/* A call is over when all its tasks have ended, in whatever order. */
static void test_one_call_at_a_time(void **state)
{
    (void)state;
    struct decider *d = with_chunks(2, 0);
    claims(d, 1, 1, 2);
    ready(d, 2);
    assert_given(d, 1, 2);
    claim_ahead(d, 1100, 3);
    assert_null(action_find(d, ACTION_GIVE));
    reply(d, 1110, 2, OUTCOME_DONE);
    (void)decide(d, 1110);
    assert_null(action_find(d, ACTION_GIVE));
    settle(d, 1111);
    reply(d, 1120, 1, OUTCOME_FAILED);
    (void)decide(d, 1120);
    assert_null(action_find(d, ACTION_GIVE)); /* its round began long ago */
    settle(d, 1121);
    assert_given(d, 3, 1);
    decider_free(d);
}

/* It finds no child that is free, and is not asked about meanwhile: a second after it could have
 * been given it is released. */
static void test_it_waits_for_a_child(void **state)
{
    (void)state;
    struct decider *d = with_chunks(2, 700);
    claims(d, 1, 1, 2);
    ready(d, 2);
    assert_given(d, 1, 2);
    d->slots[0].given->deadline_ms = d->slots[0].given->next->deadline_ms = 1000000;
    settle(d, 3);
    claim_ahead(d, 10, 3);
    for (int64_t now = 10; now < 1710; now += 50) {
        (void)decide(d, now);
        assert_false(d->rounds.in_flight);
        assert_int_equal(d->n_waiting, 1);
    }
    (void)decide(d, 1710);
    assert_int_equal(d->n_waiting, 0);
    settle(d, 1710);
    decider_free(d);
}

/* Tasks with large payloads: what holds so much that no more is claimed waits for no others. */
static void test_large_payloads(void **state)
{
    (void)state;
    struct decider *d = with_chunks(5, 5000);
    struct claim *all[] = {claimed(1, "a"), claimed(2, "a"), claimed(3, "a"), claimed(4, "a")};
    for (size_t i = 0; i < 4; i++) {
        all[i]->payload_bytes = HELD_BYTES_MAX / 4;
    }
    all[0]->payload_bytes = all[1]->payload_bytes = CHUNK_BYTES_MAX * 3 / 4;
    all[3]->payload_bytes += CHUNK_BYTES_MAX;
    commit(d, 1, all, 4);
    (void)decide(d, 1);
    ready(d, 2);
    assert_given(d, 1, 2);
    decider_free(d);
}

static void test_a_drain_waits_for_no_others(void **state)
{
    (void)state;
    struct decider *d = with_chunks(3, 5000);
    claims(d, 1, 1, 2);
    ready(d, 2);
    settle(d, 3);
    feed(d, 4, (struct event){.type = EVENT_STOP});
    (void)decide(d, 4);
    assert_null(action_find(d, ACTION_GIVE));
    assert_int_equal(d->round.n_requeue, 2);
    assert_int_equal(d->round.requeue[0]->outcome, OUTCOME_RELEASED);
    settle(d, 5);
    decider_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_they_wait_for_each_other),
        cmocka_unit_test(test_the_first_waits_no_longer),
        cmocka_unit_test(test_one_that_is_gone_is_replaced),
        cmocka_unit_test(test_one_call_at_a_time),
        cmocka_unit_test(test_it_waits_for_a_child),
        cmocka_unit_test(test_large_payloads),
        cmocka_unit_test(test_a_drain_waits_for_no_others),
    };
    return RUN_GROUP(tests);
}
