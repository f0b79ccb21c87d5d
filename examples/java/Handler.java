import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * A pool handler: reads a task per line, runs up to 8 at once in threads, and answers each in a line; docs/protocol.md
 * says what the lines mean.
 *
 * <pre>
 * javac -cp gson.jar -d classes examples/java/Handler.java
 * tenon worker --handler 'welcome_mail=pool:exec java -cp classes:gson.jar Handler'
 * </pre>
 */
public final class Handler {
    private static final int IN_FLIGHT = 8;
    private static final Gson GSON = new Gson();

    /** It can never work, however often it is tried. */
    private static final class Dead extends RuntimeException {
        Dead(String why) {
            super(why);
        }

        @Override
        public String toString() {
            return getMessage();
        }
    }

    static Object welcomeMail(JsonObject payload) {
        if (!payload.has("to")) {
            throw new Dead("the payload has no \"to\"");
        }
        String to = payload.get("to").getAsString();
        System.err.println("mail to " + to); // send it here; stdout is for answers
        return Map.of("sent", to);
    }

    /** Each line begins with the id: also when its payload cannot be read. */
    private static long taskId(String line) {
        return Long.parseLong(line.substring("{\"id\":".length(), line.indexOf(',')));
    }

    private static String failed(long id, String outcome, Throwable error) {
        Map<String, Object> reply = new LinkedHashMap<>();
        reply.put("id", id);
        reply.put("outcome", outcome);
        reply.put("error", error.toString());
        reply.put("error_class", error.getClass().getName());
        return GSON.toJson(reply);
    }

    /** One line, whatever happens. A result that is no JSON, such as NaN, makes a failure, too. */
    private static String answer(String line) {
        long id = taskId(line);
        Map<String, Object> reply = new LinkedHashMap<>();
        reply.put("id", id);
        reply.put("outcome", "done");
        try {
            JsonObject task = JsonParser.parseString(line).getAsJsonObject();
            reply.put("result", welcomeMail(task.getAsJsonObject("payload")));
            return GSON.toJson(reply);
        } catch (Dead error) {
            return failed(id, "dead", error);
        } catch (Exception | StackOverflowError error) { // it is tried again, later and later, until it has failed 25 times
            return failed(id, "failed", error);
        }
    }

    public static void main(String[] args) throws IOException {
        var replies = new PrintStream(System.out, true, StandardCharsets.UTF_8); // println is one line in one piece
        System.setOut(System.err); // what is printed elsewhere must not get into the answers
        var tasks = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ExecutorService threads = Executors.newFixedThreadPool(IN_FLIGHT);
        replies.println(GSON.toJson(Map.of("hello", "tenon", "in_flight", IN_FLIGHT)));
        for (String line; (line = tasks.readLine()) != null; ) {
            String task = line;
            threads.execute(() -> replies.println(answer(task)));
        }
        threads.shutdown(); // no more tasks come: what runs is answered
    }
}
