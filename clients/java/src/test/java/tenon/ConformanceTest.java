package tenon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Writer;
import java.io.OutputStreamWriter;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Spliterators;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;

/** clients/conformance: what every client must do. */
@Timeout(120)
class ConformanceTest {
    private static final String CLAIM = "1/1/9f3c51d2a8e07b46";

    private static JsonNode data(String name) throws IOException {
        return new ObjectMapper().readTree(Servers.ROOT.resolve("clients/conformance/" + name + ".json").toFile());
    }

    private interface Case {
        void run(JsonNode one) throws Exception;
    }

    private static Stream<DynamicTest> cases(JsonNode cases, Case run) {
        return stream(cases).map(one -> DynamicTest.dynamicTest(one.get("name").asText(), () -> run.run(one)));
    }

    private static Stream<JsonNode> stream(JsonNode nodes) {
        return StreamSupport.stream(Spliterators.spliteratorUnknownSize(nodes.iterator(), 0), false);
    }

    /** Numbers are compared as numbers. */
    private static boolean same(JsonNode wanted, JsonNode found) {
        return found != null && wanted.equals((one, other) -> one.isNumber() && other.isNumber()
                && new BigDecimal(one.asText()).compareTo(new BigDecimal(other.asText())) == 0 || one.equals(other) ? 0 : 1, found);
    }

    /** A pool child with the handlers of the cases; cases share one until it ends. */
    private static final class Pool {
        final Process process;
        final Writer input;
        final BufferedReader output;

        Pool(JsonNode data) throws Exception {
            process = new ProcessBuilder(Servers.java(ConformanceHandlers.class.getName())).redirectError(ProcessBuilder.Redirect.DISCARD).start();
            input = new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8);
            output = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
            JsonNode hello = line();
            data.get("hello").fields().forEachRemaining(one -> assertEquals(one.getValue(), hello.get(one.getKey())));
            assertTrue(hello.get("in_flight").asInt() >= 4);
            stream(data.get("kinds")).forEach(kind -> assertTrue(stream(hello.get("kinds")).anyMatch(kind::equals), kind.asText()));
        }

        JsonNode line() throws IOException {
            String line = output.readLine();
            assertNotNull(line, "the child has ended");
            return Json.read(line);
        }

        void send(String line) throws IOException {
            input.write(line + "\n");
            input.flush();
        }

