package tenon.spring;

import java.util.List;
import java.util.Optional;
import javax.sql.DataSource;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.JdbcTemplate;
import tenon.Options;
import tenon.Task;
import tenon.Tenon;

/** Tasks in the transaction that runs on the DataSource; without one, each call is a transaction. */
public class TenonTemplate {
    private final JdbcTemplate jdbc;

    public TenonTemplate(DataSource dataSource) {
        jdbc = new JdbcTemplate(dataSource);
    }

    public long enqueue(String kind, Object payload) {
        return enqueue(kind, payload, Options.of());
    }

    /** Enqueues a task, which runs if the transaction commits, and returns its id. */
    public long enqueue(String kind, Object payload, Options options) {
        return on(connection -> Tenon.enqueue(connection, kind, payload, options));
    }

    /** One task for each payload, in one statement. */
    public List<Long> enqueueMany(String kind, List<?> payloads, Options options) {
        return on(connection -> Tenon.enqueueMany(connection, kind, payloads, options));
    }

    /** Sends a signal, for which tasks wait with Task.waitSignal. */
    public void signal(String name, Object payload) {
        on(connection -> {
            Tenon.signal(connection, name, payload);
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
        on(connection -> {
            task.finish(connection, result);
            return null;
        });
    }

    /** With the connection of the running transaction, for other functions of {@link Tenon} and {@link Task}. */
    public <T> T on(ConnectionCallback<T> action) {
        return jdbc.execute(action);
    }
}
