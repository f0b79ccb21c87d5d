# The plain client, on real servers.
require_relative "support"

class ClientTest < Minitest::Test
  include InTransaction
  HANDLERS = "#{__dir__}/handlers.rb".freeze

  # For what a worker shall see.
  def committed
    connection.exec("COMMIT")
    connection.exec("DELETE FROM tenon.task")
    connection.exec("DROP TABLE IF EXISTS public.lines")
    connection.exec("CREATE TABLE public.lines (id bigserial, text text)")
  end

  def lines
    connection.exec("SELECT text FROM public.lines ORDER BY id").column_values(0)
  end

  def test_enqueue_in_a_transaction
    id = Tenon.enqueue(connection, "echo", { to: "ann" })
    assert_equal([[id, "echo", { "to" => "ann" }]], Tenon::Testing.mine(connection).map { |one| one.to_a.values_at(0, 1, 7) })
    connection.exec("ROLLBACK")
    assert_nil(Tenon.result(connection, id))
  end

  def test_the_logger
    said = []
    task = Tenon::Task.new({ "id" => 1, "timeout_ms" => 1000 }) { |line| said << line[:log] }
    Tenon.current = task
    Tenon.logger.info("one")
    Tenon.logger.error(ArgumentError.new("two"))
    Tenon.logger.warn("shop") { "\xff" }
    task.log("info", "lost", { n: Float::NAN })
    Tenon.current = nil
    assert_output(nil, /outside/) { Tenon::Logger.new.warn("outside") }
    assert_equal([{ level: "info", message: "one" }, { level: "error", message: "ArgumentError: two" },
                  { level: "warning", message: "\ufffd", fields: { logger: "shop" } }], said)
  end

  def test_an_error_that_cannot_be_described
    task = Tenon::Task.new({ "id" => 1, "timeout_ms" => 1000 }) { |_line| flunk }
    reply = Tenon::Reply.to(task) { raise Tenon::Retry.new("busy", after: "soon") }
    assert_equal({ outcome: "failed", error: "an error that cannot be described: Tenon::Retry, ArgumentError" }, reply)
  end

  def test_options_are_checked
    error = assert_raises(ArgumentError) { Tenon.enqueue(connection, "echo", {}, prio: 3) }
    assert_match(/\Ano option :prio; there are queue, /, error.message)
    assert_raises(ArgumentError) { Tenon.enqueue(connection, "echo", {}, delay: "soon") }
  end

  def test_result
    committed
    id = Tenon.enqueue(connection, "echo", { to: "é" })
    work(HANDLERS)
    assert_equal(Tenon::Result.new(:done, { "to" => "é" }, nil), Tenon.result(connection, id))
  end

  def test_finish_in_the_handlers_transaction
    committed
    id = Tenon.enqueue(connection, "finish", {})
    work(HANDLERS)
    assert_equal(Tenon::Result.new(:done, { "in" => "transaction" }, nil), Tenon.result(connection, id))
    assert_equal(["finished"], lines)
  end

  # It is killed after the work of each step, and after the record of each.
  def test_a_saga_that_is_killed_at_each_step
    committed
    id = Tenon.enqueue(connection, "saga", {}, retry: "constant(1 ms, 1 ms)")
    work_until(HANDLERS) { Tenon.result(connection, id).state == :done }
    assert_equal(:done, Tenon.result(connection, id).state)
    assert_equal(%w[reserve charge ship], lines.uniq)
    assert_equal(%w[reserve charge ship], Tenon.result(connection, id).result)
    assert_equal(1, lines.count("ship"), "a step on the connection is done exactly once")
  end

  def test_a_signal
    committed
    id = Tenon.enqueue(connection, "wait", {})
    work(HANDLERS)
    assert_equal(:blocked, Tenon.result(connection, id).state)
    Tenon.signal(connection, "paid:#{id}", { amount: 30 })
    connection.exec("SELECT tenon.settle()") # as the cleaner does
    work(HANDLERS)
    assert_equal({ "amount" => 30 }, Tenon.result(connection, id).result)
  end

  # Nothing of it is in the database in the clear.
  def test_secrets
    committed
    Tenon.keys = keys = Tenon::Keys.parse("2026-11:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
    payloads = [{ card: "4111 1111" }, { card: "4111 1111", refused: true }]
    id, = Tenon.enqueue_many(connection, "charge", payloads, secret: "all", max_attempts: 1)
    work_until(HANDLERS) { Tenon.result(connection, id).state == :done }
    result = Tenon.result(connection, id).result
    assert_equal(["1111", "4111 1111", { "card" => "4111 1111" }], keys.decrypt(result, kind: "charge", what: "result"))
    rows = connection.exec("SELECT t::text, tenon.steps_of(t.id)::text FROM tenon.tasks t WHERE kind = 'charge'").values.join
    refute_includes(rows, "1111")
    assert_includes(rows, "RuntimeError (its message is not kept, because the task is secret)")
    assert_raises(ArgumentError) { Tenon.enqueue(connection, "charge", {}, secret: "all", on_conflict: "merge", unique_key: "k") }
  ensure
    Tenon.keys = nil
  end

  def test_a_secret_without_keys
    error = assert_raises(Tenon::SecretError) { Tenon.enqueue(connection, "charge", {}, secret: "payload") }
    assert_equal("the payload of charge is to be encrypted, but there are no keys: Tenon.keys=", error.message)
  end

  def test_cancel
    id = Tenon.enqueue(connection, "echo", {})
    assert(Tenon.cancel(connection, id))
    refute(Tenon.cancel(connection, id))
  end

  def test_sync
    description = { limits: { "smtp" => { max_running: 5 } }, kinds: { "echo" => { timeout: "90 s" } },
                    schedules: { "nightly" => { cron: "0 3 * * *", kind: "echo" } } }
    assert_equal([%w[kind echo added], %w[limit smtp added], %w[schedule nightly added]], Tenon.sync(connection, description).sort)
    assert_empty(Tenon.sync(connection, description))
    assert_equal([%w[limit smtp changed]], Tenon.sync(connection, { limits: { "smtp" => { max_running: 6 } } }))
  end

  def test_middleware_is_outermost_last
    seen = []
    around = [->(_task, run) { seen << 1 and run.call }, ->(_task, run) { seen << 2 and run.call }]
    source, sink = StringIO.new(%({"id":1,"kind":"k","timeout_ms":1000,"payload":{}}\n)), StringIO.new
    Tenon::Child.new({ "k" => ->(_task) { seen << 3 } }, threads: 1, around: around, wire: Tenon::Wire.new(source, sink)).serve
    assert_equal([2, 1, 3], seen)
  end
end

# examples/ruby.
class ExamplesTest < Minitest::Test
  include InTransaction
  EXAMPLES = "#{ROOT}/examples/ruby".freeze

  def sign_up(mail)
    Open3.capture2e(RbConfig.ruby, "-I#{CLIENT}/lib", "#{EXAMPLES}/producer.rb", mail)
  end

  def test_the_examples
    connection.exec("COMMIT")
    connection.exec("DELETE FROM tenon.task")
    connection.exec("CREATE TABLE public.users (mail text PRIMARY KEY)")
    said, status = sign_up("zoë@example.org")
    assert_predicate(status, :success?)
    refute_predicate(sign_up("zoë@example.org")[1], :success?)
    assert_equal("1", connection.exec("SELECT count(*) FROM tenon.task").getvalue(0, 0))
    work("#{EXAMPLES}/handler.rb")
    assert_equal({ "sent" => "zoë@example.org" }, Tenon.result(connection, said[/\d+/]).result)
  ensure
    connection.exec("DROP TABLE IF EXISTS public.users")
  end
end

class RunDueTest < Minitest::Test
  include InTransaction

  def setup
    super
    Tenon.handle("due.wait") { |task| task.wait_signal("paid:#{task.id}", timeout: "1 d") || "late" }
    Tenon.handle("due.parent") { |_task| Tenon.enqueue(connection, "due.child", {}) }
    Tenon.handle("due.child") { |task| task.finish(connection, "finished") }
    Tenon.handle("due.broken") { |_task| connection.exec("SELECT 1 / 0") }
  end

  def due(**options) = Tenon::Testing.run_due(connection, **options).map { |run| [run.kind, run.outcome] }
  def result(id) = Tenon.result(connection, id).result

  def test_what_follows_runs_too
    id = Tenon.enqueue(connection, "due.parent", {})
    assert_equal([["due.parent", :done], ["due.child", :done]], due)
    assert_equal("finished", result(result(id)))
    assert_empty(due)
  end

  def test_time_passes
    id = Tenon.enqueue(connection, "due.wait", {}, delay: "1 h")
    assert_empty(due)
    assert_equal([["due.wait", :wait_signal]], due(ahead: "1 h"))
    assert_empty(due)
    assert_equal([["due.wait", :done]], due(ahead: "1 d"))
    assert_equal("late", result(id))
  end

  def test_a_signal
    id = Tenon.enqueue(connection, "due.wait", {})
    due
    Tenon.signal(connection, "paid:#{id}", { amount: 30 })
    assert_equal([["due.wait", :done]], due)
    assert_equal({ "amount" => 30 }, result(id))
  end

  def test_a_delay_under_a_limit
    Tenon.enqueue(connection, "due.parent", {}, delay: "1 h", limit_keys: ["due"])
    assert_empty(due)
    assert_equal([["due.parent", :done], ["due.child", :done]], due(ahead: "1 h"))
  end

  def test_a_statement_that_fails
    id = Tenon.enqueue(connection, "due.broken", {}, max_attempts: 1)
    assert_equal([["due.broken", :failed]], due)
    assert_equal(:dead, Tenon.result(connection, id).state)
  end

  def test_only_those_of_the_transaction
    connection.exec("COMMIT")
    connection.exec("DELETE FROM tenon.task")
    Tenon.enqueue(connection, "due.child", {})
    connection.exec("BEGIN")
    assert_empty(due)
    assert_equal([["due.child", :done]], due(all: true))
    connection.exec("ROLLBACK")
    assert_equal([["due.child", :done]], due(all: true), "and without a transaction")
    assert_equal("0", connection.exec("SELECT count(*) FROM tenon.task").getvalue(0, 0))
  end
end

class TestingTest < Minitest::Test
  def setup
    Tenon.handle("testing.steps") { |task| task.step("one") { 1 } + task.attempt }
    Tenon.handle("testing.snooze") { |_task| raise Tenon::Snooze.new("closed", after: "2 h") }
    Tenon.handle("testing.swallowed") do |task|
      task.wait_signal("paid")
    rescue Exception # rubocop:disable Lint/RescueException
      "swallowed"
    end
  end

  def test_run
    run = Tenon::Testing.run("testing.steps", {}, attempt: 3)
    assert_equal([:done, 4, { "one" => 1 }], [run.outcome, run.result, run.steps])
    assert_equal(8, Tenon::Testing.run("testing.steps", {}, steps: { one: 7 }).result)
    assert_equal([:snooze, 7_200_000], Tenon::Testing.run("testing.snooze").to_h.values_at(:outcome, :delay_ms))
    assert_equal(:wait_signal, Tenon::Testing.run("testing.swallowed").outcome)
    assert_raises(ArgumentError) { Tenon::Testing.run("testing.nowhere") }
  end
end
