package tenon;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;

/** JSON as the client reads and writes it: all digits of a number are kept. */
final class Json {
    private static final ObjectMapper MAPPER = new ObjectMapper().findAndRegisterModules()
            .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
            .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
            .setNodeFactory(new JsonNodeFactory(true));

    private Json() {
    }

    static JsonNode read(String text) throws JsonProcessingException {
        return MAPPER.readTree(text);
    }

    /** @throws IllegalArgumentException if the value is not JSON */
    static JsonNode tree(ObjectMapper mapper, Object value) {
        JsonNode tree = mapper.valueToTree(value);
        check(tree);
        return tree;
    }

    /** NaN is a number to Jackson, but not to JSON. */
    private static void check(JsonNode node) {
        if (node.isFloatingPointNumber() && !Double.isFinite(node.doubleValue()) && !node.isBigDecimal()) {
            throw new IllegalArgumentException(node + " is not a number of JSON");
        }
        node.forEach(Json::check);
    }

    /** Of a value of the caller's. */
    static String written(Object value) {
        return text(tree(MAPPER, value));
    }

    static String text(Object value) {
        try {
            return MAPPER.writeValueAsString(value);
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException(error.getOriginalMessage(), error);
        }
    }

    static ObjectMapper mapper() {
        return MAPPER;
    }
}
