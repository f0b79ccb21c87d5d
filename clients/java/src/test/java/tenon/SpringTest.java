package tenon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.boot.SpringApplication;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;
import tenon.app.Application;
import tenon.app.Application.Parcel;
import tenon.app.Application.Welcome;
import tenon.spring.TenonTemplate;

/** The starter in an application on Spring Boot, and a worker that starts the same application. */
@Timeout(200)
class SpringTest {
    private static final String NAMES = "--spring.jackson.property-naming-strategy=UPPER_CAMEL_CASE";
    private static final List<String> HANDLER = Servers.java(Application.class.getName(), "--tenon.handle", NAMES);
    private static final List<String> LAZY = Servers.java(Application.class.getName(), "--tenon.handle", "--spring.main.lazy-initialization=true");

    private static ConfigurableApplicationContext context;
    private static TenonTemplate tenon;
    private static TransactionTemplate transaction;
    private static JdbcTemplate jdbc;
    private static Connection outside;

    @BeforeAll
    static void start() throws Exception {
        context = SpringApplication.run(Application.class, "--spring.main.banner-mode=off", NAMES);
        tenon = context.getBean(TenonTemplate.class);
        transaction = new TransactionTemplate(context.getBean(PlatformTransactionManager.class));
        jdbc = context.getBean(JdbcTemplate.class);
        outside = Servers.connect();
    }

    @AfterAll
    static void stop() throws Exception {
        context.close();
        outside.close();
    }

    @BeforeEach
    void empty() {
        jdbc.execute("DELETE FROM tenon.task; DROP TABLE IF EXISTS public.lines; CREATE TABLE public.lines (id serial, text text)");
    }

    private static Optional<Tenon.Result> seen(long id) throws Exception {
        return Tenon.result(outside, id);
    }

    private static void ended(long id, String state, Object result, String errorBegins) throws Exception {
        Tenon.Result end = seen(id).orElseThrow();
        assertEquals(state, end.state(), end::toString);
        assertEquals(result == null ? null : new ObjectMapper().valueToTree(result), end.result());
        assertTrue(String.valueOf(end.error()).startsWith(errorBegins), end::error);
    }

    private static void workUntilEnded(List<Long> ids) throws Exception {
        workUntilEnded(HANDLER, ids);
    }

    private static void workUntilEnded(List<String> handler, List<Long> ids) throws Exception {
        Servers.workUntil(handler, () -> {
            for (long id : ids) {
                if (!List.of("done", "dead").contains(seen(id).orElseThrow().state())) {
                    return false;
                }
            }
            return true;
        });
    }

    private static List<String> lines() {
        return jdbc.queryForList("SELECT text FROM public.lines ORDER BY text", String.class);
    }

    private static int attempts(long id) {
        return jdbc.queryForObject("SELECT count(*) FROM tenon.attempt WHERE task_id = ?", Integer.class, id);
    }

    @Test
    void itIsEnqueuedInTheTransaction() throws Exception {
        long lost = transaction.execute(status -> {
            status.setRollbackOnly();
            return tenon.enqueue("welcome", new Welcome("nobody", 1));
        });
        assertEquals(Optional.empty(), seen(lost));
        long id = transaction.execute(status -> {
            long task = tenon.enqueue("welcome", new Welcome("ann", 1));
            assertEquals(1, jdbc.queryForObject("SELECT count(*) FROM tenon.task", Integer.class), "in the transaction, and not after it");
            assertEquals(Optional.empty(), assertSeen(task), "nobody sees it before the commit");
            return task;
        });
        assertEquals("ready", seen(id).orElseThrow().state());
    }

    private static Optional<Tenon.Result> assertSeen(long id) {
        try {
            return seen(id);
        } catch (Exception error) {
            throw new AssertionError(error);
        }
    }

    @Test
    void options() throws Exception {
        Options options = Options.of().queue("mail").priority(9).delay(Duration.ofSeconds(90)).uniqueKey("welcome ann").tags("a", "b");
        long id = tenon.enqueue("welcome", new Welcome("ann", 1), options);
        assertEquals(id, tenon.enqueue("welcome", new Welcome("ann", 2), options));
        Map<String, Object> row = jdbc.queryForMap(
                "SELECT queue, priority::integer, unique_key, tags::text, payload::text, extract(epoch FROM run_at - created_at)::integer AS delay"
                + " FROM tenon.tasks WHERE id = ?", id);
        assertEquals(Map.of("queue", "mail", "priority", 9, "unique_key", "welcome ann", "tags", "{a,b}", "payload", "{\"To\": \"ann\", \"Times\": 1}",
                "delay", 90), row);
        assertThrows(IllegalArgumentException.class, () -> Options.of().with("prio", 9));
        assertThrows(IllegalArgumentException.class, () -> tenon.enqueue("welcome", Map.of(), Options.of().with("delay", new Object())));
    }

