#include "worker/note.h"

#include "core/base/log.h"

static const struct {
    enum log_level level;
    const char *event;
} notes[] = {
    [NOTE_TASK_DONE] = {LOG_DEBUG, "task_done"},
    [NOTE_TASK_FAILED] = {LOG_WARNING, "task_failed"},
    [NOTE_TASK_SNOOZED] = {LOG_INFO, "task_snoozed"},
    [NOTE_TASK_WAITS_SIGNAL] = {LOG_INFO, "task_waits_signal"},
    [NOTE_TASK_RELEASED] = {LOG_INFO, "task_released"},
    [NOTE_TASK_DEAD] = {LOG_ERROR, "task_dead"},
    [NOTE_TASK_TIMED_OUT] = {LOG_WARNING, "task_timed_out"},
    [NOTE_TASK_CRASHED] = {LOG_WARNING, "task_crashed"},
    [NOTE_CLAIM_LOST] = {LOG_WARNING, "claim_lost"},
    [NOTE_PROGRESS_REFUSED] = {LOG_WARNING, "progress_refused"},
    [NOTE_STEP_REFUSED] = {LOG_WARNING, "step_refused"},
    [NOTE_HANDLER_BACKS_OFF] = {LOG_WARNING, "handler_backs_off"},
    [NOTE_HANDLER_STARTING] = {LOG_WARNING, "handler_starting"},
    [NOTE_ROUND_FAILED] = {LOG_WARNING, "round_failed"},
    [NOTE_ROUND_WORKS] = {LOG_INFO, "round_works"},
    [NOTE_DRAINING] = {LOG_INFO, "draining"},
    [NOTE_STOPPING_CHILDREN] = {LOG_WARNING, "stopping_children"},
};

void note_log(const struct action *a)
{
    enum log_level level = notes[a->note].level;
    const char *event = notes[a->note].event;
    if (a->task) {
        log_event(level, LOG_EVENT(event), LOG_NUM("task", a->task), LOG_TEXT("text", a->text));
    } else {
        log_event(level, LOG_EVENT(event), LOG_TEXT("text", *a->text ? a->text : NULL));
    }
}
