require "securerandom"

module Tenon
  # Runs due tasks in the caller's transaction, as a worker would, with their ends in the database: for Testing.run_due.
  class Due
    # More runs in one call are taken for tasks that enqueue each other without end.
    RUNS_MAX = 10_000
    SNOOZE_MS = 60_000

    # Those of the transaction, because a database may have more in it than the test has put there; or all.
    MINE = "SELECT m.id FROM tenon.mine() m".freeze
    ALL = "SELECT t.id FROM tenon.task t".freeze

    LINE = <<~SQL.freeze
      json_build_object('id', t.id, 'kind', t.kind, 'queue', t.queue, 'attempt', 1 + t.failures + t.crashes, 'failures', t.failures,
          'max_attempts', t.max_attempts, 'timeout_ms', t.timeout_ms, 'trace', t.trace, 'progress', t.progress, 'payload', t.payload,
          'claim', t.id || '/' || t.claims || '/' || lpad(to_hex(t.claim_key), 16, '0'),
          'steps', CASE WHEN t.step_count IS NOT NULL THEN tenon.steps_of(t.id) ELSE '{}' END)::text
    SQL

    def initialize(connection, kinds, all:)
      @connection = connection
      @kinds = kinds
      @which = all ? ALL : MINE
    end

    # As if this time had passed.
    def ahead(span)
      ms = "#{Duration.milliseconds(span)} milliseconds"
      rows { |sql| <<~SQL }
        UPDATE tenon.task SET run_at = run_at - #{sql.text(ms)}::interval, wanted_at = wanted_at - #{sql.text(ms)}::interval,
               start_before = start_before - #{sql.text(ms)}::interval
         WHERE start_time IS NULL AND id IN (#{@which}) RETURNING id
      SQL
      rows { |sql| <<~SQL }
        UPDATE tenon.waiting SET until = until - #{sql.text(ms)}::interval, settled = false WHERE task_id IN (#{@which}) RETURNING task_id
      SQL
      rows { |sql| <<~SQL }
        UPDATE tenon.limit_task SET wanted_at = wanted_at - #{sql.text(ms)}::interval
         WHERE state IN ('later', 'ending') AND task_id IN (#{@which}) RETURNING task_id
      SQL
    end

    # The block runs a task by its line, and returns the reply and what the handler said before it.
    def each
      RUNS_MAX.times do
        rows { |_sql| "SELECT tenon.settle()::text" }
        key = (SecureRandom.random_number(2**62) + 1).to_s
        line = claim(key)
        return if line.nil?

        finish(line, key, *protected { yield(line) })
      end
      raise "#{RUNS_MAX} runs, and there are still due tasks: do they enqueue each other?"
    end

    private

    def rows
      statement = Statement.new(@connection)
      statement.rows(yield(statement))
    end

    def claim(key)
      found = rows { |sql| <<~SQL }
        UPDATE tenon.task t SET start_time = clock_timestamp(), claims = claims + 1, claim_key = #{sql.text(key)}::bigint,
               worker_id = '00000000-0000-0000-0000-000000000000'
         WHERE t.id = (SELECT d.id FROM tenon.task d
                        WHERE d.id IN (#{@which}) AND d.start_time IS NULL AND d.run_at <= clock_timestamp()
                          AND d.kind = ANY (#{sql.texts(@kinds)}) AND coalesce(d.start_before > clock_timestamp(), true)
                        ORDER BY d.priority DESC, d.run_at, d.id LIMIT 1)
        RETURNING #{LINE}
      SQL
      found[0] && JSON.parse(found[0][0], max_nesting: false)
    end

    # If a statement of the handler has failed on this connection, what the attempt wrote is undone.
    def protected(&block)
      return in_active_record(&block) if @connection.respond_to?(:exec_query)
      return yield if @connection.transaction_status == PG::PQTRANS_IDLE

      @connection.exec("SAVEPOINT tenon_testing")
      ran = yield
      @connection.exec("ROLLBACK TO SAVEPOINT tenon_testing") if failed?(@connection)
      @connection.exec("RELEASE SAVEPOINT tenon_testing")
      ran
    end

    # A transaction of the handler's own is real in there: its callbacks after the commit run.
    def in_active_record
      ran = nil
      @connection.transaction(requires_new: true, joinable: false) do
        ran = yield
        raise ::ActiveRecord::Rollback if failed?(@connection.raw_connection)
      end
      ran
    end

    def failed?(raw)
      raw.transaction_status == PG::PQTRANS_INERROR
    end

    # What a worker does with an answer.
    def finish(line, key, reply, said)
      return unless held?(line, key) # the handler has finished it, or it was cancelled

      said.each { |message| record(line["claim"], message) }
      return requeue(line, key, reply) unless reply[:outcome] == "done"

      result = reply.key?(:result) ? Tenon.json(reply[:result]) : nil
      rows { |sql| "SELECT tenon.finish(#{sql.text(line['claim'])}, #{sql.text(result)}::jsonb)::text" }
    end

    def held?(line, key)
      rows do |sql|
        "SELECT 1 FROM tenon.task WHERE id = #{sql.text(line['id'])}::bigint AND claim_key = #{sql.text(key)}::bigint"
      end.any?
    end

    def record(claim, message)
      step = message[:step]
      if step
        rows { |sql| "SELECT tenon.step(#{sql.text(claim)}, #{sql.text(step[:name])}, #{sql.json(step[:value])}::jsonb)::text" }
      elsif message.key?(:progress)
        rows { |sql| "SELECT tenon.progress(#{sql.text(claim)}, #{sql.json(message[:progress])}::jsonb)::text" }
      end
    end

    def requeue(line, key, reply)
      reason = reply[:outcome] == "interrupted" ? "released" : reply[:outcome]
      delay = reply[:delay_ms] || reply[:timeout_ms] || (SNOOZE_MS if reason == "snooze")
      rows { |sql| <<~SQL }
        SELECT state FROM tenon.requeue(ARRAY[#{sql.text(line['id'])}::bigint], ARRAY[#{sql.text(key)}::bigint], ARRAY[#{sql.text(reason)}],
            ARRAY[#{sql.text(reply[:error])}], ARRAY[#{sql.text(delay)}::bigint], ARRAY[#{sql.text(reply[:error_class])}],
            ARRAY[#{sql.text(reply[:signal])}])
      SQL
    end
  end
end
