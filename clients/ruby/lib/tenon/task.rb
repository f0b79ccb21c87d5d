require "json"
require "monitor"
require_relative "database"
require_relative "duration"
require_relative "outcomes"
require_relative "secrets"
require_relative "steps"

module Tenon
  # The task that runs: what the worker said of it, and what the handler may say to the worker.
  class Task
    PROGRESS_BYTES_MAX = 65_536
    LOG_MESSAGE_MAX = 8192 # characters; the worker keeps 4,096 bytes
    EXTEND_MS_MAX = 2_592_000_000

    # Why the task should stop: "cancelled", "lost" (its claim) or "drain" (the worker ends); nil: it should not.
    attr_reader :stopped_why
    # The progress that was recorded last, by this or an earlier attempt.
    attr_reader :progress
    # As JSON has it.
    attr_reader :payload

    def initialize(line, &says)
      @line = line
      @says = says
      @payload = line["payload"]
      @progress = line["progress"]
      @steps = Steps.new(self, line["steps"] || {}, &says)
      @deadline = now + (line["timeout_ms"] / 1000.0)
      @lock = Monitor.new
      @stopped = @lock.new_cond
    end

    def id = @line["id"]
    def kind = @line["kind"]
    def queue = @line["queue"]
    def attempt = @line["attempt"]
    def failures = @line["failures"]
    def max_attempts = @line["max_attempts"]
    def trace = @line["trace"]
    # The claim token, for SQL of your own: tenon.finish, tenon.progress, tenon.extend.
    def claim = @line["claim"]
    # What is recorded: steps by their names, and the signals that came.
    def steps = @steps.kept

    # Decrypts what came encrypted; with "all", what the handler says is encrypted from here on.
    def open(secret)
      @secret = secret
      @hides = [payload, progress, *steps.values].any? { |value| Keys.envelope?(value) } || !secret.nil?
      @payload = Secrets.opened(payload, kind, "payload")
      @progress = Secrets.opened(progress, kind, "progress")
      steps.each { |name, value| steps[name] = Secrets.opened(value, kind, "step:#{name}") }
    end

    # Whether something of it is secret, and so are the messages of its errors.
    def hides? = @hides

    def sealed(value, what)
      @secret == "all" ? Secrets.sealed(value, kind, what) : value
    end

    # How many seconds the task may still run.
    def remaining
      @deadline - now
    end

    # Records the progress. The worker stores the last value about once a second; the next attempt gets it.
    def progress=(value)
      plain = JSON.parse(Tenon.json(value))
      said = sealed(plain, "progress")
      raise ArgumentError, "progress is longer than #{PROGRESS_BYTES_MAX} bytes" if Tenon.json(said).bytesize > PROGRESS_BYTES_MAX

      @progress = plain
      @says.call({ id: id, progress: said })
    end

    # Sends a log line; the level is "error", "warning", "info" or "debug". It fails no task: what is not JSON is left out,
    # and so are the lines of tasks that have something secret.
    def log(level, message, fields = nil)
      return if hides?

      line = { level: level, message: message.to_s[0, LOG_MESSAGE_MAX].scrub }
      line[:fields] = fields if fields
      JSON.generate(line)
      @says.call({ id: id, log: line })
    rescue JSON::GeneratorError, EncodingError
      nil
    end

    # Moves the deadline to this time from now, if that is later.
    def extend_by(span)
      ms = Duration.milliseconds(span)
      raise ArgumentError, "extend by 1 ms to 30 days, not #{span.inspect}" unless ms.between?(1, EXTEND_MS_MAX)

      @deadline = [@deadline, now + (ms / 1000.0)].max
      @says.call({ id: id, extend_ms: ms })
    end

    # Runs the block once, even after a crash, and returns its value as JSON has it, in this attempt or a later one. With a connection
    # the record is a part of its transaction.
    def step(name, connection = nil, &block)
      @steps.step(name.to_s, connection, &block)
    end

    # The payload of the signal; nil if it did not come in time. Until it comes, no attempt runs.
    def wait_signal(name, timeout: nil)
      @steps.signal(name.to_s, timeout)
    end

    # Ends the attempt, and continues after this time, once for each name.
    def sleep(name, span)
      @steps.sleep(name.to_s, span)
    end

    # How other tasks have ended, in the order of the ids; for instance children, which a step has enqueued. This is a step too: while one
    # of them has not ended, the attempt ends, and the handler runs again after 1 s to 60 s.
    def wait_for(ids, connection, name = nil)
      @steps.wait_for(ids, connection, name).map { |state, result, error| Result.new(state&.to_sym, result, error) }
    end

    # Ends the task in the connection's transaction: what it writes and the end of the task are both there, or neither.
    def finish(connection, result = nil)
      statement = Statement.new(connection)
      value = result.nil? ? "NULL::jsonb" : "#{statement.json(sealed(result, 'result'))}::jsonb"
      statement.rows("SELECT tenon.finish(#{statement.text(claim)}, #{value})::text")
      nil
    end

    def stopping? = !@stopped_why.nil?
    def cancelled? = @stopped_why == "cancelled"

    # Raises Interrupted if the task should stop. For loops, after they have recorded their progress.
    def check!
      raise Interrupted, @stopped_why if stopping?
    end

    # Waits for this time, or until the task should stop; returns whether it should.
    def wait(span)
      ends = now + (Duration.milliseconds(span) / 1000.0)
      @lock.synchronize do
        @stopped.wait(ends - now) until stopping? || now >= ends
      end
      stopping?
    end

    # The worker's words come here, from the thread that reads.
    def stop(why)
      @lock.synchronize do
        @stopped_why = why
        @stopped.broadcast
      end
      @steps.end(why) unless why == "drain"
    end

    def told(name, recorded) = @steps.told(name, recorded)
    def end_of_lines = @steps.end("the worker is gone")
    def suspended = @steps.suspended

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
