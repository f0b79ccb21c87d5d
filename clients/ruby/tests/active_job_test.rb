# ActiveJob with the adapter, on real servers.
require_relative "support"
require_relative "jobs"

class ActiveJobCase < Minitest::Test
  JOBS = "#{__dir__}/jobs.rb".freeze

  def setup
    connection.execute("DROP TABLE IF EXISTS public.notes; CREATE TABLE public.notes (id bigserial PRIMARY KEY, text text);
                        DELETE FROM tenon.task")
    @before = connection.select_value("SELECT coalesce(max(id), 0)::text FROM tenon.tasks")
  end

  def connection
    ActiveRecord::Base.connection
  end

  def rolled_back(&block)
    ActiveRecord::Base.transaction do
      block.call
      raise ActiveRecord::Rollback
    end
  end

  def mine
    Tenon::Testing.mine(connection)
  end

  def notes
    Note.order(:id).pluck(:text)
  end

  def state(job)
    Tenon.result(connection, job.provider_job_id).state
  end
end

class ActiveJobEnqueueTest < ActiveJobCase
  def test_the_job_is_in_the_transaction
    rolled_back do
      job = NoteJob.perform_later("a")
      assert_equal([job.provider_job_id], mine.map(&:id))
      assert_equal(["NoteJob", "default", :ready, 4], mine[0].to_a.values_at(1, 2, 3, 4))
    end
    assert_equal("0", connection.select_value("SELECT count(*)::text FROM tenon.task"))
  end

  # Where Rails could enqueue after the commit, it does not.
  def test_it_is_never_deferred
    refute_predicate(ActiveJob::Base.queue_adapter, :enqueue_after_transaction_commit?)
    ActiveRecord::Base.transaction do
      NoteJob.perform_later("a")
      assert_equal(1, mine.length)
      NoteJob.enqueue_after_transaction_commit = :default if NoteJob.respond_to?(:enqueue_after_transaction_commit=)
      NoteJob.perform_later("b")
      assert_equal(2, mine.length)
    end
  end

  def test_a_savepoint_that_is_rolled_back
    ActiveRecord::Base.transaction do
      NoteJob.perform_later("a")
      ActiveRecord::Base.transaction(requires_new: true) do
        NoteJob.perform_later("b")
        raise ActiveRecord::Rollback
      end
      assert_equal([["a"]], mine.map { |one| one.payload["arguments"] })
    end
  end

  def test_wait_queue_and_priority
    rolled_back do
      NoteJob.set(wait: 10.minutes, queue: "mail", priority: 0).perform_later("a")
      NoteJob.set(wait_until: Time.utc(2035, 1, 31, 8), priority: 50).perform_later("b")
      NoteJob.set(priority: -7).perform_later("c")
      one, two, three = mine
      assert_equal(["mail", :scheduled, 9], one.to_a.values_at(2, 3, 4))
      assert_in_delta(Time.now.to_f + 600, one.run_at.to_f, 30)
      assert_equal([0, Time.utc(2035, 1, 31, 8)], [two.priority, two.run_at.utc])
      assert_equal(9, three.priority)
    end
  end

  def test_a_queue_that_is_not_allowed
    error = assert_raises(ArgumentError) { NoteJob.set(queue: "Mail").perform_later("a") }
    assert_match(/queue "Mail" is not allowed/, error.message)
  end

  def test_options_of_the_class
    rolled_back do
      ids = [1, 1, 2].map { |n| KilledJob.perform_later(n).provider_job_id }
      assert_equal([ids[0], ids[0]], ids.first(2))
      assert_equal(%w[killed:1 killed:2], mine.map(&:unique_key))
      assert_raises(ArgumentError) { KilledJob.tenon(time: 3) }
    end
  end

  def test_quotes_and_backslashes
    text = "it's \\ \\' $1 ? \u{1F600}"
    rolled_back do
      NoteJob.perform_later(text)
      assert_equal([text], mine[0].payload["arguments"])
    end
  end

  def test_many_at_once
    jobs = [NoteJob.new("a"), NoteJob.new("b"), DiscardedJob.new, NoteJob.new("c")]
    jobs[3].queue_name = "mail"
    jobs[3].scheduled_at = ActiveJob.respond_to?(:perform_all_later) ? Time.utc(2035, 1, 31, 8) : Time.utc(2035, 1, 31, 8).to_f
    rolled_back do
      assert_equal(4, ActiveJob::Base.queue_adapter.enqueue_all(jobs))
      assert_equal(jobs.map(&:provider_job_id).sort, mine.map(&:id))
      assert_equal(["mail", :scheduled], mine[3].to_a.values_at(2, 3))
      assert_equal(jobs.map(&:job_id), jobs.map { |job| mine.find { |one| one.id == job.provider_job_id }.payload["job_id"] })
      next unless ActiveJob.respond_to?(:perform_all_later)

      ActiveJob.perform_all_later([NoteJob.new("x"), NoteJob.new("y")])
      assert_equal(6, mine.length)
    end
  end

  def test_run_mine
    rolled_back do
      NoteJob.perform_later("a")
      FailingJob.perform_later
      runs = Tenon::Testing.run_mine(connection)
      assert_equal(%i[done failed], runs.map(&:outcome))
      assert_equal(["no funds", "RuntimeError"], [runs[1].error.lines.first.chomp, runs[1].error_class])
      assert_equal(["a"], notes)
    end
  end
end

class ActiveJobWorkerTest < ActiveJobCase
  def test_jobs_run
    jobs = Array.new(20) { |n| NoteJob.perform_later("note #{n}") }
    log = work(JOBS, "--stderr")
    assert_equal(20, notes.uniq.length)
    assert(jobs.all? { |job| state(job) == :done })
    assert_includes(log, "not a line of the protocol")
  end

  def test_globalid
    note = Note.create!(text: "found")
    GlobalJob.perform_later(note, at: 3.days.from_now, names: [:a, { b: 1.5 }])
    work(JOBS)
    assert_match(/\Afound ActiveSupport::TimeWithZone|\Afound Time/, notes.last)
  end

  # Each run is a task of its own; that it is there and that the one before has ended is one commit.
  def test_retry_on
    RetriedJob.perform_later(3)
    work(JOBS)
    assert_equal(["execution 1", "execution 2", "execution 3"], notes)
    assert_equal({ "done" => 3 }, states("RetriedJob"))
  end

  def test_retry_on_gives_up
    RetriedJob.perform_later(9)
    work(JOBS)
    assert_equal(3, notes.length)
    assert_equal({ "done" => 2, "dead" => 1 }, states("RetriedJob"))
  end

  def test_discard_on
    job = DiscardedJob.perform_later
    work(JOBS)
    assert_equal(:done, state(job))
  end

  def test_an_exception_is_retried_by_tenon
    job = FailingJob.perform_later
    work_until(JOBS) { state(job) == :dead }
    result = Tenon.result(connection, job.provider_job_id)
    assert_equal(:dead, result.state)
    assert_match(/\Ano funds\n/, result.error)
  end

  def test_a_job_killed_with_9_runs_again
    job = KilledJob.perform_later("x")
    work_until(JOBS) { state(job) == :done }
    assert_equal(%w[started started ended], notes)
    assert_equal(:done, state(job))
  end

  def test_a_saga_that_is_killed_after_each_step
    job = SagaJob.perform_later
    connection.execute("UPDATE tenon.task SET retry = 'constant(1 ms, 1 ms)'")
    work_until(JOBS) { state(job) == :done }
    assert_equal(SagaJob::STEPS, notes)
    assert_equal(:done, state(job))
  end

  # As a schedule enqueues it.
  def test_a_payload_of_arguments_alone
    id = Tenon.enqueue(connection, "NoteJob", { arguments: ["scheduled"] })
    work(JOBS)
    assert_equal(["scheduled"], notes)
    assert_equal(:done, Tenon.result(connection, id).state)
  end

  private

  def states(kind)
    connection.exec_query("SELECT state::text, count(*)::int FROM tenon.tasks WHERE kind = #{connection.quote(kind)}
                           AND id > #{@before} GROUP BY 1").rows.to_h
  end
end
