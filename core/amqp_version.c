#include "core/amqp_version.h"

#include <amqp.h>

const char *amqp_library_version(void)
{
    return amqp_version();
}
