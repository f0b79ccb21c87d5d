package tenon;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/** The task that runs: what the worker said of it, and what the handler may say to the worker. */
public final class Task {
    static final long DELAY_MS_MAX = 2_592_000_000L;
    private static final int NAME_BYTES_MAX = 100;
    private static final int STEP_BYTES_MAX = 1_048_576;
    private static final int PROGRESS_BYTES_MAX = 65_536;
    private static final int LOG_CHARACTERS_MAX = 8_192; // the worker keeps 4,096 bytes
    private static final long WAIT_MS_MAX = 31_536_000_000L;
    private static final long WAIT_FOR_MS_MIN = 1_000;
    private static final long WAIT_FOR_MS_MAX = 60_000;
    private static final Set<String> ENDS = Set.of("done", "dead", "cancelled", "expired");
    private static final ThreadLocal<Task> CURRENT = new ThreadLocal<>();

    private final JsonNode line;
    private final ObjectMapper mapper;
    private final Consumer<Object> says;
    private final Map<String, JsonNode> steps = new ConcurrentHashMap<>();
    private final Set<String> runningSteps = new HashSet<>();
    private final Map<String, Boolean> answers = new HashMap<>();
    private JsonNode progress;
    private long deadlineNs;
    private String stopped;
    private boolean linesEnded;
    private volatile Suspended suspended;

    Task(JsonNode line, ObjectMapper mapper, Consumer<Object> says) {
        this.line = line;
        this.mapper = mapper;
        this.says = says;
        this.progress = line.path("progress").isNull() || line.path("progress").isMissingNode() ? null : line.get("progress");
        line.path("steps").fields().forEachRemaining(step -> steps.put(step.getKey(), step.getValue()));
        deadlineNs = System.nanoTime() + Duration.ofMillis(line.path("timeout_ms").asLong(3_600_000)).toNanos();
    }

    /** The task that this thread runs; null outside of a handler. */
    public static Task current() {
        return CURRENT.get();
    }

    static void setCurrent(Task task) {
        CURRENT.set(task);
    }

    public long id() {
        return line.get("id").asLong();
    }

    public String kind() {
        return line.get("kind").asText();
    }

    public String queue() {
        return line.path("queue").asText();
    }

    public int attempt() {
        return line.path("attempt").asInt(1);
    }

    public int failures() {
        return line.path("failures").asInt();
    }

    public int maxAttempts() {
        return line.path("max_attempts").asInt();
    }

    /** A W3C traceparent, or null. */
    public String trace() {
        return line.path("trace").asText(null);
    }

    /** The claim token, for SQL of your own: tenon.finish, tenon.progress, tenon.extend. */
    public String claim() {
        return line.path("claim").asText();
    }

    public JsonNode payload() {
        return line.path("payload");
    }

    /** The payload as this type; the task is dead if it cannot be read as that. */
    public <T> T payload(Class<T> type) {
        return payload((Type) type);
    }

    /** The same, of a type with parameters: {@code new TypeReference<List<Welcome>>() {}.getType()}. */
    public <T> T payload(Type type) {
        JavaType read = mapper.constructType(type);
        try {
            return mapper.treeToValue(payload(), read);
        } catch (JsonProcessingException error) {
            throw new Outcome.Dead("the payload is not a " + read.getRawClass().getSimpleName() + ": " + error.getOriginalMessage(), error);
        }
    }

    /** The progress that was recorded last, by this or an earlier attempt; null: none. */
    public synchronized JsonNode progress() {
        return progress;
    }

    /** Records the progress. The worker stores the last value about once a second; the next attempt gets it. */
    public synchronized void setProgress(Object value) {
        JsonNode tree = bounded("progress", value, PROGRESS_BYTES_MAX);
        progress = tree;
        says.accept(Child.fields("id", id(), "progress", tree));
    }

    /** Sends a log line; the level is "error", "warning", "info" or "debug". Fields that are not JSON are left out. */
    public void log(String level, String message, Map<String, ?> fields) {
        String text = Reply.storable(message.substring(0, Math.min(message.length(), LOG_CHARACTERS_MAX)));
        Map<String, Object> log = Child.fields("level", level, "message", text);
        try {
            log.put("fields", Json.tree(mapper, fields));
        } catch (IllegalArgumentException error) {
            // without them
        }
        says.accept(Child.fields("id", id(), "log", log));
    }

