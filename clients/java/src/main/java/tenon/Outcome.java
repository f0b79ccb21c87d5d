package tenon;

import java.time.Duration;

/** Exceptions of handlers that stand for other outcomes than a failure. */
public abstract class Outcome extends RuntimeException {
    private Outcome(String message, Throwable cause) {
        super(message, cause);
    }

    /** This can never work: the task is dead, and is not tried again. */
    public static final class Dead extends Outcome {
        public Dead(String message) {
            super(message, null);
        }

        public Dead(String message, Throwable cause) {
            super(message, cause);
        }
    }

    /** A failed attempt with a retry delay of its own. */
    public static final class Retry extends Outcome {
        final Duration after;

        public Retry(String message, Duration after) {
            this(message, after, null);
        }

        public Retry(String message, Duration after, Throwable cause) {
            super(message, cause);
            this.after = after;
        }
    }

    /** Not now: the task runs again after this time, without counting a failure. */
    public static final class Snooze extends Outcome {
        final Duration after;

        /** After 60 s. */
        public Snooze() {
            this(null);
        }

        public Snooze(Duration after) {
            super("", null);
            this.after = after;
        }
    }

    /** The handler stopped early: the task is ready again at once, without counting a failure. */
    public static final class Interrupted extends Outcome {
        public Interrupted(String why) {
            super(why, null);
        }
    }
}
