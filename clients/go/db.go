package tenon

import (
	"context"
	"database/sql"
	"fmt"
)

// A Row is a *sql.Row or a pgx.Row.
type Row interface {
	Scan(dest ...any) error
}

// A DB is a connection, a pool or a transaction: a pgx.Tx, *pgx.Conn or *pgxpool.Pool as it is, and a *sql.Tx,
// *sql.Conn or *sql.DB through [SQL]. Go infers R.
type DB[R Row] interface {
	QueryRow(ctx context.Context, query string, args ...any) R
}

// SQLQuerier is what database/sql has: *sql.Tx, *sql.Conn, *sql.DB, and the types of sqlx and bun that embed them.
type SQLQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// SQL makes a DB of a transaction, a connection or a pool of database/sql: tenon.Enqueue(ctx, tenon.SQL(tx), mail).
func SQL(db SQLQuerier) DB[*sql.Row] {
	return sqlDB{db}
}

type sqlDB struct {
	db SQLQuerier
}

func (s sqlDB) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return s.db.QueryRowContext(ctx, query, args...)
}

// A call is a SELECT of one of tenon's functions. Each argument is sent as text and cast in SQL, so that it means the
// same with every driver and in every mode of theirs.
type call struct {
	text string
	args []any
}

// param keeps a value and returns its $n with the cast; a value that is nil is NULL.
func (c *call) param(cast string, value any) string {
	c.args = append(c.args, value)
	if cast == "text" {
		return fmt.Sprintf("$%d::text", len(c.args))
	}
	return fmt.Sprintf("$%d::text::%s", len(c.args), cast)
}

// query runs a call that returns one row.
func query[R Row](ctx context.Context, db DB[R], c *call, dest ...any) error {
	return db.QueryRow(ctx, c.text, c.args...).Scan(dest...)
}

// one is the value that a call returns.
func one[T any, R Row](ctx context.Context, db DB[R], c *call) (value T, err error) {
	err = query(ctx, db, c, &value)
	return value, err
}
