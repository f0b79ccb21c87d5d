#include "worker/mailbox.h"

#include "core/base/thread.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool mailbox_init(struct mailbox *m, struct fault *f)
{
    *m = (struct mailbox){.fd = -1};
    (void)pthread_mutex_init(&m->mutex, NULL);
    return wakefd_open(&m->fd, f);
}

void mailbox_clear(struct mailbox *m)
{
    struct mail *mail = mailbox_take(m);
    while (mail) {
        struct mail *next = mail->next;
        free(mail);
        mail = next;
    }
    (void)close(m->fd);
    (void)pthread_mutex_destroy(&m->mutex);
}

static struct mail *copy_event(const struct event *event)
{
    size_t ids_bytes = event->ids ? event->n * sizeof *event->ids : 0;
    size_t text_bytes = event->text ? strlen(event->text) + 1 : 0;
    struct mail *mail = malloc(sizeof *mail + ids_bytes + text_bytes);
    if (!mail) {
        return NULL;
    }
    mail->event = *event;
    mail->next = NULL;
    char *at = (char *)(mail + 1);
    if (ids_bytes > 0) {
        memcpy(at, event->ids, ids_bytes);
        mail->event.ids = (const int64_t *)(const void *)at;
    }
    if (text_bytes > 0) {
        mail->event.text = memcpy(at + ids_bytes, event->text, text_bytes);
    }
    return mail;
}

void mailbox_push(struct mailbox *m, const struct event *event)
{
    struct mail *mail = copy_event(event);
    (void)pthread_mutex_lock(&m->mutex);
    if (!mail) {
        m->lost = true;
    } else if (m->last) {
        m->last->next = mail;
        m->last = mail;
    } else {
        m->first = m->last = mail;
    }
    (void)pthread_mutex_unlock(&m->mutex);
    wakefd_set(m->fd);
}

struct mail *mailbox_take(struct mailbox *m)
{
    wakefd_clear(m->fd);
    (void)pthread_mutex_lock(&m->mutex);
    struct mail *mail = m->first;
    m->first = m->last = NULL;
    (void)pthread_mutex_unlock(&m->mutex);
    return mail;
}