    @Test
    void howTasksEnd() throws Exception {
        Options twice = Options.of().maxAttempts(2).retry("constant(1 ms, 1 ms)");
        long welcome = tenon.enqueue("welcome", new Welcome("ann", 1));
        long wrong = tenon.enqueue("welcome", Map.of("To", "ann", "Times", "often"));
        long fail = tenon.enqueue("fail", Map.of(), twice);
        long refuse = tenon.enqueue("refuse", Map.of(), twice);
        long snooze = tenon.enqueue("snooze", Map.of(), Options.of().maxAttempts(1));
        long rollBack = tenon.enqueue("roll_back", Map.of());
        long finish = tenon.enqueue("finish", Map.of());
        long wait = tenon.enqueue("wait", Map.of());
        workUntilEnded(List.of(welcome, wrong, fail, refuse, snooze, rollBack, finish));
        ended(welcome, "done", Map.of("sent", "ann"), "null");
        ended(wrong, "dead", null, "the payload is not a Welcome: ");
        ended(fail, "dead", null, "no funds\n\njava.lang.IllegalStateException: no funds\n");
        ended(refuse, "dead", null, "no such address");
        ended(snooze, "done", 1, "null");
        ended(rollBack, "dead", null, "rolled back");
        ended(finish, "done", "whole", "null");
        assertEquals(List.of(2, 1), List.of(attempts(fail), attempts(refuse)));
        assertEquals(List.of("finished", "first", "welcome ann"), lines());
        assertEquals("blocked", seen(wait).orElseThrow().state());

        tenon.signal("paid:" + wait, Map.of("amount", 30));
        jdbc.queryForList("SELECT tenon.settle()"); // as the cleaner does
        workUntilEnded(List.of(wait));
        ended(wait, "done", Map.of("amount", 30), "null");
    }

    /** What it writes must be what the handlers read. */
    @Test
    void theApplicationsJackson() throws Exception {
        long parcel = tenon.enqueue("parcel", new Parcel("ann"));
        long parcels = tenon.enqueueMany("parcel", List.of(new Parcel("bob")), Options.of()).get(0);
        long list = tenon.enqueue("welcome_all", List.of(new Welcome("ann", 1), new Welcome("bob", 1)));
        long children = tenon.enqueue("children", parcel, Options.of().priority(0));
        assertEquals("{\"SentTo\": \"ann\"}", jdbc.queryForObject("SELECT payload::text FROM tenon.tasks WHERE id = ?", String.class, parcel));
        workUntilEnded(List.of(parcel, parcels, list, children));
        ended(parcel, "done", Map.of("SentTo", "ann!"), "null");
        ended(parcels, "done", Map.of("SentTo", "bob!"), "null");
        ended(list, "done", List.of("ann", "bob"), "null");
        ended(children, "done", "[Result[state=done, result={\"SentTo\":\"ann!\"}, error=null]]", "null");
        assertThrows(IllegalArgumentException.class, () -> tenon.enqueue("parcel", Double.NaN));
    }

    @Test
    void errorsThatCannotBeDescribed() throws Exception {
        long forever = tenon.enqueue("snooze_forever", null);
        long unspeakable = tenon.enqueue("unspeakable", null, Options.of().maxAttempts(1));
        workUntilEnded(List.of(unspeakable));
        ended(unspeakable, "dead", null, "an error that cannot be described: ");
        assertEquals(30, jdbc.queryForObject(
                "SELECT round(extract(epoch FROM run_at - now()) / 86400)::integer FROM tenon.tasks WHERE id = ?", Integer.class, forever));
        assertThrows(IllegalStateException.class, () -> tenon.finish(1));
    }

    @Test
    void handlersOfBeansThatAreMadeWhenTheyAreUsed() throws Exception {
        List<Long> ids = List.of(tenon.enqueue("count", null), tenon.enqueue("count", null), tenon.enqueue("refuse", null));
        workUntilEnded(LAZY, ids);
        ended(ids.get(0), "done", 1, "null");
        ended(ids.get(1), "done", 1, "null");
        ended(ids.get(2), "dead", null, "no such address");
    }

    /** Such as Hikari's with `auto-commit=false`. */
    @Test
    void aDataSourceThatDoesNotCommit() throws Exception {
        DriverManagerDataSource source = new DriverManagerDataSource(Servers.url()) {
            @Override
            public Connection getConnection() throws SQLException {
                Connection connection = super.getConnection();
                connection.setAutoCommit(false);
                return connection;
            }
        };
        TenonTemplate template = new TenonTemplate(source);
        assertEquals("ready", seen(template.enqueue("welcome", Map.of())).orElseThrow().state());
        long lost = new TransactionTemplate(new DataSourceTransactionManager(source)).execute(status -> {
            status.setRollbackOnly();
            return template.enqueue("welcome", Map.of());
        });
        assertEquals(Optional.empty(), seen(lost));
    }

    @Test
    void aSagaThatIsKilledAfterEachStep() throws Exception {
        long id = tenon.enqueue("saga", Map.of(), Options.of().retry("constant(1 ms, 1 ms)"));
        workUntilEnded(List.of(id));
        ended(id, "done", List.of("reserve", "charge", "ship"), "null");
        assertEquals(List.of("charge", "reserve", "ship"), lines());
    }
}
