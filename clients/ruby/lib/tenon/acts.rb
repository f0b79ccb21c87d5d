require "time"
require_relative "enqueue"

# What one does with tasks, flows, schedules and limits, on the caller's connection and in its transaction.
module Tenon
  # The arguments of these functions and their SQL.
  module Acts
    ID = ->(sql, value) { "#{sql.text(Integer(value))}::bigint" }
    JSONB = ->(sql, value) { "#{sql.json(value)}::jsonb" }
    BOOLEAN = ->(sql, value) { "#{sql.text(value)}::boolean" }

    TEXTS = %i[why from_step name on_done on_dead on_end cron kind zone catch_up overlap queue source when_dead].freeze
    WHOLES = %i[priority max_attempts max_running max_starts weight].freeze
    TYPES = {
      **TEXTS.to_h { |name| [name, Options::WORD] }, **WHOLES.to_h { |name| [name, Options::WHOLE] },
      id: ID, flow: ID, payload: JSONB, description: JSONB, strict: BOOLEAN, fair: BOOLEAN,
      every: Options::SPAN, per: Options::SPAN, timeout: Options::SPAN, until: Options::TIME
    }.freeze
    SCHEDULE = TYPES.slice(:cron, :every, :kind, :payload, :zone, :catch_up, :overlap, :queue, :priority, :max_attempts, :timeout, :source)
    LIMIT = TYPES.slice(:max_running, :max_starts, :per, :strict, :fair, :weight, :until, :when_dead)

    module_function

    # What the function returns, as text; arguments that are nil are left to it.
    def call(connection, function, **arguments)
      statement = Statement.new(connection)
      list = Options.sql(statement, arguments, TYPES).delete_prefix(", ")
      statement.rows("SELECT tenon.#{function}(#{list})::text")[0][0]
    end

    def known(options, names)
      options.each_key { |name| names.fetch(name) { raise ArgumentError, "no option #{name.inspect}; there are #{names.keys.join(', ')}" } }
    end
  end

  module_function

  # Runs a dead, cancelled or expired task again, under its own id; returns whether it did. For operators; `why` is for the audit.
  # With `from_step` the task forgets that step and all that it recorded after it.
  def retry(connection, id, why: nil, from_step: nil)
    Acts.call(connection, "retry", id: id, why: why, from_step: from_step) == "true"
  end

  # Makes a scheduled or retrying task ready at once; returns whether it did. For operators.
  def run_now(connection, id, why: nil)
    Acts.call(connection, "run_now", id: id, why: why) == "true"
  end

  # Makes a flow, and returns its number for the option `flow`. Given a hash, the flow has its tasks as well.
  def flow(connection, name = nil)
    Acts.call(connection, "flow", (name.is_a?(Hash) ? :description : :name) => name).to_i
  end

  # Makes a flow that enqueues tasks of these kinds when all of its own are done, when one is dead, and when all have ended.
  def batch(connection, on_done: nil, on_dead: nil, on_end: nil, payload: nil, name: nil)
    Acts.call(connection, "batch", on_done: on_done, on_dead: on_dead, on_end: on_end, payload: payload, name: name).to_i
  end

  # All tasks of the batch have been added; returns whether it was open.
  def close_batch(connection, flow)
    Acts.call(connection, "close", flow: flow) == "true"
  end

  # Cancels the tasks of a flow or batch that have not ended; returns how many it cancelled at once.
  def cancel_flow(connection, flow)
    Acts.call(connection, "cancel_flow", flow: flow).to_i
  end

  ParentResult = Struct.new(:id, :name, :state, :result)

  # What the parents of a running task returned, in the order of `depends_on`.
  def parent_results(connection, task)
    statement = Statement.new(connection)
    rows = statement.rows("SELECT p.id::text, p.name, p.state, p.result::text FROM tenon.parent_results(#{statement.text(task.claim)}) p")
    rows.map { |id, name, state, result| ParentResult.new(id.to_i, name, state.to_sym, result && JSON.parse(result)) }
  end

  # Sets or changes a schedule, with the options of tenon.set_schedule; returns its next tick. For operators.
  def set_schedule(connection, name, kind, **options)
    Acts.known(options, Acts::SCHEDULE)
    Time.parse(Acts.call(connection, "set_schedule", name: name, kind: kind, **options))
  end

  # Returns whether there was one.
  def remove_schedule(connection, name)
    Acts.call(connection, "remove_schedule", name: name) == "true"
  end

  # Sets or replaces a limit, with the options of tenon.set_limit. For operators.
  def set_limit(connection, name, **options)
    Acts.known(options, Acts::LIMIT)
    Acts.call(connection, "set_limit", name: name, **options)
    nil
  end

  # Returns whether there was one.
  def remove_limit(connection, name)
    Acts.call(connection, "remove_limit", name: name) == "true"
  end

  # Takes `count` of the rate of a limit key; returns 0, or the seconds to wait before asking again.
  def take_limit(connection, key, count = 1)
    statement = Statement.new(connection)
    sql = "SELECT tenon.take_limit(#{statement.text(key)}, #{statement.text(Integer(count))}::integer)::text"
    statement.rows(sql)[0][0].to_i / 1000.0
  end
end
