require_relative "database"
require_relative "enqueue"

module Tenon
  # The options of publish and their SQL; a body is bytes (a String in binary encoding), a text (any other String), or JSON.
  module Publishing
    OBJECT = ->(sql, value) { "#{sql.json(value)}::jsonb" }
    BOTH = {
      headers: OBJECT, content_type: Options::WORD, order_key: Options::WORD, expires: Options::SPAN, properties: OBJECT,
      trace: Options::WORD, notify: ->(sql, value) { "#{sql.text(value)}::boolean" }
    }.freeze
    ONE = BOTH.merge(message_id: Options::WORD).freeze
    MANY = BOTH.merge(message_ids: Options::WORDS).freeze

    module_function

    def form(body)
      return :json unless body.is_a?(String)

      body.encoding == Encoding::BINARY ? :bytea : :text
    end

    def hex(body)
      "\\x#{body.unpack1('H*')}"
    end

    def body(statement, body)
      case form(body)
      when :bytea then "#{statement.text(hex(body))}::bytea"
      when :text then statement.text(body)
      else statement.json(body)
      end
    end

    def bodies(statement, bodies)
      forms = bodies.map { |one| form(one) }.uniq
      raise ArgumentError, "some bodies are bytes and others are not; pass all in one form" if forms.size > 1 && forms.include?(:bytea)
      return "#{statement.texts(bodies.map { |one| hex(one) })}::bytea[]" if forms == [:bytea]
      return statement.texts(bodies) unless forms.include?(:json)

      "ARRAY(SELECT pg_catalog.json_array_elements(#{statement.json(bodies)}))"
    end
  end

  module_function

  # Publishes a message to an exchange of RabbitMQ in the connection's transaction, and returns its number in tenon.outbox. It is sent
  # after the commit, and never if the transaction rolls back.
  def publish(connection, exchange, routing_key, body, **options)
    statement = Statement.new(connection)
    arguments = "#{statement.text(exchange)}, #{statement.text(routing_key)}, #{Publishing.body(statement, body)}" \
                "#{Options.sql(statement, options, Publishing::ONE)}"
    statement.rows("SELECT tenon.publish(#{arguments})::text")[0][0].to_i
  end

  # One message for each body, in one statement; returns their numbers in the same order. `message_ids` has one id, or nil, for each.
  def publish_many(connection, exchange, routing_key, bodies, **options)
    return [] if bodies.empty?

    statement = Statement.new(connection)
    arguments = "#{statement.text(exchange)}, #{statement.text(routing_key)}, #{Publishing.bodies(statement, bodies)}" \
                "#{Options.sql(statement, options, Publishing::MANY)}"
    statement.rows("SELECT pg_catalog.unnest(tenon.publish_many(#{arguments}))::text").map { |(id)| id.to_i }
  end
end
