package tenon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Without servers. */
class OptionsTest {
    @Test
    void mistakes() {
        Throwable error = assertThrows(IllegalArgumentException.class, () -> Options.of().with("prio", 9));
        assertTrue(error.getMessage().startsWith("there is no option \"prio\"; there are "), error::getMessage);
        assertThrows(IllegalArgumentException.class, () -> Options.of().with("delay", new Object()).parameters(null));
    }

    @Test
    void theirTypes() throws Exception {
        Options options = Options.of().delay(Duration.ofMinutes(5)).priority(9).with("unique_key", null);
        assertEquals(", delay => ?::interval, priority => ?::integer, unique_key => ?::text", options.sql());
        assertEquals(Arrays.asList("300000 milliseconds", "9", null), Arrays.asList(options.parameters(null)));
    }

    @Test
    void numbersKeepTheirDigits() throws Exception {
        assertEquals("{\"n\":1.50,\"m\":12345678901234567890123}", Json.text(Json.read("{\"n\": 1.50, \"m\": 12345678901234567890123}")));
        assertThrows(IllegalArgumentException.class, () -> Json.tree(Json.mapper(), Map.of("n", List.of(Double.POSITIVE_INFINITY))));
    }
}
