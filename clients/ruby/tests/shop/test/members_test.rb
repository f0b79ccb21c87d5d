require "test_helper"

class MembersTest < ActionDispatch::IntegrationTest
  def sent = Sent.order(:id).pluck(:text)

  test "signing up sends a mail" do
    post "/members", params: { mail: "ann@example.org" }
    assert_response :created
    (task,) = enqueued_tasks
    assert_equal ["WelcomeJob", "mail", "welcome:#{Member.last.id}"], [task.kind, task.queue, task.unique_key]
    assert_empty sent
    assert_equal [:done], run_due_tasks.map(&:outcome)
    assert_equal ["Welcome, ann@example.org!"], sent
    assert_empty run_due_tasks
  end

  test "a second sign-up is rolled back with its task" do
    post "/members", params: { mail: "bob@example.org" }
    post "/members", params: { mail: "bob@example.org" }
    assert_response :conflict
    assert_equal 1, enqueued_tasks.length
  end

  test "a task of a transaction that fails" do
    assert_raises(RuntimeError) do
      Member.transaction do
        Member.create!(mail: "eve@example.org")
        raise "no"
      end
    end
    assert_empty enqueued_tasks
  end

  test "retry_on: a second run after 30 s, and then no more" do
    Member.create!(mail: "busy@example.org")
    assert_equal [:done], run_due_tasks.map(&:outcome)
    assert_empty run_due_tasks
    assert_equal [:dead], run_due_tasks(ahead: 1.minute).map(&:outcome)
    assert_empty run_due_tasks(ahead: "30 d")
  end

  test "discard_on: a member that is deleted meanwhile" do
    Member.create!(mail: "gone@example.org").delete
    assert_equal [:done], run_due_tasks.map(&:outcome)
    assert_empty sent
  end

  test "a statement that fails undoes its attempt alone" do
    Sent.create!(text: "before")
    ReportJob.perform_later("broken")
    (run,) = run_due_tasks
    assert_equal [:failed, "ActiveRecord::StatementInvalid"], [run.outcome, run.error_class]
    assert_equal ["before"], sent
    assert_equal 2, Array.new(3) { run_due_tasks(ahead: "1 d").length }.sum, "three attempts in all"
  end

  test "the assertions of Rails work, too" do
    assert_enqueued_with(job: ReportJob, args: ["weekly"]) { ReportJob.perform_later("weekly") }
    assert_equal 1, enqueued_tasks.length
  end
end

# Without the adapter of Rails' tests.
class MemberTest < ActiveSupport::TestCase
  test "the adapter is that of config/application.rb, and never defers" do
    assert_kind_of ActiveJob::QueueAdapters::TenonAdapter, ActiveJob::Base.queue_adapter
    Member.transaction do
      Member.create!(mail: "ann@example.org")
      assert_equal 1, enqueued_tasks.length
    end
    assert_equal [:done], run_due_tasks.map(&:outcome)
  end
end
