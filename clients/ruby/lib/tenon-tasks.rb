# What Bundler requires, after Rails; tenon_worker may have loaded the rest before that.
require_relative "tenon"
require_relative "tenon/railtie" if defined?(Rails::Railtie)
