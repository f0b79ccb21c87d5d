/* `tenon ui`: tenon in the browser. */
#ifndef TENON_UI_UI_H
#define TENON_UI_UI_H

#include "core/options/option.h"

/* Serve until SIGTERM or SIGINT; returns the exit code. */
int ui_main(const struct options *o);

#endif
