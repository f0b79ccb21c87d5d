package tenon;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** Tasks, on the application's own connection and in its transaction. */
public final class Tenon {
    /** How a task stands or has ended. */
    public record Result(String state, JsonNode result, String error) {
    }

    private Tenon() {
    }

    /** Enqueues a task without options. */
    public static long enqueue(Connection connection, String kind, Object payload) throws SQLException {
        return enqueue(connection, kind, payload, Options.of());
    }

    /**
     * Enqueues a task in the connection's transaction, and returns its id. The task runs if the transaction commits, and never if it rolls
     * back. Jackson writes the payload; a null is JSON's null.
     */
    public static long enqueue(Connection connection, String kind, Object payload, Options options) throws SQLException {
        String sql = "SELECT tenon.enqueue(?::text, ?::jsonb" + options.sql() + ")";
        return Long.parseLong(rows(connection, sql, parameters(options.parameters(connection), kind, Json.written(payload))).get(0)[0]);
    }

    /**
     * One task for each payload, in one statement; returns the ids in the same order. The options unique_keys, queues, priorities and run_ats
     * have one value, or null, for each.
     */
    public static List<Long> enqueueMany(Connection connection, String kind, List<?> payloads, Options options) throws SQLException {
        if (payloads.isEmpty()) {
            return List.of();
        }
        var documents = connection.createArrayOf("text", payloads.stream().map(Json::written).toArray());
        String sql = "SELECT pg_catalog.unnest(tenon.enqueue_many(?::text, ?::jsonb[]" + options.sql() + "))";
        return rows(connection, sql, parameters(options.parameters(connection), kind, documents)).stream()
                .map(row -> Long.valueOf(row[0])).toList();
    }

    /** Sends a signal, for which tasks wait with Task.waitSignal. */
    public static void signal(Connection connection, String name, Object payload) throws SQLException {
        rows(connection, "SELECT tenon.signal(?::text, ?::jsonb)", name, Json.written(payload));
    }

    /** Whether the task was cancelled: it had not ended. */
    public static boolean cancel(Connection connection, long id) throws SQLException {
        return rows(connection, "SELECT tenon.cancel(?::bigint)::text", Long.toString(id)).get(0)[0].equals("true");
    }

    /** How the task stands or has ended; empty: there is no such task. */
    public static Optional<Result> result(Connection connection, long id) throws SQLException {
        return rows(connection, "SELECT r.state, r.result, r.error FROM tenon.result(?::bigint) r", Long.toString(id)).stream()
                .filter(row -> row[0] != null).findFirst()
                .map(row -> new Result(row[0], row[1] == null ? null : stored(row[1]), row[2]));
    }

    static JsonNode stored(String text) {
        try {
            return Json.read(text);
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException(error.getOriginalMessage(), error);
        }
    }

    private static Object[] parameters(Object[] more, Object... first) {
        List<Object> all = new ArrayList<>(List.of(first));
        for (Object one : more) {
            all.add(one);
        }
        return all.toArray();
    }

    /** One statement in the connection's transaction; its rows as texts. */
    static List<String[]> rows(Connection connection, String sql, Object... parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int i = 0; i < parameters.length; i++) {
                statement.setObject(i + 1, parameters[i]);
            }
            try (ResultSet result = statement.executeQuery()) {
                int columns = result.getMetaData().getColumnCount();
                List<String[]> rows = new ArrayList<>();
                while (result.next()) {
                    String[] row = new String[columns];
                    for (int i = 0; i < columns; i++) {
                        row[i] = result.getString(i + 1);
                    }
                    rows.add(row);
                }
                return rows;
            }
        }
    }
}
