require "json"
require "tenon"
require "tenon/due"

module Tenon
  # Tests without a worker: run a handler here and now, and look at what a transaction has enqueued.
  module Testing
    Run = Struct.new(:id, :kind, :outcome, :result, :error, :error_class, :delay_ms, :signal, :progress, :steps, keyword_init: true)
    Enqueued = Struct.new(:id, :kind, :queue, :state, :priority, :run_at, :unique_key, :payload)

    LINE = { "id" => 1, "queue" => "default", "attempt" => 1, "failures" => 0, "max_attempts" => 25, "timeout_ms" => 3_600_000,
             "claim" => "1/1/0000000000000000", "trace" => nil, "progress" => nil }.freeze
    COLUMNS = "id::text, kind, queue, state::text, priority::text, extract(epoch FROM run_at)::text, unique_key, payload::text".freeze

    module_function

    # Runs the handler of this kind. `line` has what the task says: attempt: 3, steps: { ... }, progress: ...
    def run(kind, payload = {}, **line)
      whole = LINE.merge(JSON.parse(Tenon.json(line.transform_keys(&:to_s))), "kind" => kind, "payload" => JSON.parse(Tenon.json(payload)))
      run_of(whole, *attempt(whole))
    end

    # What the transaction of this connection has enqueued so far.
    def mine(connection)
      rows = Statement.new(connection).rows("SELECT #{COLUMNS} FROM tenon.mine() m ORDER BY m.id")
      rows.map do |id, kind, queue, state, priority, run_at, key, payload|
        Enqueued.new(id.to_i, kind, queue, state.to_sym, priority.to_i, Time.at(run_at.to_r), key, JSON.parse(payload))
      end
    end

    # Runs what the transaction has enqueued so far, in order, in this thread. Nothing is committed or finished.
    def run_mine(connection)
      handle_jobs
      mine(connection).map { |one| run(one.kind, one.payload, id: one.id, queue: one.queue) }
    end

    # Runs the tasks that the transaction has enqueued and that are due, ends them in the database, and continues with what follows
    # from that, until no task is due. `ahead` lets time pass first: "1 d". With `all`, those that others have committed run, too.
    def run_due(connection, ahead: nil, all: false)
      handle_jobs
      due = Due.new(connection, Tenon.handlers.keys, all: all)
      due.ahead(ahead) if ahead
      runs = []
      due.each do |line|
        attempt(line).tap { |reply, said| runs << run_of(line, reply, said) }
      end
      runs
    end

    # The reply of the handler, and what it said before that.
    def attempt(line)
      said = []
      task = Task.new(line) do |message|
        said << message
        task.told(message[:step][:name], true) if message[:step]
      end
      [reply(task), said]
    end

    def handle_jobs
      Jobs.handle_all if defined?(::ActiveJob::Base) && defined?(Tenon::Jobs)
    end

    def reply(task)
      handler = Tenon.handlers.fetch(task.kind) { raise ArgumentError, "there is no handler for #{task.kind.inspect}" }
      before = Tenon.current
      Tenon.current = task
      Reply.to(task) { handler.call(task) }
    ensure
      Tenon.current = before
    end

    def run_of(line, reply, said)
      Run.new(id: line["id"], kind: line["kind"], **reply.slice(:result, :error, :error_class, :delay_ms, :signal),
              outcome: reply[:outcome].to_sym, progress: said.filter_map { |one| one[:progress] },
              steps: said.filter_map { |one| one[:step] }.to_h { |s| [s[:name], s[:value]] })
    end
  end
end
