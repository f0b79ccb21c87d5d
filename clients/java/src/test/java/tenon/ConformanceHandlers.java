package tenon;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.Collections;
import java.util.Map;

/** The handlers of clients/conformance/README.md. */
final class ConformanceHandlers {
    record Typed(int n) {
    }

    record Two(int n) {
    }

    private ConformanceHandlers() {
    }

    private static Duration time(Task task) {
        return task.payload().has("ms") ? Duration.ofMillis(task.payload().get("ms").asLong()) : null;
    }

    private static String text(Task task, String name) {
        return task.payload().get(name).asText();
    }

    public static void main(String[] arguments) {
        new Child()
                .handle("conformance.echo", Task::payload)
                .handle("conformance.nothing", task -> null)
                .handle("conformance.about", task -> Child.fields("id", Long.toString(task.id()), "kind", task.kind(), "queue", task.queue(),
                        "attempt", task.attempt(), "failures", task.failures(), "max_attempts", task.maxAttempts(), "claim", task.claim(),
                        "trace", task.trace(), "progress", task.progress()))
                .handle("conformance.fail", task -> {
                    throw new IllegalStateException(text(task, "message").repeat(task.payload().path("times").asInt(1)));
                })
                .handle("conformance.retry", task -> {
                    throw new Outcome.Retry(text(task, "message"), time(task));
                })
                .handle("conformance.snooze", task -> {
                    throw new Outcome.Snooze(time(task));
                })
                .handle("conformance.dead", task -> {
                    throw new Outcome.Dead(text(task, "message"));
                })
                .handle("conformance.interrupt", task -> {
                    throw new Outcome.Interrupted("");
                })
                .handle("conformance.typed", task -> task.payload(Typed.class).n() + 1)
                .handle("conformance.no_json", task -> Map.of("n", Double.NaN))
                .handle("conformance.large", task -> "x".repeat(task.payload().get("bytes").asInt()))
                .handle("conformance.print", task -> {
                    System.out.println(text(task, "text"));
                    return "printed";
                })
                .handle("conformance.log", task -> {
                    task.log("warning", text(task, "message"), Map.of("logger", "shop"));
                    return "logged";
                })
                .handle("conformance.progress", task -> {
                    JsonNode before = task.progress();
                    task.setProgress(Map.of("done", before == null ? 1 : before.get("done").asInt() + 1));
                    return null;
                })
                .handle("conformance.extend", task -> {
                    task.extend(time(task));
                    return null;
                })
                .handle("conformance.steps", task -> {
                    int one = task.step("one", Integer.class, () -> 1);
                    return one + task.step("two", Two.class, () -> new Two(one + 1)).n();
                })
                .handle("conformance.wait", task ->
                        Collections.singletonMap("came", task.waitSignal(text(task, "signal"), time(task)).orElse(null)))
                .handle("conformance.slow", task -> {
                    task.await(Duration.ofSeconds(60));
                    task.check();
                    return null;
                })
                .handle("conformance.sleep", task -> {
                    Thread.sleep(time(task).toMillis());
                    return "slept";
                })
                .run();
    }
}
