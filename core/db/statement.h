/* A SQL statement that was embedded from a .sql file at build time: worker/claim.sql becomes
 * `sql_claim` in the generated "worker/statements.h". */
#ifndef TENON_CORE_STATEMENT_H
#define TENON_CORE_STATEMENT_H

struct statement {
    const char *name; /* the file's stem; also its name as a prepared statement */
    const char *text; /* one complete statement, without the final semicolon */
};

#endif
