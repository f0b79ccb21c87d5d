package tenon.app;

import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Map;
import javax.sql.DataSource;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Scope;
import org.springframework.context.annotation.ScopedProxyMode;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.transaction.annotation.Transactional;
import tenon.Outcome;
import tenon.Servers;
import tenon.Task;
import tenon.spring.TenonHandler;
import tenon.spring.TenonTemplate;

/** An application on Spring Boot, as small as possible. */
@Configuration(proxyBeanMethods = false)
@EnableAutoConfiguration
public class Application {
    /** A payload. */
    public record Welcome(String to, int times) {
    }

    /** One whose names the application's Jackson changes. */
    public record Parcel(String sentTo) {
    }

    public static void main(String[] arguments) {
        SpringApplication.run(Application.class, arguments);
    }

    @Bean
    DataSource dataSource() {
        return new DriverManagerDataSource(Servers.url());
    }

    @Bean
    Handlers handlers(JdbcTemplate jdbc, TenonTemplate tenon) {
        return new Handlers(jdbc, tenon);
    }

    /** Each task gets one of its own. */
    @Bean
    @Scope(value = "prototype", proxyMode = ScopedProxyMode.TARGET_CLASS)
    Counter counter() {
        return new Counter();
    }

    public static class Counter {
        private int calls;

        @TenonHandler("count")
        public int count() {
            return ++calls;
        }
    }

    /** Each writes to public.lines what it did. */
    public static class Handlers {
        private static final List<String> STEPS = List.of("reserve", "charge", "ship");

        private final JdbcTemplate jdbc;
        private final TenonTemplate tenon;

        public Handlers(JdbcTemplate jdbc, TenonTemplate tenon) {
            this.jdbc = jdbc;
            this.tenon = tenon;
        }

        private void write(String text) {
            jdbc.update("INSERT INTO public.lines (text) VALUES (?)", text);
        }

        private static void kill() throws Exception {
            new ProcessBuilder("kill", "-9", Long.toString(ProcessHandle.current().pid())).start().waitFor();
            Thread.sleep(Duration.ofMinutes(1).toMillis());
        }

        @TenonHandler("welcome")
        public Map<String, Object> welcome(Welcome payload) {
            System.out.println("not a line of the protocol");
            write("welcome " + payload.to());
            return Map.of("sent", payload.to());
        }

        @TenonHandler("fail")
        public void fail() {
            throw new IllegalStateException("no funds");
        }

        @TenonHandler("parcel")
        public Parcel parcel(Parcel payload) {
            return new Parcel(payload.sentTo() + "!");
        }

        @TenonHandler("welcome_all")
        public List<String> welcomeAll(List<Welcome> payload) {
            return payload.stream().map(Welcome::to).toList();
        }

        @TenonHandler("children")
        public String children(Task task) throws Exception {
            return tenon.on(connection -> {
                try {
                    return task.waitFor(List.of(task.payload().asLong()), connection, "children").toString();
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            });
        }

        @TenonHandler("snooze_forever")
        public void snoozeForever() {
            throw new Outcome.Snooze(ChronoUnit.FOREVER.getDuration());
        }

        @TenonHandler("unspeakable")
        public void unspeakable() {
            throw new IllegalStateException() {
                @Override
                public String getMessage() {
                    throw new UnsupportedOperationException();
                }
            };
        }

        @TenonHandler("refuse")
        public void refuse() {
            throw new Outcome.Dead("no such address");
        }

        @TenonHandler("snooze")
        public int snooze(Task task) throws Exception {
            int first = task.step("first", Integer.class, () -> {
                write("first");
                return 1;
            });
            if (task.progress() == null) {
                task.setProgress(1);
                throw new Outcome.Snooze(Duration.ofMillis(1));
            }
            return first;
        }

        @TenonHandler("wait")
        public Object waitSignal(Task task) {
            return task.waitSignal("paid:" + task.id(), Duration.ofHours(1)).orElse(null);
        }

        /** What it writes, and enqueues, is rolled back. */
        @Transactional
        @TenonHandler("roll_back")
        public void rollBack() {
            write("rolled back");
            tenon.enqueue("welcome", new Welcome("nobody", 1));
            throw new Outcome.Dead("rolled back");
        }

        @Transactional
        @TenonHandler("finish")
        public void finish() {
            write("finished");
            tenon.finish("whole");
        }

        @TenonHandler("saga")
        public List<String> saga(Task task) throws Exception {
            for (int i = 0; i < STEPS.size(); i++) {
                String name = STEPS.get(i);
                task.step(name, Void.class, () -> {
                    write(name);
                    return null;
                });
                if (task.attempt() == i + 1) {
                    kill();
                }
            }
            return STEPS;
        }
    }
}
