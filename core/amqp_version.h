/* The version of librabbitmq, which only core/amqp_*.c know. */
#ifndef TENON_CORE_AMQP_VERSION_H
#define TENON_CORE_AMQP_VERSION_H

const char *amqp_library_version(void); /* "0.11.0" */

#endif
