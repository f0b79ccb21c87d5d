-- Which migrations were applied. Programs read it before they do anything else.
CREATE TABLE tenon.migration (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,
    breaking   boolean     NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
