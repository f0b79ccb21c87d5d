package tenon;

/** Runs the tasks of a kind. */
@FunctionalInterface
public interface Handler {
    /** Returns the result, which Jackson writes; null: none. Any exception is a failed attempt, except an {@link Outcome}. */
    Object run(Task task) throws Exception;
}
