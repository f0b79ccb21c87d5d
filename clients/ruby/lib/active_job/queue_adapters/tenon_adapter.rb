require "tenon"
require "tenon/active_job"

module ActiveJob
  module QueueAdapters
    # Enqueues jobs as tasks in the transaction of ActiveRecord: `config.active_job.queue_adapter = :tenon`.
    class TenonAdapter
      # The task is a row of the same transaction, so there is nothing to wait for.
      def enqueue_after_transaction_commit?
        false
      end

      def enqueue(job)
        ::Tenon::Jobs.enqueue(job)
      end

      def enqueue_at(job, timestamp)
        ::Tenon::Jobs.enqueue(job, timestamp)
      end

      def enqueue_all(jobs)
        ::Tenon::Jobs.enqueue_all(jobs)
      end

      # Continuations (Rails 8.1) ask it between their steps.
      def stopping?
        ::Tenon.current&.stopping? || false
      end
    end
  end
end
