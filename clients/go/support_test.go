package tenon_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	tenon "github.com/tenon-tasks/tenon/clients/go"
)

// patience is how long a test waits for what must come.
const patience = 60 * time.Second

// The test program is also the pool child of its workers.
func TestMain(m *testing.M) {
	switch os.Getenv("TENON_TEST_CHILD") {
	case "":
		os.Exit(m.Run())
	case "conformance":
		end(conformance().Serve(tenon.Concurrency(4)))
	case "one by one":
		end(app().Serve(tenon.Concurrency(1)))
	default:
		end(app().Serve(tenon.Concurrency(20)))
	}
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// database is the URL of the test's database; some tests need none.
func database(tb testing.TB) string {
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		tb.Skip("needs DATABASE_URL, a database with tenon's schema: clients_go_test gives it one")
	}
	return url
}

func pool(tb testing.TB) *pgxpool.Pool {
	db, err := pgxpool.New(tb.Context(), database(tb))
	must(tb, err)
	tb.Cleanup(db.Close)
	return db
}

// begin is a transaction that the test rolls back.
func begin(tb testing.TB) pgx.Tx {
	tx, err := pool(tb).Begin(tb.Context())
	must(tb, err)
	tb.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func standard(tb testing.TB) *sql.DB {
	db, err := sql.Open("pgx", database(tb))
	must(tb, err)
	tb.Cleanup(func() { db.Close() })
	return db
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// value is what a query returns.
func value[T any](tb testing.TB, db interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, query string, args ...any) (v T) {
	tb.Helper()
	must(tb, db.QueryRow(context.Background(), query, args...).Scan(&v))
	return v
}

// await asks until a query returns true.
func await(tb testing.TB, db *pgxpool.Pool, query string, args ...any) {
	tb.Helper()
	for until := time.Now().Add(patience); ; {
		if value[bool](tb, db, query, args...) {
			return
		}
		if time.Now().After(until) {
			tb.Fatalf("not within %v: %s", patience, query)
		}
		value[string](tb, db, "SELECT pg_sleep(0.02)::text")
	}
}

// A process is a program that the test has started, and kills at its end.
type process struct {
	tb   testing.TB
	cmd  *exec.Cmd
	mu   sync.Mutex
	said strings.Builder
	more chan struct{}
	gone chan struct{}
}

// program is the path of the program tenon.
func program(tb testing.TB) string {
	path := os.Getenv("TENON")
	if path == "" {
		tb.Skip("needs TENON, the program tenon: clients_go_test names it")
	}
	return path
}

// worker runs this test's handlers, and a cleaner beside it.
func worker(tb testing.TB, child string, args ...string) *process {
	tb.Helper()
	start(tb, program(tb), "cleaner").until("event=cleaner_started")
	w := start(tb, program(tb), append([]string{"worker", "--handlers", handlersFile(tb, child)}, args...)...)
	w.until("event=worker_ready")
	return w
}

// handlersFile has one section, for all kinds.
func handlersFile(tb testing.TB, child string) string {
	text := fmt.Sprintf("handler %q {\n    mode = \"pool\"\n    command = {\"env\", \"TENON_TEST_CHILD=%s\", \"APP_DATABASE_URL=%s\", %q}\n}\n",
		strings.Join(app().Kinds(), ","), child, database(tb), self(tb))
	path := filepath.Join(tb.TempDir(), "handlers.conf")
	must(tb, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// self is this test program.
func self(tb testing.TB) string {
	path, err := os.Executable()
	must(tb, err)
	return path
}

func start(tb testing.TB, name string, args ...string) *process {
	tb.Helper()
	p := &process{tb: tb, cmd: exec.Command(name, args...), more: make(chan struct{}, 1), gone: make(chan struct{})}
	log, err := p.cmd.StderrPipe()
	must(tb, err)
	must(tb, p.cmd.Start())
	go func() {
		for lines := bufio.NewScanner(log); lines.Scan(); {
			p.mu.Lock()
			fmt.Fprintln(&p.said, lines.Text())
			p.mu.Unlock()
			select {
			case p.more <- struct{}{}:
			default:
			}
		}
		_ = p.cmd.Wait()
		close(p.gone)
	}()
	tb.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.gone
		if tb.Failed() {
			tb.Logf("%s %v:\n%s", name, args, p.log())
		}
	})
	return p
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// until waits for a text in its log.
func (p *process) until(text string) {
	p.tb.Helper()
	late := time.After(patience)
	for !strings.Contains(p.log(), text) {
		select {
		case <-p.more:
		case <-p.gone:
			p.tb.Fatalf("ended without %q", text)
		case <-late:
			p.tb.Fatalf("no %q within %v", text, patience)
		}
	}
}

// wait waits for its end, and returns its exit code.
func (p *process) wait() int {
	p.tb.Helper()
	select {
	case <-p.gone:
	case <-time.After(patience):
		p.tb.Fatalf("it has not ended within %v", patience)
	}
	return p.cmd.ProcessState.ExitCode()
}
