# What one does with tasks, flows, schedules and limits, on a real database.
require_relative "support"

class ActsTest < Minitest::Test
  include InTransaction

  def state(id) = Tenon.result(connection, id).state

  def test_retry_from_a_step
    runs = []
    Tenon.handle("acts.order") do |task|
      paid = task.step("pay") { runs << "pay" }
      task.step("ship") { runs << "ship" }
      raise Tenon::Dead, "no truck" if runs.length == 2

      paid
    end
    id = Tenon.enqueue(connection, "acts.order")
    Tenon::Testing.run_due(connection)
    assert_equal(:dead, state(id))
    assert(Tenon.retry(connection, id, why: "there is a truck", from_step: "ship"))
    refute(Tenon.retry(connection, id))
    Tenon::Testing.run_due(connection)
    assert_equal([:done, %w[pay ship ship]], [state(id), runs])
    assert_equal("there is a truck", connection.exec("SELECT what ->> 'why' FROM tenon.audit").getvalue(0, 0))
  end

  def test_run_now
    id = Tenon.enqueue(connection, "acts.later", {}, delay: "1 h")
    assert(Tenon.run_now(connection, id))
    assert_equal(:ready, state(id))
    refute(Tenon.run_now(connection, id))
  end

  def test_flows_and_batches
    Tenon.handle("acts.part") { |task| task.payload["n"] }
    Tenon.handle("acts.sum") { |task| Tenon.parent_results(connection, task).sum(&:result) }
    Tenon.handle("acts.end") { |task| task.payload["flow"] }
    flow = Tenon.flow(connection, "sums")
    parts = Tenon.enqueue_many(connection, "acts.part", [{ n: 1 }, { n: 2 }], flow: flow)
    sum = Tenon.enqueue(connection, "acts.sum", {}, flow: flow, depends_on: parts)
    batch = Tenon.batch(connection, on_end: "acts.end", payload: { of: 1 })
    Tenon.enqueue(connection, "acts.part", { n: 3 }, flow: batch)
    assert_equal([true, false], Array.new(2) { Tenon.close_batch(connection, batch) })
    runs = Tenon::Testing.run_due(connection)
    assert_equal([3, batch], [Tenon.result(connection, sum).result, runs.find { |run| run.kind == "acts.end" }.result])
    whole = Tenon.flow(connection, { tasks: [{ kind: "acts.part", name: "a" }, { kind: "acts.sum", depends_on: ["a"] }] })
    assert_equal(2, Tenon.cancel_flow(connection, whole))
  end

  def test_schedules
    tick = Tenon.set_schedule(connection, "nightly", "acts.part", cron: "0 3 * * *", zone: "Europe/Berlin", payload: { n: 1 })
    assert_operator(tick, :>, Time.now)
    assert_raises(ArgumentError) { Tenon.set_schedule(connection, "nightly", "acts.part", max_running: 1) }
    assert_equal([true, false], Array.new(2) { Tenon.remove_schedule(connection, "nightly") })
  end

  def test_limits
    Tenon.set_limit(connection, "sms", max_starts: 1, per: "1 min", fair: false)
    assert_equal(0, Tenon.take_limit(connection, "sms"))
    assert_in_delta(60, Tenon.take_limit(connection, "sms"), 30)
    assert_equal([true, false], Array.new(2) { Tenon.remove_limit(connection, "sms") })
  end
end