    /** Moves the deadline to this time from now, if that is later. */
    public synchronized void extend(Duration by) {
        long ms = between(by, DELAY_MS_MAX, "extend by 1 ms to 30 days");
        deadlineNs = Math.max(deadlineNs, System.nanoTime() + by.toNanos());
        says.accept(Child.fields("id", id(), "extend_ms", ms));
    }

    /** How long the task may still run. */
    public synchronized Duration remaining() {
        return Duration.ofNanos(deadlineNs - System.nanoTime());
    }

    /** Runs the work once, even after a crash, and returns its value, in this attempt or a later one. */
    public <T> T step(String name, Class<T> type, Callable<T> work) throws Exception {
        return as(type, stepTree(name, work));
    }

    /** The same; the record is a part of the connection's transaction. */
    public <T> T step(String name, Class<T> type, Connection connection, Callable<T> work) throws Exception {
        mustContinue(name);
        String known = Tenon.rows(connection, "SELECT tenon.steps(?::text)", claim()).get(0)[0];
        JsonNode before = known == null ? null : Tenon.stored(known).get(name);
        if (before == null) {
            String text = Json.text(bounded("the step", work.call(), STEP_BYTES_MAX));
            before = Tenon.stored(Tenon.rows(connection, "SELECT tenon.step(?::text, ?::text, ?::jsonb)", claim(), name, text).get(0)[0]);
        }
        return as(type, before);
    }

    private JsonNode stepTree(String name, Callable<?> work) throws Exception {
        mustContinue(name);
        JsonNode before = steps.get(name);
        if (before != null) {
            return before;
        }
        synchronized (this) {
            if (!runningSteps.add(name)) {
                throw new IllegalStateException("the step \"" + name + "\" is running: give the other one another name");
            }
        }
        try {
            return record(name, bounded("the step", work.call(), STEP_BYTES_MAX));
        } finally {
            synchronized (this) {
                runningSteps.remove(name);
            }
        }
    }

    /** The payload of the signal; empty if it did not come in time. Until it comes, no attempt runs. */
    public Optional<JsonNode> waitSignal(String name, Duration timeout) {
        mustContinue(name);
        JsonNode came = steps.get(name);
        if (came == null) {
            throw suspend(Child.fields("outcome", "wait_signal", "signal", name,
                    "timeout_ms", between(timeout, WAIT_MS_MAX, "wait for a signal for 1 ms to 365 days")));
        }
        return came.isNull() ? Optional.empty() : Optional.of(came);
    }

    /** Ends the attempt, and continues after this time, once for each name. */
    public void sleep(String name, Duration time) throws Exception {
        long ms = step(name, Long.class, () -> System.currentTimeMillis() + time.toMillis()) - System.currentTimeMillis();
        if (ms > 0) {
            throw suspend(Child.fields("outcome", "snooze", "delay_ms", Math.min(ms, DELAY_MS_MAX)));
        }
    }

    /**
     * How other tasks have ended, in the order of the ids; for instance children, which a step has enqueued. This is a step too: while one of
     * them has not ended, the attempt ends, and the handler runs again after 1 s to 60 s. A state of null is a task that does not exist.
     */
    public List<Tenon.Result> waitFor(List<Long> ids, Connection connection, String name) throws Exception {
        mustContinue(name);
        if (!steps.containsKey(name)) {
            List<Tenon.Result> found = results(ids, connection);
            if (found.stream().anyMatch(one -> one.state() != null && !ENDS.contains(one.state()))) {
                long since = step(name + ":since", Long.class, System::currentTimeMillis);
                long ms = Math.max(WAIT_FOR_MS_MIN, Math.min((System.currentTimeMillis() - since) / 4, WAIT_FOR_MS_MAX));
                throw suspend(Child.fields("outcome", "snooze", "delay_ms", ms, "error", "waits for " + ids.size() + " tasks"));
            }
            stepTree(name, () -> found.stream() // by these names, whatever the mapper makes of others
                    .map(one -> Child.fields("state", one.state(), "result", one.result(), "error", one.error())).toList());
        }
        List<Tenon.Result> results = new ArrayList<>();
        for (JsonNode one : steps.get(name)) {
            JsonNode result = one.path("result");
            results.add(new Tenon.Result(one.path("state").asText(null), result.isNull() || result.isMissingNode() ? null : result,
                    one.path("error").asText(null)));
        }
        return results;
    }

