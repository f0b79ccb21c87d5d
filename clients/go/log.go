package tenon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
)

// logMessageMax is in bytes; the worker keeps 4,096 of a message.
const logMessageMax = 8192

// Log sends a log line: the worker's log has it, and `tenon logs ID` prints it. Fields must encode to a JSON object of at most 2,048
// bytes, else they are left out. It fails no task. Nothing is sent for tasks that have something secret.
func (r *Run) Log(level slog.Level, message string, fields map[string]any) {
	text, err := json.Marshal(fields)
	if err != nil || len(fields) == 0 {
		text = nil
	}
	r.log(level, message, text)
}

func (r *Run) log(level slog.Level, message string, fields []byte) {
	if r.hides {
		return
	}
	said, _ := json.Marshal(message[:min(len(message), logMessageMax)])
	line := fmt.Appendf(nil, `{"id":%d,"log":{"level":"%s","message":%s`, r.ID, levelWord(level), said)
	if len(fields) > 0 {
		line = fmt.Appendf(line, `,"fields":%s`, fields)
	}
	r.tell(append(line, "}}"...))
}

func levelWord(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "error"
	case level >= slog.LevelWarn:
		return "warning"
	case level >= slog.LevelInfo:
		return "info"
	}
	return "debug"
}

// LogHandler returns a handler for slog that passes each record to next, and the records of a task also to the worker. These are records
// that are logged with the context that the task's handler was given: slog.InfoContext(ctx, "sent", "to", 3).
func LogHandler(next slog.Handler) slog.Handler {
	shared := &logBuffer{}
	fields := slog.NewJSONHandler(&shared.Buffer, &slog.HandlerOptions{Level: slog.Level(-1 << 20), ReplaceAttr: withoutBuiltIns})
	return &logHandler{next, fields, shared}
}

type logBuffer struct {
	sync.Mutex
	bytes.Buffer
}

type logHandler struct {
	next, fields slog.Handler
	buffer       *logBuffer
}

// withoutBuiltIns leaves what slog adds to each record.
func withoutBuiltIns(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
		return slog.Attr{}
	}
	return a
}

func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *logHandler) Handle(ctx context.Context, record slog.Record) error {
	if run, ok := RunFrom(ctx); ok {
		run.log(record.Level, record.Message, h.encoded(ctx, record))
	}
	return h.next.Handle(ctx, record)
}

// encoded returns the attributes as a JSON object; nil if there are none.
func (h *logHandler) encoded(ctx context.Context, record slog.Record) []byte {
	h.buffer.Lock()
	defer h.buffer.Unlock()
	h.buffer.Reset()
	err := h.fields.Handle(ctx, record)
	text := bytes.Clone(bytes.TrimSpace(h.buffer.Bytes()))
	if err != nil || string(text) == "{}" {
		return nil
	}
	return text
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.next.WithAttrs(attrs), h.fields.WithAttrs(attrs), h.buffer}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.next.WithGroup(name), h.fields.WithGroup(name), h.buffer}
}
