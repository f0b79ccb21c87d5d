package tenon;

import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;

/** What the tests need of PostgreSQL and of the worker. */
public final class Servers {
    static final Path ROOT = Path.of("").toAbsolutePath().getParent().getParent();
    private static final long PATIENCE_S = 90;

    private Servers() {
    }

    /** JDBC's name of DATABASE_URL, with the user and the password. */
    public static String url() {
        URI at = URI.create(System.getenv("DATABASE_URL"));
        String[] user = at.getRawUserInfo() == null ? new String[0] : at.getRawUserInfo().split(":");
        List<String> options = new ArrayList<>(at.getRawQuery() == null ? List.of() : List.of(at.getRawQuery().split("&")));
        String host = "localhost";
        int port = at.getPort() < 0 ? 5432 : at.getPort();
        for (String option : options) {
            String value = option.substring(option.indexOf('=') + 1);
            host = option.startsWith("host=") ? URLDecoder.decode(value, StandardCharsets.UTF_8) : host;
            port = option.startsWith("port=") ? Integer.parseInt(value) : port;
        }
        String url = "jdbc:postgresql://" + (at.getHost() == null ? host : at.getHost()) + ":" + port + at.getRawPath() + "?ApplicationName=test";
        return url + (user.length > 0 ? "&user=" + user[0] : "") + (user.length > 1 ? "&password=" + user[1] : "");
    }

    static Connection connect() throws SQLException {
        Connection connection = DriverManager.getConnection(url());
        connection.createStatement().execute("SET timezone = 'UTC'");
        return connection;
    }

    /** The command of a program of these tests. */
    static List<String> java(String main, String... arguments) {
        List<String> command = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/java", "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC", "-Xshare:auto", "-cp", System.getProperty("java.class.path"), main));
        command.addAll(List.of(arguments));
        return command;
    }

    /** A worker of this program until no task is left. */
    static void work(List<String> handler) throws Exception {
        String program = System.getenv().getOrDefault("TENON", "tenon");
        String line = String.join(" ", handler.stream().map(word -> "'" + word + "'").toList());
        Process worker = new ProcessBuilder(program, "worker", "--until-empty", "--slots", "1", "--pass-env", "DATABASE_URL", "--handler",
                "*=pool:exec " + line).redirectErrorStream(true).redirectOutput(Path.of("target/worker.log").toFile()).start();
        if (!worker.waitFor(PATIENCE_S, TimeUnit.SECONDS)) {
            worker.destroyForcibly();
        }
        if (worker.waitFor() != 0) {
            throw new AssertionError("the worker ended with " + worker.exitValue() + ": " + java.nio.file.Files.readString(Path.of("target/worker.log")));
        }
    }

    /** The same until this is so: a worker that waits for a retry alone is at its end. */
    static void workUntil(List<String> handler, Callable<Boolean> so) throws Exception {
        for (int i = 0; i < 10; i++) {
            work(handler);
            if (so.call()) {
                return;
            }
        }
        throw new AssertionError("it has not happened");
    }
}
