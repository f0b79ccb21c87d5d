/* The running cleaner: what its chores share. Inside cleaner/ only. */
#ifndef TENON_CLEANER_STATE_H
#define TENON_CLEANER_STATE_H

#include "cleaner/decide/pace.h"
#include "cleaner/decide/pass.h"
#include "cleaner/decide/settled.h"
#include "cleaner/decide/verdict.h"
#include "cleaner/decide/watermark.h"
#include "core/amqp/amqp_publisher.h"
#include "core/base/throttle.h"
#include "core/db/db.h"
#include "core/http/otlp.h"

#define CLEANER_BATCH_ROWS "500"  /* that one statement locks */
#define CLEANER_WAKE_ROWS "10000" /* TOPOLOGY_WINDOW_IDS: workers that are busy find the others */

enum {
    CLEANER_ROWS_MAX = 500,        /* the same */
    CLEANER_GRACE_S = 60,          /* a task may be so late before its worker loses it */
    CLEANER_ONCE_TRIES = 10,       /* how often --once tries a chore that met a lock */
    CLEANER_NOTICE_BYTES = 7800,   /* PostgreSQL allows a NOTIFY fewer than 8000 */
    CLEANER_LEADERLESS_MS = 10000, /* without a leader for this long is an error */
    CLEANER_REPORT_MS = 60000,     /* between two statistics lines */
    CLEANER_STOP_LIMIT_MS = 900,   /* from SIGTERM to the end */
    CLEANER_STOP_LIMIT_S = 1,      /* the same, whatever hangs */
    CLEANER_SPANS_LIMIT_MS = 200,  /* for spans after SIGTERM; the publisher takes half a second */
    CLEANER_FLUSH_LIMIT_MS = 5000  /* how long --once waits for confirms */
};

/* What was done since the last statistics line. */
struct counts {
    int64_t fresh, due, ready;             /* rows whose workers were to be woken */
    int64_t ticks;                         /* of schedules, that made a task */
    int64_t notices;                       /* NOTIFYs instead of wake-ups */
    int64_t recovered;                     /* tasks requeued, by whatever reason */
    int64_t dead;                          /* tasks that ended dead in a recovery */
    int64_t workers;                       /* workers declared dead */
    int64_t published, held_back, dropped; /* by the publisher */
    int64_t sent, refused, expired;        /* messages, by the relay */
    int64_t spans_sent, spans_dropped;
};

/* What the next NOTIFY says, see wake.h. */
struct notice {
    int64_t tasks;                   /* that it is for */
    bool anything;                   /* there are more words than it can say */
    char text[CLEANER_NOTICE_BYTES]; /* " queue/kind queue/kind ... " */
};

enum chore_id {
    CHORE_WATCH,
    CHORE_PARTITIONS,
    CHORE_SETTLE,    /* before those that wake workers for the tasks that it makes or unblocks */
    CHORE_SCHEDULES, /* before those that publish what it enqueues */
    CHORE_FRESH,
    CHORE_DUE,
    CHORE_READY,   /* before the one that publishes itself what it recovers */
    CHORE_WORKERS, /* before the one that recovers what they had started */
    CHORE_RECOVER,
    CHORE_MINUTES,
    CHORE_HISTORY,
    CHORE_REPORT,
    CHORE_COUNT
};

/* What a pass has requeued so far. */
struct recovered {
    int64_t tasks;
    int64_t dead; /* of them, those that ended dead */
};

/* A row of tenon.chore_failure. */
struct failure {
    bool is_told;
    int64_t told_ms;
};

/* The state of a chore. */
struct chore_state {
    int64_t next_ms; /* when it runs next; INT64_MAX = no more (--once) */
    int failures;    /* in a row */
    bool logged;     /* the failure was logged */
    struct failure failure;
};

struct cleaner {
    const char *database_url; /* borrowed from the options */
    const char *amqp_url;     /* borrowed, too; NULL = none */
    const char *otlp_url;     /* the same; NULL = no collector */
    bool once;

    char exchange[TOPOLOGY_EXCHANGE_BYTES]; /* as the first session read it */
    struct publisher *publisher;            /* NULL: works without a broker */
    struct otlp *otlp;                      /* NULL: no spans */
    struct notice notice;
    struct db *hot;       /* its session; NULL: not connected */
    int64_t reconnect_ms; /* when to connect again */
    int connect_failures; /* in a row */
    bool was_up;          /* was connected once, so that no fault at connecting is final any more */
    char
        down[FAULT_TEXT_BYTES_MAX]; /* why there is no session, as last logged; "" = there is one */

    char key[24];    /* of the lock by which this session leads, if tenon.setting names it */
    int64_t led_ms;  /* when somebody was seen to lead last */
    bool leaderless; /* and long enough that it was logged */
    bool leader;
    char sleeper_key[24]; /* of the lock that says that the leader sleeps */
    struct watermark watermark;
    struct settled settled;
    struct pace pace;
    int64_t message;                /* the newest of the outbox that fresh rows told of */
    bool notified;                  /* a NOTIFY came since fresh rows were read last */
    bool reread;                    /* they are read a second time at once */
    bool called;                    /* there was something to settle since it was done last */
    bool settled_many;              /* much was settled since fresh rows were read last */
    struct throttle reads, settles; /* because of one, and nothing was there */
    int64_t drop_ms;                /* when to drop old partitions again */
    int64_t due_us; /* delayed rows are published up to this run_at, microseconds since 1970 */
    struct verdict verdict;
    struct pass pass;
    struct recovered crashed, timed_out;
    int64_t recover_rows; /* that one statement recovers: fewer after one that was too slow */

    struct chore_state chores[CHORE_COUNT];
    struct counts counts;
    struct counts totals;          /* without those in `counts` */
    struct publisher_stats broker; /* as last seen */
    struct failure broker_failure;
    struct relay *relay; /* NULL: works without a broker */
    struct failure relay_failure;
    struct depth *depth; /* NULL: --once */
    struct failure depth_failure;
    struct publisher_stats reported; /* at the last statistics line */
    struct {
        int64_t sent, refused, expired;
    } relayed;               /* the same, of the relay */
    struct otlp_stats spans; /* the same */
    int64_t report_ms;
    struct cleaner_metrics *metrics; /* NULL = nobody is shown any */
    int exit_code;
    bool ended; /* nothing more to do, or a fault that a person must mend */
};

#endif
