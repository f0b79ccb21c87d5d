package tenon.spring;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * A method of a bean that runs the tasks of a kind. Its parameters are the payload, in a type that Jackson can read, and a {@link tenon.Task};
 * each may be missing. What it returns is the result.
 */
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface TenonHandler {
    /** The kind. */
    String value();
}
