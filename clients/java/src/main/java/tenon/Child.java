package tenon;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A pool child: one thread reads task lines, others run them (docs/protocol.md). */
public final class Child {
    private static final Pattern ID = Pattern.compile("\\A\\{\"id\":(\\d+)");

    private final Map<String, Handler> handlers = new TreeMap<>();
    private final Map<Long, Task> running = new ConcurrentHashMap<>();
    private ObjectMapper mapper = Json.mapper();
    private int threads = 4;

    public Child handle(String kind, Handler handler) {
        if (handlers.putIfAbsent(kind, handler) != null) {
            throw new IllegalStateException("there are two handlers for " + kind);
        }
        return this;
    }

    /** How many tasks run at once; 4 without this. */
    public Child threads(int n) {
        threads = n;
        return this;
    }

    /** What writes results, and reads payloads for Task.payload(Class). */
    public Child mapper(ObjectMapper with) {
        mapper = with;
        return this;
    }

    /** Runs tasks until no more come and all have been answered. */
    public void run() {
        run(Wire.ofProcess());
    }

    void run(Wire wire) {
        if (handlers.isEmpty()) {
            throw new IllegalStateException("there is no handler");
        }
        ExecutorService runners = Executors.newFixedThreadPool(threads);
        wire.say(fields("hello", "tenon", "in_flight", threads, "stop", true, "kinds", handlers.keySet()));
        for (String line = wire.line(); line != null; line = wire.line()) {
            read(wire, runners, line);
        }
        running.values().forEach(Task::endOfLines);
        runners.shutdown();
        try {
            runners.awaitTermination(Long.MAX_VALUE, TimeUnit.NANOSECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private void read(Wire wire, ExecutorService runners, String line) {
        JsonNode message;
        try {
            message = Json.read(line);
        } catch (JsonProcessingException | StackOverflowError error) {
            Matcher id = ID.matcher(line);
            long task = id.lookingAt() ? Long.parseLong(id.group(1)) : 0;
            wire.say(fields("id", task, "outcome", "dead", "error", "Jackson cannot read the payload: " + error.getClass().getName()));
            return;
        }
        if (message.has("stop")) {
            stop(message.get("stop"), message.path("why").asText());
        } else if (message.has("step")) {
            Task task = running.get(message.get("step").asLong());
            if (task != null) {
                task.told(message.get("name").asText(), message.get("recorded").asBoolean());
            }
        } else {
            start(wire, runners, message);
        }
    }

    private void start(Wire wire, ExecutorService runners, JsonNode message) {
        String kind = message.get("kind").asText();
        Handler handler = handlers.get(kind);
        if (handler == null) {
            wire.say(fields("id", message.get("id"), "outcome", "failed", "error", "there is no handler for \"" + kind + "\""));
            return;
        }
        Task task = new Task(message, mapper, wire::say);
        running.put(task.id(), task);
        runners.execute(() -> {
            Map<String, Object> reply = fields("id", task.id());
            reply.putAll(Reply.to(task, handler, mapper));
            running.remove(task.id());
            wire.say(reply);
        });
    }

    private void stop(JsonNode id, String why) {
        running.values().stream().filter(task -> id.isNull() || task.id() == id.asLong()).forEach(task -> task.stop(why));
    }

    /** An object of these names and values. */
    static Map<String, Object> fields(Object... pairs) {
        Map<String, Object> fields = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            fields.put((String) pairs[i], pairs[i + 1]);
        }
        return fields;
    }
}
