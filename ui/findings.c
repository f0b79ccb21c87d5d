/* What `tenon doctor` finds, for the page. */
#include "ui/api.h"

#include "cli/doctor/doctor.h"
#include "core/base/now.h"

#include <stdlib.h>

/* Several pages, and their refreshes, share one look. */
enum { AGAIN_MS = 10000 };

static bool look(struct ui *ui, struct fault *f)
{
    struct findings *seen = &ui->findings;
    json_t *findings = NULL, *unseen = NULL;
    atomic_store(&seen->outdated, false);
    if (!doctor_examine(ui->options, &findings, &unseen, f)) {
        return false;
    }
    json_t *both = json_pack("{s:o, s:o}", "findings", findings, "unseen", unseen);
    char *text = both ? json_dumps(both, JSON_COMPACT) : NULL;
    json_decref(both);
    buf_empty(&seen->json);
    buf_put_text(&seen->json, text ? text : "");
    bool ok = text && !seen->json.failed;
    free(text);
    seen->at_ms = ok ? now_ms() : 0;
    return ok || fault_memory(f);
}

void findings_forget(struct findings *seen)
{
    atomic_store(&seen->outdated, true);
}

bool read_doctor(struct call *c, struct fault *f)
{
    struct findings *seen = &c->ui->findings;
    (void)pthread_mutex_lock(&seen->lock);
    bool fresh = seen->at_ms != 0 && now_ms() - seen->at_ms < AGAIN_MS &&
                 !atomic_load(&seen->outdated);
    bool ok = fresh || look(c->ui, f);
    if (ok) {
        buf_put(&c->answer->body, buf_text(&seen->json), seen->json.len);
    }
    (void)pthread_mutex_unlock(&seen->lock);
    return ok;
}
