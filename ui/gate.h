/* What every request must be, before anybody asks who it is; and what every answer says. */
#ifndef TENON_UI_GATE_H
#define TENON_UI_GATE_H

#include "core/http/http.h"
#include "core/options/option.h"

/* Headers of every answer: no scripts but ours, no frames, no guessing of types. */
void gate_headers(struct http_answer *a);

/* Is there only one way to read the request? Each header that decides something occurs once, and
 * the body has one length. A proxy and this server might otherwise read two different requests.
 *   false   REFUSED; the connection must be closed */
MUST_CHECK bool gate_request(const struct options *o, const struct http_request *r,
                             struct fault *f);

/* Does the request name this host as one that may be named: an address, localhost, or one of
 * --hosts? A page elsewhere whose name was made to lead here (DNS rebinding) names itself.
 *   false   REFUSED */
MUST_CHECK bool gate_host(const struct options *o, const struct http_request *r, struct fault *f);

/* Was a request made by our own page, or by a program? Browsers send a password that they know, and
 * a proxy's cookie, with the requests of other pages too. One that changes something needs a header
 * that no other page can send, and must not have another page's origin.
 *   false   REFUSED */
MUST_CHECK bool gate_origin(const struct http_request *r, bool changes, struct fault *f);

#endif
