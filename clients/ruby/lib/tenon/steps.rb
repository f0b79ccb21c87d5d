require "digest"

module Tenon
  # The durable steps of one attempt (docs/steps.md): what is recorded is not done again.
  class Steps
    NAME_BYTES_MAX = 100
    STEP_BYTES_MAX = 1_048_576
    SNOOZE_MS_MAX = 2_592_000_000
    WAIT_MS_MAX = 31_536_000_000
    WAIT_FOR_MS = (1_000..60_000)
    ENDS = %w[done dead cancelled expired].freeze
    STATES = "SELECT r.state::text, r.result::text, r.error FROM pg_catalog.json_array_elements_text(%s) WITH ORDINALITY i (id, n), " \
             "tenon.result(i.id::bigint) r ORDER BY i.n".freeze

    REFUSED = "a task has 1,000 steps of 1 MiB in all, without \\u0000".freeze

    attr_reader :kept, :suspended

    def initialize(task, kept, &says)
      @task = task
      @kept = kept
      @says = says
      @lock = Mutex.new
      @asked = {}
      @running = {}
    end

    def step(name, connection)
      must_continue
      checked(name)
      return @kept[name] if @kept.key?(name) && !connection
      raise ArgumentError, "the step #{name.inspect} is running: give the other one another name" if @running[name]

      @running[name] = true
      begin
        connection ? step_there(name, connection) { yield } : record(name, yield)
      ensure
        @running.delete(name)
      end
    end

    def signal(name, timeout)
      must_continue
      checked(name)
      return @kept[name] if @kept.key?(name)

      ms = timeout.nil? ? WAIT_MS_MAX : Duration.milliseconds(timeout)
      raise ArgumentError, "wait for a signal for 1 ms to 365 days, not #{timeout.inspect}" unless ms.between?(1, WAIT_MS_MAX)

      suspend({ outcome: "wait_signal", signal: name, timeout_ms: ms })
    end

    def sleep(name, span)
      ends = step(name, nil) { milliseconds_now + Duration.milliseconds(span) }
      ms = ends - milliseconds_now
      suspend({ outcome: "snooze", delay_ms: [ms, SNOOZE_MS_MAX].min }) if ms.positive?
    end

    # The states, results and errors of other tasks, once all have ended. Until then it asks again after a quarter of the time that has
    # passed.
    def wait_for(ids, connection, name)
      must_continue
      name ||= "wait_for:#{Digest::SHA256.hexdigest(ids.join(' '))[0, 16]}"
      return @kept[name] if @kept.key?(name)

      found = states(ids, connection)
      unless found.all? { |state, *| state.nil? || ENDS.include?(state) }
        since = step("#{name}:since", nil) { milliseconds_now }
        delay_ms = ((milliseconds_now - since) / 4).clamp(WAIT_FOR_MS)
        suspend({ outcome: "snooze", delay_ms: delay_ms, error: "waits for #{ids.length} tasks" })
      end
      step(name, nil) { found }
    end

    def told(name, recorded)
      @lock.synchronize { @asked.delete(name) }&.push(recorded)
    end

    # No more answers will come.
    def end(why)
      @lock.synchronize do
        @over = why
        @asked.each_value { |answer| answer.push(why) }
        @asked.clear
      end
    end

    private

    def milliseconds_now = (Time.now.to_f * 1000).round

    def states(ids, connection)
      statement = Statement.new(connection)
      statement.rows(format(STATES, statement.json(ids))).map { |state, result, error| [state, result && JSON.parse(result), error] }
    end

    # A task that sleeps or waits does so, also if the handler has rescued what ends its attempt.
    def must_continue
      raise @suspended if @suspended
    end

    def suspend(reply)
      raise @suspended = Suspended.new(reply)
    end

    def checked(name)
      return if name.bytesize.between?(1, NAME_BYTES_MAX) && !name.include?("\0")

      raise ArgumentError, "the name of a step or signal has 1 to #{NAME_BYTES_MAX} bytes, not #{name[0, 120].inspect}"
    end

    # Through the worker, which answers when the record is committed.
    def record(name, value)
      kept = JSON.parse(Tenon.json(value), max_nesting: false)
      said = @task.sealed(kept, "step:#{name}")
      raise ArgumentError, "the step #{name.inspect} is longer than #{STEP_BYTES_MAX} bytes" if Tenon.json(said).bytesize > STEP_BYTES_MAX

      answer = asked(name)
      @says.call({ id: @task.id, step: { name: name, value: said } })
      case answer.pop
      when true then @kept[name] = kept
      when false then raise ArgumentError, "the step #{name.inspect} was not recorded: #{REFUSED}"
      else raise Interrupted, @over
      end
    end

    def asked(name)
      answer = Thread::Queue.new
      @lock.synchronize do
        raise Interrupted, @over if @over

        @asked[name] = answer
      end
      answer
    end

    # In the transaction of the connection, which also knows what an earlier attempt has committed.
    def step_there(name, connection)
      statement = Statement.new(connection)
      known = JSON.parse(statement.rows("SELECT tenon.steps(#{statement.text(@task.claim)})::text")[0][0] || "{}")
      return @kept[name] = opened(name, known[name]) if known.key?(name)

      value = yield
      record = Statement.new(connection)
      said = @task.sealed(value, "step:#{name}")
      sql = "SELECT tenon.step(#{record.text(@task.claim)}, #{record.text(name)}, #{record.json(said)}::jsonb)::text"
      opened(name, JSON.parse(record.rows(sql)[0][0]))
    end

    def opened(name, value)
      Secrets.opened(value, @task.kind, "step:#{name}")
    end
  end
end
