package tenon;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Options of enqueue, whose names are those of tenon.enqueue (docs/sql.md): {@code Options.of().queue("mail").priority(9)}. */
public final class Options {
    private static final Map<String, String> TYPES = types();

    private final Map<String, Object> values = new LinkedHashMap<>();

    private Options() {
    }

    public static Options of() {
        return new Options();
    }

    private static Map<String, String> types() {
        Map<String, List<String>> names = Map.of(
                "text", List.of("queue", "unique_key", "on_conflict", "retry", "on_parent_dead", "trace"),
                "integer", List.of("priority", "max_attempts"),
                "bigint", List.of("flow"),
                "interval", List.of("delay", "unique_for", "debounce", "debounce_max", "timeout"),
                "timestamptz", List.of("run_at", "start_before"),
                "text[]", List.of("limit_keys", "tags", "unique_keys", "queues"),
                "bigint[]", List.of("depends_on"),
                "integer[]", List.of("priorities"),
                "timestamptz[]", List.of("run_ats"));
        Map<String, String> types = new LinkedHashMap<>();
        names.forEach((type, of) -> of.forEach(name -> types.put(name, type)));
        return types;
    }

    public Options queue(String name) {
        return with("queue", name);
    }

    /** 0 to 9, higher first. */
    public Options priority(int priority) {
        return with("priority", priority);
    }

    public Options delay(Duration delay) {
        return with("delay", delay);
    }

    public Options runAt(Instant time) {
        return with("run_at", time);
    }

    public Options uniqueKey(String key) {
        return with("unique_key", key);
    }

    public Options maxAttempts(int attempts) {
        return with("max_attempts", attempts);
    }

    public Options timeout(Duration timeout) {
        return with("timeout", timeout);
    }

    /** Such as "exponential(10 s, 1 h)". */
    public Options retry(String retry) {
        return with("retry", retry);
    }

    public Options limitKeys(String... keys) {
        return with("limit_keys", List.of(keys));
    }

    public Options tags(String... tags) {
        return with("tags", List.of(tags));
    }

    /** A W3C traceparent. */
    public Options trace(String traceparent) {
        return with("trace", traceparent);
    }

    /** Any option by its name. A length of time is a Duration, a time an Instant or an OffsetDateTime, several values a Collection. */
    public Options with(String name, Object value) {
        if (!TYPES.containsKey(name)) {
            throw new IllegalArgumentException("there is no option \"" + name + "\"; there are " + String.join(", ", TYPES.keySet()));
        }
        values.put(name, value);
        return this;
    }

    /** {@code , queue => ?::text, ...} */
    String sql() {
        StringBuilder sql = new StringBuilder();
        values.forEach((name, value) -> sql.append(", ").append(name).append(" => ?::").append(TYPES.get(name)));
        return sql.toString();
    }

    /** In the order of sql(). */
    Object[] parameters(Connection connection) throws SQLException {
        Object[] parameters = new Object[values.size()];
        int i = 0;
        for (Object value : values.values()) {
            parameters[i++] = value instanceof Collection<?> many
                    ? connection.createArrayOf("text", many.stream().map(Options::text).toArray())
                    : text(value);
        }
        return parameters;
    }

    private static String text(Object value) {
        if (value instanceof Duration duration) {
            return duration.toMillis() + " milliseconds";
        }
        if (value == null) {
            return null;
        }
        if (value instanceof String || value instanceof Number || value instanceof Instant || value instanceof OffsetDateTime) {
            return value.toString();
        }
        throw new IllegalArgumentException("an option is a text, a number, a Duration or a time, not " + value.getClass().getName());
    }
}
