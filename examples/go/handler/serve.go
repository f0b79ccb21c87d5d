// The loop of a pool handler, for a copy of your own: it reads a task per line, runs up to so many at once, and answers each in
// a line. It needs the standard library only; docs/protocol.md says what the lines mean.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
)

const lineBytesMax = 2 << 20 // of a longer one the worker keeps no result

type task struct {
	ID      int64           `json:"id"`
	Kind    string          `json:"kind"`
	Attempt int             `json:"attempt"`
	Payload json.RawMessage `json:"payload"`
}

type reply struct {
	ID      int64  `json:"id"`
	Outcome string `json:"outcome"`
	Result  any    `json:"result,omitempty"`
	Error   string `json:"error,omitempty"`
}

// A handler returns the task's result; after an error the task is tried again, later and later, until it
// has failed 25 times.
type handler func(task) (any, error)

// errDead is for what can never work, however often it is tried.
var errDead = errors.New("dead")

func run(handlers map[string]handler, line []byte) (answer reply) {
	var t task
	fmt.Sscanf(string(line), `{"id":%d,`, &t.ID) // also of a payload that Go cannot read
	defer func() {
		if why := recover(); why != nil {
			answer = reply{ID: t.ID, Outcome: "failed", Error: fmt.Sprint(why)}
		}
	}()
	if err := json.Unmarshal(line, &t); err != nil {
		return reply{ID: t.ID, Outcome: "failed", Error: err.Error()}
	}
	handle, ok := handlers[t.Kind]
	if !ok {
		return reply{ID: t.ID, Outcome: "failed", Error: "no handler of the kind " + t.Kind}
	}
	result, err := handle(t)
	switch {
	case errors.Is(err, errDead):
		return reply{ID: t.ID, Outcome: "dead", Error: err.Error()}
	case err != nil:
		return reply{ID: t.ID, Outcome: "failed", Error: err.Error()}
	}
	return reply{ID: t.ID, Outcome: "done", Result: result}
}

// text is the line of an answer. A task whose result is no JSON, such as NaN, has failed: it must be answered, too.
func text(answer reply) []byte {
	line, err := json.Marshal(answer)
	if err != nil {
		line, err = json.Marshal(reply{ID: answer.ID, Outcome: "failed", Error: err.Error()})
	} else if len(line) > lineBytesMax && answer.Outcome == "done" {
		answer.Result = fmt.Sprintf("not kept: its line has %d bytes", len(line))
		line, err = json.Marshal(answer)
	}
	if err != nil {
		log.Fatal(err)
	}
	return append(line, '\n')
}

// serve runs tasks, up to inFlight at once, until the worker has no more. Nothing else may print to stdout.
func serve(inFlight int, handlers map[string]handler) {
	var running sync.WaitGroup
	var writing sync.Mutex
	fmt.Printf("{\"hello\":\"tenon\",\"in_flight\":%d}\n", inFlight)
	for tasks := bufio.NewReader(os.Stdin); ; {
		line, err := tasks.ReadBytes('\n')
		if err == io.EOF {
			break // no more tasks come: answer those that run
		} else if err != nil {
			log.Fatal(err)
		}
		running.Add(1)
		go func() {
			defer running.Done()
			answer := text(run(handlers, line))
			writing.Lock()
			defer writing.Unlock()
			if _, err := os.Stdout.Write(answer); err != nil {
				log.Fatal(err) // the worker is gone
			}
		}()
	}
	running.Wait()
}
