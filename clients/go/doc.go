// Package tenon enqueues tasks in your own PostgreSQL transaction, and handles them: a task runs if the transaction
// commits, and never if it rolls back. https://github.com/tenon-tasks/tenon describes tenon; the README beside this file
// shows everything that this package does.
//
//	type WelcomeMail struct{ To string `json:"to"` }
//
//	func (WelcomeMail) Kind() string { return "welcome_mail" }
//
//	id, err := tenon.Enqueue(ctx, tx, WelcomeMail{To: "ann@example.org"}, tenon.Delay(time.Minute))
//
//	var mux tenon.Mux
//	tenon.Handle(&mux, func(ctx context.Context, t *tenon.Task[WelcomeMail]) (any, error) {
//		return nil, send(ctx, t.Payload.To, t.ID)
//	})
//	err = mux.Serve(tenon.Concurrency(20)) // in a process that tenon worker starts
//
// The package has no dependencies. It takes transactions of pgx as they are, and those of database/sql through [SQL].
package tenon
