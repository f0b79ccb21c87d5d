#!/bin/sh
# The roles that the parts of tenon log in with; `tenon setup` then grants them their rights. PostgreSQL's image runs
# this once, when its volume is new; on an old one, run it by hand:
#   docker compose -f compose/compose.yaml exec postgres sh /docker-entrypoint-initdb.d/roles.sh
set -eu
psql -X -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" \
    -v worker="$WORKER_PASSWORD" -v cleaner="$CLEANER_PASSWORD" -v reader="$READER_PASSWORD" -v app="$APP_PASSWORD" <<'END'
CREATE ROLE tenon_worker LOGIN PASSWORD :'worker';
CREATE ROLE tenon_cleaner LOGIN PASSWORD :'cleaner';
CREATE ROLE tenon_reader LOGIN PASSWORD :'reader';
CREATE ROLE app LOGIN PASSWORD :'app';
END
