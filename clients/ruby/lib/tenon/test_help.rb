require "tenon/program"
require "tenon/testing"
require "tenon/active_job"

module Tenon
  # For test/test_helper.rb, after rails/test_help: `require "tenon/test_help"`. The test database gets the schema tenon, also that of
  # each parallel process; and integration tests enqueue their jobs in it.
  module TestHelp
    def self.prepare
      Jobs.connection do |connection|
        there = Statement.new(connection).rows("SELECT pg_catalog.to_regclass('tenon.task') IS NOT NULL")[0][0]
        next if there.to_s.start_with?("t")

        Program.run("setup", "--amqp-url", "none", database: connection.raw_connection.conninfo_hash)
      end
    end

    # What the test has enqueued so far.
    def enqueued_tasks
      Jobs.connection { |connection| Testing.mine(connection) }
    end

    # Runs the tasks that the test has enqueued and that are due, also those that follow from them; with `ahead`, as if that time had
    # passed. In a test without a transaction, `all: true` runs what is committed.
    def run_due_tasks(ahead: nil, all: false)
      Jobs.connection { |connection| Testing.run_due(connection, ahead: ahead, all: all) }
    end

    # The adapter of Rails' tests, so that assert_enqueued_with and its like work; jobs are tasks of the database, too.
    class Adapter < ::ActiveJob::QueueAdapters::TestAdapter
      def enqueue_after_transaction_commit?
        false
      end

      def enqueue(job)
        Jobs.enqueue(job)
        super
      end

      def enqueue_at(job, timestamp)
        Jobs.enqueue(job, timestamp)
        super
      end
    end

    # Overrides ActiveJob::TestHelper's.
    module Adapting
      def queue_adapter_for_test
        Adapter.new
      end
    end
  end
end

Tenon::TestHelp.prepare
ActiveSupport::TestCase.include(Tenon::TestHelp)
ActiveSupport::TestCase.parallelize_setup { Tenon::TestHelp.prepare }
ActiveSupport.on_load(:action_dispatch_integration_test) { include Tenon::TestHelp::Adapting }
