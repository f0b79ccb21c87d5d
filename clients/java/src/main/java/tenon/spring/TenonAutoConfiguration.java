package tenon.spring;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import javax.sql.DataSource;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.ApplicationRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.ConfigurableApplicationContext;
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
    @ConditionalOnClass(name = "org.springframework.jdbc.core.JdbcTemplate")
    @ConditionalOnSingleCandidate(DataSource.class)
    TenonTemplate tenonTemplate(DataSource dataSource, ObjectProvider<ObjectMapper> mapper) {
        return new TenonTemplate(dataSource, mapper.getIfAvailable(() -> JsonMapper.builder().findAndAddModules().build()));
    }

    /** Ends the application when no more tasks come. */
    @Bean
    @Order(Ordered.LOWEST_PRECEDENCE)
    @ConditionalOnProperty(HandleListener.PROPERTY)
    ApplicationRunner tenonRunner(ConfigurableApplicationContext context, ObjectProvider<ObjectMapper> mapper) {
        return arguments -> {
            Child child = new Child().threads(context.getEnvironment().getProperty("tenon.threads", Integer.class, 4));
            mapper.ifAvailable(child::mapper);
            new TenonHandlers(context.getBeanFactory()).giveTo(child);
            child.run();
            System.exit(SpringApplication.exit(context));
        };
    }
}
