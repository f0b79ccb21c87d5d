/* One value of an option as text, checked against what its row allows. */
#ifndef TENON_CORE_OPTION_VALUE_H
#define TENON_CORE_OPTION_VALUE_H

#include "core/options/option.h"

enum { OPTION_ALLOWED_BYTES = 256 };

/* Is `text` a value for this row? A LIST is checked item by item, by the caller.
 *   where   how the user named it: "--slots", "TENON_SLOTS", "tenon.conf:3: slots"
 *   ret     the value of INT, of DURATION in milliseconds, of FLAG 0 or 1, of CHOICE which; else 0
 *   false   CONFIG: names `where`, the value (unless it is secret), and what is allowed */
MUST_CHECK bool option_value_check(const struct option_row *row, const char *where,
                                   const char *text, int64_t *ret, struct fault *f);

/* What a row allows, in words: "a whole number from 1 to 1000 (tasks)". */
void option_value_allowed(const struct option_row *row, char text[OPTION_ALLOWED_BYTES]);

/* The names that sql/tables.sql allows too. */
#define QUEUE_ALLOWED "1 to 63 of a-z 0-9 _ . -, the first not . or -"
#define KIND_ALLOWED "1 to 100 of A-Z a-z 0-9 _ . : -"
bool fits_queue(const char *text);
bool fits_kind(const char *text);

#define VARIABLE_ALLOWED "the name of a variable"

/* The name of a variable, KIND=COMMAND, "amqp://..." or "none", "http://...", a W3C traceparent. */
bool fits_variable(const char *text);
bool fits_handler(const char *text);
bool fits_amqp_url(const char *text);
bool fits_http_url(const char *text);
bool fits_trace(const char *text);
bool fits_rate(const char *text);   /* "100/s" */
bool fits_starts(const char *text); /* "100/1min" */
bool fits_id(const char *text);     /* of a task */

#define BROKER_QUEUE_ALLOWED "the name of a queue in RabbitMQ, 1 to 190 bytes"
bool fits_broker_queue(const char *text);
bool fits_offset(const char *text);    /* "first", "17" */
bool fits_kind_from(const char *text); /* "type", "header:NAME" */
bool fits_key_from(const char *text);  /* "message-id", "header:NAME" */
bool fits_kinds(const char *text);     /* "order.*" */

#define ADDRESS_ALLOWED "HOST:PORT, such as 127.0.0.1:7070 or [::1]:7070"
bool fits_address(const char *text);
bool fits_host(const char *text);    /* "tasks.example.org" */
bool fits_header(const char *text);  /* "X-Forwarded-User" */
bool fits_network(const char *text); /* "10.0.0.0/8" */

#endif
