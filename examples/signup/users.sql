-- The application's own table, in the same database as tenon, and the role it works as. The role may
-- write users; `tenon setup --grant-producer signup` lets it enqueue, and nothing else of tenon.
CREATE SCHEMA app;
CREATE TABLE app.users (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email      text        NOT NULL UNIQUE,
    name       text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE ROLE signup LOGIN;
GRANT USAGE ON SCHEMA app TO signup;
GRANT SELECT, INSERT ON app.users TO signup;
