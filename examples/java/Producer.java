import com.google.gson.JsonObject;
import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;

/**
 * Signs a user up: the row and the task in one transaction, so that both are there, or neither.
 *
 * <pre>
 * psql -c 'CREATE TABLE public.users (mail text PRIMARY KEY)'
 * java -cp postgresql.jar:gson.jar examples/java/Producer.java ann@example.org
 * </pre>
 *
 * In Spring it is the same in a method that is {@code @Transactional}, with JdbcTemplate.
 */
public final class Producer {
    static long signUp(Connection db, String mail) throws SQLException {
        db.setAutoCommit(false);
        try (var user = db.prepareStatement("INSERT INTO public.users (mail) VALUES (?)")) {
            user.setString(1, mail);
            user.executeUpdate();
            long id = enqueue(db, mail);
            db.commit();
            return id;
        } catch (SQLException error) {
            db.rollback();
            throw error;
        }
    }

    private static long enqueue(Connection db, String mail) throws SQLException {
        var payload = new JsonObject();
        payload.addProperty("to", mail);
        try (PreparedStatement task = db.prepareStatement("SELECT tenon.enqueue('welcome_mail', ?::jsonb)")) {
            task.setString(1, payload.toString());
            try (ResultSet row = task.executeQuery()) {
                row.next();
                return row.getLong(1);
            }
        }
    }

    /** JDBC has the user and the password of a URL beside it. */
    private static Connection connected(URI url) throws SQLException {
        String[] user = url.getUserInfo().split(":", 2);
        String jdbc = "jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath();
        return DriverManager.getConnection(jdbc, user[0], user.length > 1 ? user[1] : null);
    }

    public static void main(String[] args) throws SQLException {
        if (args.length != 1) {
            System.err.println("usage: Producer MAIL");
            System.exit(64);
        }
        try (Connection db = connected(URI.create(System.getenv("DATABASE_URL")))) {
            System.out.println("task " + signUp(db, args[0]));
        }
    }
}
