package tenon.spring;

import java.util.List;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.context.event.ApplicationStartingEvent;
import org.springframework.context.ApplicationListener;
import tenon.Wire;

/** Of an application that the worker starts: takes stdout before anything is printed, and leaves the web server out. */
final class HandleListener implements ApplicationListener<ApplicationStartingEvent> {
    static final String PROPERTY = "tenon.handle";

    @Override
    public void onApplicationEvent(ApplicationStartingEvent event) {
        if (List.of(event.getArgs()).contains("--" + PROPERTY)) {
            Wire.ofProcess().starting("Spring");
            event.getSpringApplication().setWebApplicationType(WebApplicationType.NONE);
        }
    }
}
