package tenon;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;

/** What the worker is told of a run: the outcome that its result or its exception stands for. */
final class Reply {
    private static final int ERROR_BYTES_MAX = 8_191;
    private static final int CLASS_BYTES_MAX = 100;
    private static final int RESULT_BYTES_MAX = 2_000_000;
    private static final int NOTE_CHARACTERS_MAX = 500;
    private static final int UTF8_BYTES_MAX = 3; // of a char

    private Reply() {
    }

    static Map<String, Object> to(Task task, Handler handler, ObjectMapper mapper) {
        Task.setCurrent(task);
        try {
            Object result = handler.run(task);
            return task.suspended() == null ? done(result, mapper) : task.suspended().reply;
        } catch (Throwable error) {
            return task.suspended() == null ? failed(error) : task.suspended().reply;
        } finally {
            Task.setCurrent(null);
        }
    }

    private static Map<String, Object> done(Object result, ObjectMapper mapper) {
        if (result == null) {
            return Child.fields("outcome", "done");
        }
        try {
            JsonNode tree = Json.tree(mapper, result);
            if (Json.text(tree).getBytes(StandardCharsets.UTF_8).length > RESULT_BYTES_MAX) {
                throw new IllegalArgumentException("it is longer than " + RESULT_BYTES_MAX + " bytes");
            }
            return Child.fields("outcome", "done", "result", tree);
        } catch (RuntimeException | StackOverflowError error) { // the work is done, whatever the result is
            String why = storable(String.valueOf(error.getMessage()));
            why = why.substring(0, Math.min(why.length(), NOTE_CHARACTERS_MAX));
            return Child.fields("outcome", "done", "result", "tenon: the result was not kept: " + why);
        }
    }

    private static Map<String, Object> failed(Throwable error) {
        try {
            return described(error);
        } catch (RuntimeException | StackOverflowError problem) { // of the error's own methods
            return Child.fields("outcome", "failed",
                    "error", "an error that cannot be described: " + error.getClass().getName() + ", " + problem.getClass().getName());
        }
    }

    private static Map<String, Object> described(Throwable error) {
        if (error instanceof Outcome.Interrupted) {
            return Child.fields("outcome", "interrupted");
        }
        if (error instanceof Outcome.Snooze snooze) {
            return delayed(Child.fields("outcome", "snooze"), snooze.after);
        }
        Throwable cause = error instanceof Outcome && error.getCause() != null ? error.getCause() : error;
        String name = cause.getClass().getName();
        Map<String, Object> reply = Child.fields("outcome", error instanceof Outcome.Dead ? "dead" : "failed", "error", cut(text(error, cause)),
                "error_class", name.substring(Math.max(0, name.length() - CLASS_BYTES_MAX)));
        return delayed(reply, error instanceof Outcome.Retry retry ? retry.after : null);
    }

    private static Map<String, Object> delayed(Map<String, Object> reply, Duration after) {
        if (after != null) {
            boolean tooLong = after.compareTo(Duration.ofMillis(Task.DELAY_MS_MAX)) > 0; // also for a number of milliseconds
            reply.put("delay_ms", tooLong ? Task.DELAY_MS_MAX : Math.max(1, after.toMillis()));
        }
        return reply;
    }

    private static String text(Throwable error, Throwable cause) {
        String head = error.getMessage() == null ? error.getClass().getName() : error.getMessage();
        if (cause instanceof Outcome) {
            return head;
        }
        StringWriter trace = new StringWriter();
        cause.printStackTrace(new PrintWriter(trace));
        return head + "\n\n" + trace;
    }

    /** Without its middle, if it is too long. */
    static String cut(String text) {
        String whole = storable(text);
        if (whole.getBytes(StandardCharsets.UTF_8).length <= ERROR_BYTES_MAX) {
            return whole;
        }
        int half = Math.min(ERROR_BYTES_MAX / UTF8_BYTES_MAX, whole.length()) / 2 - 10;
        return storable(whole.substring(0, half) + "\n[...]\n" + whole.substring(whole.length() - half));
    }

    /** Without what PostgreSQL cannot store: U+0000, and halves of surrogate pairs. */
    static String storable(String text) {
        return new String(text.getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8).replace('\0', '\uFFFD');
    }
}
