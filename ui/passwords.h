/* The file of --password-file: names, hashes as crypt(3) makes them, and who may only read. */
#ifndef TENON_UI_PASSWORDS_H
#define TENON_UI_PASSWORDS_H

#include "ui/auth.h"

struct passwords;

/* false: CONFIG: the file, its line and what is wrong with it; MEMORY */
MUST_CHECK bool passwords_read(const char *path, struct passwords **ret, struct fault *f);
void passwords_free(struct passwords *p); /* NULL is fine */

/* Is it the password of this user? One at a time, and as slow for a name that is not there. The
 * right one is hashed once: browsers send it with every request. */
bool passwords_fit(struct passwords *p, const char *user, const char *password, struct who *ret);

#endif
