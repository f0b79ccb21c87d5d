package tenon;

import java.util.Map;

/**
 * Task.waitSignal and Task.sleep throw it to end the attempt; the task continues later. It is an Error, so that {@code catch (Exception)}
 * lets it pass.
 */
public final class Suspended extends Error {
    final transient Map<String, Object> reply;

    Suspended(Map<String, Object> reply) {
        super("the task continues later: do not catch this", null, false, false);
        this.reply = reply;
    }
}
