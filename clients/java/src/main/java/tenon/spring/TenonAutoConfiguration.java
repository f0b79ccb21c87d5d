package tenon.spring;

import com.fasterxml.jackson.databind.ObjectMapper;
import javax.sql.DataSource;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.ApplicationRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;
import tenon.Child;

/** A {@link TenonTemplate}, and with `--tenon.handle` a pool child of the methods with {@link TenonHandler}. */
@AutoConfiguration(afterName = {
    "org.springframework.boot.autoconfigure.jdbc.DataSourceAutoConfiguration",
    "org.springframework.boot.autoconfigure.jackson.JacksonAutoConfiguration"})
public class TenonAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    @ConditionalOnSingleCandidate(DataSource.class)
    TenonTemplate tenonTemplate(DataSource dataSource) {
        return new TenonTemplate(dataSource);
    }

    @Bean
    static TenonHandlers tenonHandlers() {
        return new TenonHandlers();
    }

    /** Ends the application when no more tasks come. */
    @Bean
    @Order(Ordered.LOWEST_PRECEDENCE)
    @ConditionalOnProperty(HandleListener.PROPERTY)
    ApplicationRunner tenonRunner(ApplicationContext context, TenonHandlers handlers, ObjectProvider<ObjectMapper> mapper) {
        return arguments -> {
            Child child = new Child().threads(context.getEnvironment().getProperty("tenon.threads", Integer.class, 4));
            mapper.ifAvailable(child::mapper);
            handlers.giveTo(child);
            child.run();
            System.exit(SpringApplication.exit(context));
        };
    }
}
