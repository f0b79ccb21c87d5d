require_relative "database"
require_relative "duration"
require_relative "secrets"

module Tenon
  # The options of enqueue and their SQL.
  module Options
    SPAN = ->(sql, value) { "(#{sql.text("#{Duration.milliseconds(value)} milliseconds")})::interval" }
    TIME = ->(sql, value) { "#{sql.text(Options.moment(value))}::timestamptz" }
    WORD = ->(sql, value) { sql.text(value) }
    WORDS = ->(sql, value) { sql.texts(Array(value)) }
    WHOLE = ->(sql, value) { "#{sql.text(Integer(value))}::integer" }
    IDS = ->(sql, value) { "#{sql.texts(value)}::bigint[]" }

    ONE = {
      queue: WORD, priority: WHOLE, run_at: TIME, delay: SPAN, unique_key: WORD, on_conflict: WORD, unique_for: SPAN,
      debounce: SPAN, debounce_max: SPAN, start_before: TIME, max_attempts: WHOLE, timeout: SPAN, retry: WORD,
      limit_keys: WORDS, flow: ->(sql, value) { "#{sql.text(value)}::bigint" }, depends_on: IDS, on_parent_dead: WORD,
      tags: WORDS, trace: WORD, notify: ->(sql, value) { "#{sql.text(value)}::boolean" }
    }.freeze
    MANY = ONE.except(:unique_key).merge(
      unique_keys: WORDS, queues: WORDS,
      priorities: ->(sql, value) { "#{sql.texts(value)}::integer[]" },
      run_ats: ->(sql, value) { "#{sql.texts(value.map { |one| one && Options.moment(one) })}::timestamptz[]" }
    ).freeze

    module_function

    def moment(value)
      value.respond_to?(:to_time) && !value.is_a?(String) ? value.to_time.strftime("%Y-%m-%d %H:%M:%S.%6N%:z") : value.to_s
    end

    def concealed(kind, payloads, secret, options)
      return payloads if Secrets.word(secret).nil?
      raise ArgumentError, "on_conflict: \"merge\" cannot merge payloads that are encrypted" if options[:on_conflict].to_s == "merge"

      payloads.map { |payload| Secrets.sealed(payload, kind.to_s, "payload") }
    end

    # ", queue => $3::text, ...": options that are nil are as if they were not given.
    def sql(statement, options, known)
      options.map do |name, value|
        write = known.fetch(name) { raise ArgumentError, "no option #{name.inspect}; there are #{known.keys.join(', ')}" }
        value.nil? ? "" : ", #{name} => #{write.call(statement, value)}"
      end.join
    end
  end

  module_function

  # Enqueues a task in the connection's transaction, and returns its id. The task runs if the transaction commits, and never if it
  # rolls back. `secret: "payload"` encrypts the payload.
  def enqueue(connection, kind, payload = {}, secret: nil, **options)
    payload = Options.concealed(kind, [payload], secret, options)[0]
    statement = Statement.new(connection)
    arguments = "#{statement.text(kind)}, #{statement.json(payload)}#{Options.sql(statement, options, Options::ONE)}"
    statement.rows("SELECT tenon.enqueue(#{arguments})::text")[0][0].to_i
  end

  # One task for each payload, in one statement; returns the ids in the same order. `unique_keys`, `queues`, `priorities` and `run_ats`
  # have one value, or nil, for each.
  def enqueue_many(connection, kind, payloads, secret: nil, **options)
    return [] if payloads.empty?

    payloads = Options.concealed(kind, payloads, secret, options)
    statement = Statement.new(connection)
    documents = "ARRAY(SELECT pg_catalog.json_array_elements(#{statement.json(payloads)}))"
    arguments = "#{statement.text(kind)}, #{documents}#{Options.sql(statement, options, Options::MANY)}"
    statement.rows("SELECT pg_catalog.unnest(tenon.enqueue_many(#{arguments}))::text").map { |(id)| id.to_i }
  end

  # Sends a signal, for which tasks wait with Task#wait_signal.
  def signal(connection, name, payload = nil)
    statement = Statement.new(connection)
    statement.rows("SELECT tenon.signal(#{statement.text(name)}, #{statement.json(payload)}::jsonb)::text")
    nil
  end

  # Cancels a task; returns whether it was there to be cancelled.
  def cancel(connection, id)
    statement = Statement.new(connection)
    statement.rows("SELECT tenon.cancel(#{statement.text(id)}::bigint)::text")[0][0] == "true"
  end

  Result = Struct.new(:state, :result, :error)

  # The state of a task, and its result or error if it has ended; nil if there is no such task.
  def result(connection, id)
    statement = Statement.new(connection)
    row = statement.rows("SELECT r.state::text, r.result::text, r.error FROM tenon.result(#{statement.text(id)}::bigint) r")[0]
    row && row[0] && Result.new(row[0].to_sym, row[1] && JSON.parse(row[1]), row[2])
  end
end
