// River: a table in PostgreSQL, LISTEN/NOTIFY; finished jobs are kept for a day.
//
//	river drain VARIANT JOBS | latency VARIANT JOBS | sustained VARIANT PRODUCERS SECONDS SLICE
//
// Workers run in processes of their own (river work VARIANT), which append each job's number and the time of its start to
// the file BENCH_STARTS. What was measured goes to stdout, a line for each figure: METRIC VALUE.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"golang.org/x/sys/unix"
)

const entryBytes = 16 // int64 number of the job, int64 nanoseconds of CLOCK_MONOTONIC

// The settings with which River's own benchmark command runs. A client that inserts notifies a queue at most once in a
// cooldown, so producers have them too. max has a second process.
const (
	fetchCooldown     = 2 * time.Millisecond
	fetchPollInterval = 20 * time.Millisecond
)

var processes = map[string]int{"recommended": 1, "max": 2}

type noop struct {
	I int64 `json:"i"`
}

func (noop) Kind() string { return "noop" }

type worker struct {
	river.WorkerDefaults[noop]
	starts *os.File
}

func (w *worker) Work(_ context.Context, job *river.Job[noop]) error {
	entry := binary.LittleEndian.AppendUint64(nil, uint64(job.Args.I))
	_, err := w.starts.Write(binary.LittleEndian.AppendUint64(entry, uint64(now())))
	return err
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

func now() int64 {
	var t unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_MONOTONIC, &t))
	return t.Nano()
}

func openPool(connections int) *pgxpool.Pool {
	config, err := pgxpool.ParseConfig(os.Getenv("RIVAL_URL"))
	must(err)
	config.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	must(err)
	return pool
}

func openClient(pool *pgxpool.Pool, config *river.Config) *river.Client[pgx.Tx] {
	config.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	must(err)
	return client
}

// work runs until the parent closes its stdin.
func work() {
	starts, err := os.OpenFile(os.Getenv("BENCH_STARTS"), os.O_WRONLY|os.O_APPEND, 0)
	must(err)
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{starts: starts})
	client := openClient(openPool(10), &river.Config{
		FetchCooldown: fetchCooldown, FetchPollInterval: fetchPollInterval, Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}},
	})
	must(client.Start(context.Background()))
	os.Stdin.Read(make([]byte, 1))
}

type bench struct {
	pool    *pgxpool.Pool
	client  *river.Client[pgx.Tx]
	variant string
	workers []io.Closer // the pipes to them: a worker ends when its pipe is closed, with this process at the latest
}

func open(variant string, connections int) *bench {
	pool := openPool(connections)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	must(err)
	_, err = migrator.Migrate(context.Background(), rivermigrate.DirectionUp, nil)
	must(err)
	return &bench{pool: pool, client: openClient(pool, &river.Config{FetchCooldown: fetchCooldown, FetchPollInterval: fetchPollInterval}), variant: variant}
}

func (b *bench) startWorkers() {
	for range processes[b.variant] {
		self, err := os.Executable()
		must(err)
		command := exec.Command(self, "work", b.variant)
		command.Stderr = os.Stderr
		pipe, err := command.StdinPipe()
		must(err)
		b.workers = append(b.workers, pipe)
		must(command.Start())
	}
}

func (b *bench) one(i int64) {
	_, err := b.client.Insert(context.Background(), noop{i}, nil)
	must(err)
}

func (b *bench) many(n int) {
	for at := 0; at < n; at += 10000 {
		var jobs []river.InsertManyParams
		for i := at; i < min(at+10000, n); i++ {
			jobs = append(jobs, river.InsertManyParams{Args: noop{int64(i)}})
		}
		_, err := b.client.InsertManyFast(context.Background(), jobs)
		must(err)
	}
}

func (b *bench) remaining() (n int) {
	must(b.pool.QueryRow(context.Background(), "SELECT count(*) FROM river_job WHERE finalized_at IS NULL").Scan(&n))
	return n
}

func (b *bench) settle() {
	for _, text := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
		_, err := b.pool.Exec(context.Background(), text)
		must(err)
	}
}

func started() int {
	stat, err := os.Stat(os.Getenv("BENCH_STARTS"))
	must(err)
	return int(stat.Size()) / entryBytes
}

func waitFor(n int) {
	for started() < n {
		time.Sleep(5 * time.Millisecond)
	}
}

// starts calls f with the number and the time of each job that has started, those of the warm-up left out.
func starts(f func(i, at int64)) {
	bytes, err := os.ReadFile(os.Getenv("BENCH_STARTS"))
	must(err)
	for entry := range slices.Chunk(bytes, entryBytes) {
		if i := int64(binary.LittleEndian.Uint64(entry)); i >= 0 {
			f(i, int64(binary.LittleEndian.Uint64(entry[8:])))
		}
	}
}

func (b *bench) warmUp(n int) {
	for range n {
		b.one(-1)
	}
	waitFor(n)
}

func drain(variant string, n int) {
	b := open(variant, 2)
	before := now()
	b.many(n)
	fmt.Println("bulk_tasks_per_s", float64(n)*1e9/float64(now()-before))
	b.settle()
	start := now()
	b.startWorkers()
	waitFor(n)
	for b.remaining() > 0 {
		time.Sleep(2 * time.Millisecond)
	}
	fmt.Println("tasks_per_s", float64(n)*1e9/float64(now()-start))
}

func latency(variant string, n int) {
	b := open(variant, 1)
	b.startWorkers()
	b.warmUp(50)
	sent := make([]int64, n)
	for i := range sent {
		sent[i] = now()
		b.one(int64(i))
		time.Sleep(20 * time.Millisecond)
	}
	waitFor(n + 50)
	var late []float64
	starts(func(i, at int64) { late = append(late, float64(at-sent[i])/1e6) })
	slices.Sort(late)
	for _, p := range []int{50, 95, 99} {
		fmt.Printf("p%d_ms %f\n", p, late[min(n-1, n*p/100)])
	}
}

// Slices of so many seconds are reported on their own when slice is not 0.
func sustained(variant string, producers, seconds, slice int) {
	b := open(variant, producers)
	b.startWorkers()
	b.warmUp(50)
	start := now()
	end := start + int64(seconds)*1e9
	var enqueued atomic.Int64
	var group sync.WaitGroup
	for range producers {
		group.Go(func() {
			for ; now() < end; enqueued.Add(1) {
				b.one(0)
			}
		})
	}
	group.Wait()
	fmt.Println("enqueued_per_s", float64(enqueued.Load())/float64(seconds))
	rate := func(from, to int) float64 {
		n := 0
		starts(func(_, at int64) {
			if at-start >= int64(from)*1e9 && at-start < int64(to)*1e9 {
				n++
			}
		})
		return float64(n) / float64(to-from)
	}
	fmt.Println("tasks_per_s", rate(0, seconds))
	for at := 0; slice > 0 && at+slice <= seconds; at += slice {
		fmt.Printf("slice_%d_tasks_per_s %f\n", at/slice, rate(at, at+slice))
	}
}

func main() {
	command, variant := os.Args[1], os.Args[2]
	numbers := make([]int, 3)
	for i, word := range os.Args[3:] {
		n, err := strconv.Atoi(word)
		must(err)
		numbers[i] = n
	}
	switch command {
	case "work":
		work()
	case "drain":
		drain(variant, numbers[0])
	case "latency":
		latency(variant, numbers[0])
	case "sustained":
		sustained(variant, numbers[0], numbers[1], numbers[2])
	}
}