    private static List<Tenon.Result> results(List<Long> ids, Connection connection) throws SQLException {
        List<Tenon.Result> found = new ArrayList<>();
        for (long id : ids) {
            found.add(Tenon.result(connection, id).orElse(new Tenon.Result(null, null, null)));
        }
        return found;
    }

    /** Ends the task in the connection's transaction: what it writes and the end of the task are both there, or neither. */
    public void finish(Connection connection, Object result) throws SQLException {
        Tenon.rows(connection, "SELECT tenon.finish(?::text, ?::jsonb)", claim(), result == null ? null : Json.text(Json.tree(mapper, result)));
    }

    /** Why the task should stop: "cancelled", "lost" (its claim) or "drain" (the worker ends); null: it should not. */
    public synchronized String stopping() {
        return stopped;
    }

    /** Throws Interrupted if the task should stop. For loops, after they have recorded their progress. */
    public void check() {
        if (stopping() != null) {
            throw new Outcome.Interrupted(stopping());
        }
    }

    /** Waits for this time, or until the task should stop; returns whether it should. */
    public synchronized boolean await(Duration time) throws InterruptedException {
        long ends = System.nanoTime() + time.toNanos();
        for (long left = ends - System.nanoTime(); stopped == null && left > 0; left = ends - System.nanoTime()) {
            wait(left / 1_000_000 + 1);
        }
        return stopped != null;
    }

    synchronized void stop(String why) {
        stopped = why;
        notifyAll();
    }

    synchronized void told(String name, boolean recorded) {
        answers.put(name, recorded);
        notifyAll();
    }

    synchronized void endOfLines() {
        linesEnded = true;
        notifyAll();
    }

    Suspended suspended() {
        return suspended;
    }

    private static long between(Duration time, long most, String what) {
        if (time.compareTo(Duration.ofMillis(1)) < 0 || time.compareTo(Duration.ofMillis(most)) > 0) {
            throw new IllegalArgumentException(what + ", not " + time);
        }
        return time.toMillis();
    }

    private <T> T as(Class<T> type, JsonNode value) throws JsonProcessingException {
        return mapper.treeToValue(value, type);
    }

    private JsonNode bounded(String what, Object value, int bytesMax) {
        JsonNode tree = Json.tree(mapper, value);
        if (Json.text(tree).getBytes(StandardCharsets.UTF_8).length > bytesMax) {
            throw new IllegalArgumentException(what + " is longer than " + bytesMax + " bytes");
        }
        return tree;
    }

    /** A task that sleeps or waits does so, also if the handler has caught what ends its attempt. */
    private void mustContinue(String name) {
        if (suspended != null) {
            throw suspended;
        }
        int bytes = name.getBytes(StandardCharsets.UTF_8).length;
        if (bytes < 1 || bytes > NAME_BYTES_MAX || name.indexOf('\0') >= 0) {
            throw new IllegalArgumentException("the name of a step or signal has 1 to " + NAME_BYTES_MAX + " bytes");
        }
    }

    private Suspended suspend(Map<String, Object> reply) {
        suspended = new Suspended(reply);
        return suspended;
    }

    /** Through the worker, which answers when the record is committed. */
    private synchronized JsonNode record(String name, JsonNode value) throws InterruptedException {
        answers.remove(name);
        says.accept(Child.fields("id", id(), "step", Child.fields("name", name, "value", value)));
        while (!answers.containsKey(name)) {
            if (linesEnded || stopped != null && !stopped.equals("drain")) {
                throw new Outcome.Interrupted(stopped == null ? "the worker is gone" : stopped);
            }
            wait();
        }
        if (!answers.get(name)) {
            throw new IllegalStateException("the step \"" + name + "\" was not recorded: a task has 1,000 steps of 1 MiB in all, without \\u0000");
        }
        steps.put(name, value);
        return value;
    }
}
