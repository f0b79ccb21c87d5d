require "rails/railtie"

module Tenon
  # What tenon adds to a Rails application.
  class Railtie < ::Rails::Railtie
    initializer "tenon.active_job", before: "active_job.set_configs" do
      ActiveSupport.on_load(:active_job) do
        require "active_job/queue_adapters/tenon_adapter"
      end
    end

    # Rails 7.2 and newer can enqueue after the commit. A process that dies in between would lose the job.
    config.after_initialize do |app|
      adapter = app.config.active_job.queue_adapter if app.config.respond_to?(:active_job)
      ::ActiveJob::Base.enqueue_after_transaction_commit = false if adapter.to_s == "tenon" &&
                                                                    ::ActiveJob::Base.respond_to?(:enqueue_after_transaction_commit=)
    end

    rake_tasks do
      namespace :tenon do
        desc "Apply the options of jobs, and the queues, limits and schedules that Tenon.describe names"
        task sync: :environment do
          require "tenon/active_job"
          ::Rails.application.eager_load!
          changes = Tenon::Jobs.connection { |connection| Tenon.sync(connection, Tenon::Jobs.description) }
          changes.each { |what, name, act| puts "#{act} #{what} #{name}" }
        end
      end
    end
  end
end
