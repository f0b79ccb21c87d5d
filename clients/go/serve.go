package tenon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
)

// A ServeOption changes how [Mux.Serve] runs tasks.
type ServeOption func(*child)

// Concurrency is how many tasks the process runs at once, each in a goroutine: 1 to 1,024, 10 by default. The worker
// starts as many processes as it has slots.
func Concurrency(n int) ServeOption {
	return func(c *child) { c.inFlight = n }
}

// Serve runs this process as a pool child of a worker: it reads tasks from stdin, runs them, and answers on stdout, until
// the worker sends no more. What the handlers and their subprocesses print to stdout goes to stderr.
//
// Call it from main, and print nothing to stdout before: tenon worker --handler '*=pool:exec ./app worker'.
func (m *Mux) Serve(opts ...ServeOption) error {
	in, out, err := takeWire()
	if err != nil {
		return fmt.Errorf("could not take stdin and stdout: %w", err)
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	defer signal.Stop(terminated)
	return m.serve(in, out, terminated, opts)
}

// ServeOn is [Mux.Serve] on other streams, for tests: it speaks the protocol of docs/protocol.md.
func (m *Mux) ServeOn(in io.Reader, out io.Writer, opts ...ServeOption) error {
	return m.serve(in, out, nil, opts)
}

// A child is this process as the worker sees it.
type child struct {
	mux      *Mux
	inFlight int
	draining chan struct{}
	drain    sync.Once

	writing sync.Mutex
	out     io.Writer
	broken  error

	mu      sync.Mutex
	running map[int64]*Run
	ending  bool
	tasks   sync.WaitGroup
}

func (m *Mux) serve(in io.Reader, out io.Writer, terminated <-chan os.Signal, opts []ServeOption) error {
	c := &child{mux: m, inFlight: 10, out: out, draining: make(chan struct{}), running: map[int64]*Run{}}
	for _, option := range opts {
		option(c)
	}
	if c.inFlight < 1 || c.inFlight > 1024 {
		return fmt.Errorf("a concurrency of %d is not 1 to 1024", c.inFlight)
	}
	kinds, err := encode(m.Kinds())
	if err != nil {
		return err
	}
	c.say(fmt.Appendf(nil, `{"hello":"tenon","in_flight":%d,"stop":true,"kinds":%s}`, c.inFlight, kinds))
	read := make(chan error, 1)
	go func() { read <- c.read(in) }()
	select {
	case err = <-read:
		c.end(errors.New("the worker says nothing more: its input has ended"))
	case <-terminated:
		c.end(ErrDrain)
		c.stop(0, ErrDrain)
	}
	c.tasks.Wait()
	return errors.Join(err, c.broken)
}

// read handles the worker's lines until they end.
func (c *child) read(in io.Reader) error {
	for lines := bufio.NewReaderSize(in, 64<<10); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		c.line(bytes.TrimPrefix(line, []byte("\ufeff")))
	}
}

func (c *child) line(line []byte) {
	switch {
	case bytes.HasPrefix(line, []byte(`{"id":`)):
		c.start(line)
	case bytes.HasPrefix(line, []byte(`{"stop":`)):
		c.heardStop(line)
	case bytes.HasPrefix(line, []byte(`{"step":`)):
		var step struct {
			Step     int64  `json:"step"`
			Name     string `json:"name"`
			Recorded bool   `json:"recorded"`
		}
		if json.Unmarshal(line, &step) == nil {
			if run := c.run(step.Step); run != nil {
				run.told(step.Name, step.Recorded)
			}
		}
	}
}

func (c *child) heardStop(line []byte) {
	var stop struct {
		ID  *int64 `json:"stop"`
		Why string `json:"why"`
	}
	if json.Unmarshal(line, &stop) != nil {
		return
	}
	switch {
	case stop.ID == nil:
		c.drain.Do(func() { close(c.draining) })
	case stop.Why == "cancelled":
		c.stop(*stop.ID, ErrCancelled)
	default:
		c.stop(*stop.ID, ErrLost)
	}
}

// start runs a task in a goroutine of its own.
func (c *child) start(line []byte) {
	var task taskLine
	if err := json.Unmarshal(line, &task); err != nil {
		c.say(reply{Outcome: "dead", Error: "Go cannot read the payload: " + cut(err.Error(), noteBytesMax)}.line(idOf(line)))
		return
	}
	handler, ok := c.mux.handler(task.Kind)
	if !ok {
		c.say(reply{Outcome: "failed", Error: "no handler for " + task.Kind}.line(task.ID))
		return
	}
	ctx, run := newRun(context.Background(), &task, c.draining, c.say)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		run.end()
		return // the worker releases it when this process ends
	}
	c.running[run.ID] = run
	c.tasks.Go(func() {
		answer := reply{Outcome: "failed", Error: "the handler called runtime.Goexit", ErrorClass: "Goexit"}
		defer func() { c.answer(run, answer) }()
		answer = attempt(ctx, handler, run)
	})
}

func (c *child) answer(run *Run, with reply) {
	run.end()
	c.mu.Lock()
	delete(c.running, run.ID)
	c.mu.Unlock()
	c.say(with.line(run.ID))
}

// idOf reads the id of a task whose line is not JSON for Go: each begins with it.
func idOf(line []byte) int64 {
	digits, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte(`{"id":`)), []byte(","))
	id, _ := strconv.ParseInt(string(digits), 10, 64)
	return id
}

func (c *child) run(id int64) *Run {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[id]
}

// stop tells one run to stop, or all if id is 0.
func (c *child) stop(id int64, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, run := range c.running {
		if id == 0 || id == run.ID {
			run.stop(why)
		}
	}
}

// end: no more tasks come, and no more words on steps.
func (c *child) end(why error) {
	c.drain.Do(func() { close(c.draining) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
	for _, run := range c.running {
		run.endOfSteps(why)
	}
}

// say writes one line in one piece. When the worker is gone, nobody wants the answers.
func (c *child) say(line []byte) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.broken == nil {
		_, c.broken = c.out.Write(append(line, '\n'))
	}
}
