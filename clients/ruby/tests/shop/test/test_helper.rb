ENV["RAILS_ENV"] = "test"
require_relative "../config/environment"
require "rails/test_help"
require "tenon/test_help"

module ActiveSupport
  class TestCase
    ActiveSupport::VERSION::MAJOR > 6 ? parallelize(workers: 2, threshold: 0) : parallelize(workers: 2)
  end
end
