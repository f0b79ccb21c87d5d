require "active_job"
require "securerandom"
require "tenon"

module Tenon
  # ActiveJob's jobs as tasks: the kind is the name of the class, the payload is what the job serializes to.
  module Jobs
    QUEUE = /\A[a-z0-9_.-]{1,63}\z/

    # The options of a class that are defaults of its kind, too.
    OF_KIND = %i[queue priority max_attempts timeout retry limit_keys].freeze

    # ActiveJob has low numbers first, and any integer; tenon has 0 to 9, high numbers first.
    @priority = ->(priority) { (9 - priority).clamp(0, 9) }
    @connects = -> { ::ActiveRecord::Base }

    class << self
      attr_accessor :priority

      # The class whose connection and transaction jobs are enqueued in, as a block: -> { ApplicationRecord }.
      attr_accessor :connects

      def connection(&block)
        record = @connects.call
        record.respond_to?(:with_connection) ? record.with_connection(&block) : block.call(record.connection)
      end

      def enqueue(job, timestamp = nil)
        connection do |connection|
          job.provider_job_id = again?(job) ? replace(connection, job, timestamp) : insert(connection, job, timestamp)
        end
        job
      end

      # All in one transaction; one statement for those that only differ in their arguments.
      def enqueue_all(jobs)
        connection do |connection|
          connection.transaction do
            jobs.group_by { |job| [job.class.name, options(job, job.scheduled_at)] }.each do |(kind, given), alike|
              insert_many(connection, kind, given, alike)
            end
          end
        end
        jobs.each { |job| job.successfully_enqueued = true if job.respond_to?(:successfully_enqueued=) }.size
      end

      # For Tenon.sync: what Tenon.describe was given, and the options of the classes with `tenon ...`, so that they hold for schedules
      # and SQL, too.
      def description
        kinds = ::ActiveJob::Base.descendants.select { |job| job.name && job.respond_to?(:tenon_options) }
                                 .to_h { |job| [job.name, of_kind(job)] }
        { **Tenon.description, kinds: kinds.merge(Tenon.description[:kinds] || {}) }
      end

      # The blocks for Tenon.handle of all the classes that the application has loaded.
      def handle_all
        classes = ::ActiveJob::Base.descendants.select { |job| job.name && tenon?(job.queue_adapter) }
        classes.each { |job| Tenon.handle(job.name, secret: own(job)[:secret]) { |task| perform(task) } }
      end

      # Retries that tenon did count, as executions of the job do.
      def perform(task)
        given = defaults(task).merge(task.payload)
        given["executions"] += task.attempt - 1
        given["provider_job_id"] = task.id
        ::ActiveJob::Base.execute(given)
        nil
      rescue StandardError => e
        raise unless e.equal?(Thread.current.thread_variable_get(:tenon_gave_up))

        raise Dead, task.hides? ? "" : e.message # its retry_on has no attempts left
      ensure
        Thread.current.thread_variable_set(:tenon_gave_up, nil)
      end

      private

      def own(job_class)
        job_class.respond_to?(:tenon_options) ? job_class.tenon_options : {}
      end

      def tenon?(adapter)
        adapter.is_a?(::ActiveJob::QueueAdapters::TenonAdapter) || (defined?(TestHelp::Adapter) && adapter.is_a?(TestHelp::Adapter))
      end

      # Options that a block finds for each job are not among them.
      def of_kind(job)
        own = { queue: job.queue_name, **job.tenon_options }.slice(*OF_KIND).reject { |_, value| value.respond_to?(:call) }
        own[:timeout] &&= "#{Duration.milliseconds(own[:timeout])} milliseconds"
        own[:queue] &&= queue(own[:queue])
        own.compact
      end

      # So that a schedule can have the arguments alone.
      def defaults(task)
        { "job_class" => task.kind, "job_id" => SecureRandom.uuid, "queue_name" => task.queue, "arguments" => [],
          "executions" => 0, "exception_executions" => {} }
      end

      # The job that runs enqueues itself: retry_on, retry_job, or a continuation.
      def again?(job)
        Tenon.current && Tenon.current.payload["job_id"] == job.job_id
      end

      # The next run and the end of this one, together.
      def replace(connection, job, timestamp)
        connection.transaction do
          Tenon.current.finish(connection)
          insert(connection, job, timestamp)
        end
      end

      def insert(connection, job, timestamp)
        Tenon.enqueue(connection, job.class.name, job.serialize, **options(job, timestamp))
      end

      def insert_many(connection, kind, given, jobs)
        if given.key?(:unique_key) # which is one for each
          jobs.each { |job| job.provider_job_id = insert(connection, job, job.scheduled_at) }
        else
          ids = Tenon.enqueue_many(connection, kind, jobs.map(&:serialize), **given)
          jobs.zip(ids) { |job, id| job.provider_job_id = id }
        end
      end

      def options(job, timestamp)
        { queue: queue(job.queue_name), priority: job.priority && @priority.call(job.priority),
          run_at: timestamp && Time.at(timestamp.to_f),
          **own(job.class).transform_values { |value| value.respond_to?(:call) ? value.call(job) : value } }.compact
      end

      def queue(name)
        name = name.to_s
        return name if QUEUE.match?(name)

        raise ArgumentError, "the queue #{name.inspect} is not allowed: 1 to 63 of a-z 0-9 _ . -; with queue_as give it another name"
      end
    end
  end

  # Options of tenon for a class of jobs: `include Tenon::Job`, then `tenon timeout: "5 min", unique_key: ->(job) { ... }`.
  module Job
    def self.included(base)
      base.class_attribute :tenon_options, default: {}
      base.extend(Options)
    end

    # The macro of the class.
    module Options
      def tenon(**options)
        known = [*Tenon::Options::ONE.keys, :secret]
        unknown = options.keys - known
        raise ArgumentError, "no option #{unknown.first.inspect}; there are #{known.join(', ')}" if unknown.any?

        self.log_arguments = false if Secrets.word(options[:secret])
        self.tenon_options = tenon_options.merge(options)
      end
    end
  end
end

ActiveSupport::Notifications.subscribe("retry_stopped.active_job") do |*, payload|
  Thread.current.thread_variable_set(:tenon_gave_up, payload[:error]) if Tenon.current
end
