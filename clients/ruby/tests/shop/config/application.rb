# A Rails application, with what its tests need and no more. It has no Gemfile: the libraries are on the path of Ruby.
require "rails"
require "active_record/railtie"
require "active_job/railtie"
require "action_controller/railtie"
require "rails/test_unit/railtie"
require "tenon-tasks"

module Shop
  class Application < Rails::Application
    config.root = File.expand_path("..", __dir__)
    config.load_defaults "#{Rails::VERSION::MAJOR}.#{Rails::VERSION::MINOR}"
    config.active_job.queue_adapter = :tenon
    config.active_record.maintain_test_schema = false
    config.api_only = true
    config.eager_load = false
    config.logger = ActiveSupport::Logger.new(File::NULL)
    config.hosts.clear
    config.secret_key_base = "tests"
  end
end
