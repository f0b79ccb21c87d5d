package tenon.spring;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.util.List;
import java.util.Optional;
import javax.sql.DataSource;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import tenon.Options;
import tenon.Task;
import tenon.Tenon;

/** Tasks in the transaction that runs on the DataSource; without one, each call is a transaction. */
public class TenonTemplate {
    private final JdbcTemplate jdbc;
    private final ObjectMapper mapper;

    public TenonTemplate(DataSource dataSource) {
        this(dataSource, JsonMapper.builder().findAndAddModules().build());
    }

    /** The mapper writes payloads; use the one that reads them. */
    public TenonTemplate(DataSource dataSource, ObjectMapper mapper) {
        jdbc = new JdbcTemplate(dataSource);
        this.mapper = mapper;
    }

    public long enqueue(String kind, Object payload) {
        return enqueue(kind, payload, Options.of());
    }

    /** Enqueues a task, which runs if the transaction commits, and returns its id. */
    public long enqueue(String kind, Object payload, Options options) {
        JsonNode written = mapper.valueToTree(payload);
        return on(connection -> Tenon.enqueue(connection, kind, written, options));
    }

    /** One task for each payload, in one statement. */
    public List<Long> enqueueMany(String kind, List<?> payloads, Options options) {
        List<JsonNode> written = payloads.stream().map(one -> mapper.<JsonNode>valueToTree(one)).toList();
        return on(connection -> Tenon.enqueueMany(connection, kind, written, options));
    }

    /** Sends a signal, for which tasks wait with Task.waitSignal. */
    public void signal(String name, Object payload) {
        JsonNode written = mapper.valueToTree(payload);
        on(connection -> {
            Tenon.signal(connection, name, written);
            return null;
        });
    }

    /** Whether the task was cancelled: it had not ended. */
    public boolean cancel(long id) {
        return on(connection -> Tenon.cancel(connection, id));
    }

    /** How the task stands or has ended; empty: there is no such task. */
    public Optional<Tenon.Result> result(long id) {
        return on(connection -> Tenon.result(connection, id));
    }

    /** Ends the task that this thread runs in the transaction: what it writes and the end of the task are both there, or neither. */
    public void finish(Object result) {
        Task task = Task.current();
        if (task == null) {
            throw new IllegalStateException("this thread runs no task");
        }
        on(connection -> {
            task.finish(connection, result);
            return null;
        });
    }

    /** With the connection of the running transaction, for other functions of {@link Tenon} and {@link Task}. */
    public <T> T on(ConnectionCallback<T> action) {
        return jdbc.execute((ConnectionCallback<T>) connection -> {
            T result = action.doInConnection(connection);
            if (!connection.getAutoCommit() && !TransactionSynchronizationManager.isActualTransactionActive()) {
                connection.commit(); // without a transaction nothing else would
            }
            return result;
        });
    }
}