        void end() throws Exception {
            input.close();
            assertNull(output.readLine());
            assertTrue(process.waitFor(10, TimeUnit.SECONDS));
            assertEquals(0, process.exitValue());
        }
    }

    private Pool pool;

    @TestFactory
    Stream<DynamicTest> lines() throws Exception {
        JsonNode data = data("protocol");
        return cases(data.get("cases"), one -> {
            if (pool == null) {
                pool = new Pool(data);
            }
            for (JsonNode step : one.get("steps")) {
                follow(step);
            }
        });
    }

    private void follow(JsonNode step) throws Exception {
        if (step.has("send")) {
            pool.send(text(step.get("send")));
        } else if (step.has("end")) {
            pool.input.close();
        } else if (step.has("exit")) {
            pool.end();
            pool = null;
        } else {
            compare(pool.line(), step);
        }
    }

    private static String text(JsonNode send) {
        if (!send.isArray()) {
            return send.isTextual() ? send.asText() : send.toString();
        }
        StringBuilder text = new StringBuilder();
        send.forEach(part -> text.append(part.isArray() ? part.get(0).asText().repeat(part.get(1).asInt()) : part.asText()));
        return text.toString();
    }

    private static void compare(JsonNode line, JsonNode step) {
        JsonNode wanted = step.has("expect_any") ? step.get("expect_any") : JsonNodeFactory.instance.arrayNode().add(step.get("expect"));
        assertTrue(stream(wanted).anyMatch(one -> stream(names(one)).allMatch(key -> same(one.get(key.asText()), line.get(key.asText())))),
                () -> line + ", not " + wanted);
        stream(step.path("absent")).forEach(key -> assertFalse(line.has(key.asText()), () -> line + " has " + key));
        String error = line.path("error").asText();
        assertTrue(error.contains(step.path("error_contains").asText()), error);
        stream(step.path("error_without")).forEach(part -> assertFalse(error.contains(part.asText())));
        assertTrue(error.getBytes(StandardCharsets.UTF_8).length <= step.path("error_bytes_max").asInt(Integer.MAX_VALUE));
        assertTrue(line.path("result").asText().startsWith(step.path("result_begins").asText()));
    }

    private static JsonNode names(JsonNode object) {
        var names = JsonNodeFactory.instance.arrayNode();
        object.fieldNames().forEachRemaining(names::add);
        return names;
    }

    @TestFactory
    Stream<DynamicTest> enqueue() throws Exception {
        String kind = data("enqueue").get("kind").asText();
        return cases(data("enqueue").get("enqueue"), one -> inTransaction(one, connection -> {
            long first = one.has("first") ? enqueue(connection, kind, one.get("first")) : 0;
            long id = enqueue(connection, kind, one);
            if (one.has("same_id")) {
                assertEquals(first, id);
            }
            check(connection, id, one.path("row"), one);
        }));
    }

    @TestFactory
    Stream<DynamicTest> enqueueMany() throws Exception {
        String kind = data("enqueue").get("kind").asText();
        return cases(data("enqueue").get("enqueue_many"), one -> inTransaction(one, connection -> {
            List<Long> ids = Tenon.enqueueMany(connection, kind, stream(one.get("payloads")).toList(), options(one.get("options")));
            assertEquals(one.get("rows").size(), ids.size());
            for (int i = 0; i < ids.size(); i++) {
                check(connection, ids.get(i), one.get("rows").get(i), JsonNodeFactory.instance.objectNode());
            }
        }));
    }

    private interface Work {
        void run(Connection connection) throws Exception;
    }

    private static void inTransaction(JsonNode one, Work work) throws Exception {
        try (Connection connection = Servers.connect()) {
            connection.setAutoCommit(false);
            if (one.has("error")) {
                assertEquals(one.get("error").asText(), assertThrows(SQLException.class, () -> work.run(connection)).getSQLState());
            } else {
                work.run(connection);
            }
            connection.rollback();
        }
    }

    private static long enqueue(Connection connection, String kind, JsonNode one) throws SQLException {
        return Tenon.enqueue(connection, kind, one.has("payload") ? one.get("payload") : Map.of(), options(one.get("options")));
    }

    private static Options options(JsonNode given) {
        Options options = Options.of();
        given.fields().forEachRemaining(option -> options.with(option.getKey(), value(option.getKey(), option.getValue())));
        return options;
    }

    private static Object value(String name, JsonNode value) {
        if (value.isArray()) {
            List<Object> many = new ArrayList<>();
            value.forEach(one -> many.add(value("", one)));
            return many;
        }
        if (List.of("delay", "timeout", "debounce", "debounce_max", "unique_for").contains(name)) {
            String[] parts = value.asText().split(" ");
            ChronoUnit unit = Map.of("s", ChronoUnit.SECONDS, "min", ChronoUnit.MINUTES, "h", ChronoUnit.HOURS, "d", ChronoUnit.DAYS).get(parts[1]);
            return Duration.of(Long.parseLong(parts[0]), unit);
        }
        return value.isNull() ? null : List.of("run_at", "start_before").contains(name) ? OffsetDateTime.parse(value.asText()) : value.asText();
    }

    private static void check(Connection connection, long id, JsonNode wanted, JsonNode one) throws Exception {
        JsonNode row = Json.read(Tenon.rows(connection, "SELECT to_jsonb(t) FROM tenon.tasks t WHERE id = ?::bigint", Long.toString(id)).get(0)[0]);
        wanted.fields().forEachRemaining(column -> assertTrue(same(column.getValue(), row.get(column.getKey())), () -> column + ", not " + row));
        if (one.has("task")) {
            JsonNode task = Json.read(Tenon.rows(connection, "SELECT to_jsonb(t) FROM tenon.task t WHERE id = ?::bigint", Long.toString(id)).get(0)[0]);
            one.get("task").fields().forEachRemaining(column -> assertTrue(same(column.getValue(), task.get(column.getKey())), () -> column + "," + task));
        }
        if (one.has("delay_ms")) {
            Duration delay = Duration.between(OffsetDateTime.parse(row.get("created_at").asText()), OffsetDateTime.parse(row.get("run_at").asText()));
            assertEquals(one.get("delay_ms").asDouble(), delay.toMillis(), 1000);
        }
    }

    @TestFactory
    Stream<DynamicTest> waitFor() throws Exception {
        String name = data("wait_for").get("name").asText();
        return cases(data("wait_for").get("cases"), one -> inTransaction(one, connection -> {
            List<Long> ids = new ArrayList<>();
            for (JsonNode state : one.get("tasks")) {
                ids.add(task(connection, state.asText(), ids));
            }
            Map<String, Object> steps = one.has("waited_ms")
                    ? Map.of(name + ":since", System.currentTimeMillis() - one.get("waited_ms").asLong()) : Map.of();
            Map<String, Object> recorded = new HashMap<>();
            if (one.has("states")) {
                List<String> states = wait(ids, connection, name, steps, recorded);
                assertEquals(one.get("states"), new ObjectMapper().valueToTree(states));
                assertEquals(List.of(name), List.copyOf(recorded.keySet()));
                Map<String, Object> none = new HashMap<>();
                assertEquals(states, wait(ids, null, name, recorded, none));
                assertEquals(Map.of(), none);
                return;
            }
            Map<String, Object> reply = assertThrows(Suspended.class, () -> wait(ids, connection, name, steps, recorded)).reply;
            assertEquals("snooze", reply.get("outcome"));
            assertEquals(one.has("waited_ms") ? List.of() : List.of(name + ":since"), List.copyOf(recorded.keySet()));
            long delay = (Long) reply.get("delay_ms");
            assertTrue(one.get("delay_ms").get(0).asLong() <= delay && delay <= one.get("delay_ms").get(1).asLong(), () -> "after " + delay);
        }));
    }

    private static long task(Connection connection, String state, List<Long> before) throws SQLException {
        if (state.equals("same") || state.equals("missing")) {
            return state.equals("same") ? before.get(before.size() - 1) : 999_999_999_999L;
        }
        long id = Tenon.enqueue(connection, "conformance.nowhere", Map.of());
        if (state.equals("cancelled")) {
            assertTrue(Tenon.cancel(connection, id));
        }
        return id;
    }

    /** A task that waits, beside a worker that records each step. */
    private static List<String> wait(List<Long> ids, Connection connection, String name, Map<String, Object> steps, Map<String, Object> recorded)
            throws Exception {
        Task[] task = new Task[1];
        JsonNode line = new ObjectMapper().valueToTree(Map.of("id", 1, "kind", "wait", "claim", CLAIM, "steps", steps));
        task[0] = new Task(line, Json.mapper(), said -> {
            Map<?, ?> step = (Map<?, ?>) ((Map<?, ?>) said).get("step");
            recorded.put((String) step.get("name"), step.get("value"));
            task[0].told((String) step.get("name"), true);
        });
        return task[0].waitFor(ids, connection, name).stream().map(Tenon.Result::state).toList();
    }
}
