require "logger"
require "rbconfig"
require "shellwords"
require "tenon"
require "tenon/program"

module Tenon
  # What exe/tenon_worker does: the worker, and each of the children that it starts.
  module Worker
    # ActiveJob logs an error with its backtrace, which the error of the task has. It would leave no room for the job's own lines, of
    # which the worker keeps 4,096 bytes.
    module OneLine
      def error(progname = nil)
        return super unless block_given?

        super(progname) { yield.to_s.lines.first.to_s.chomp }
      end
    end

    USAGE = <<~TEXT.freeze
      usage: tenon_worker [-r FILE]... [OPTION OF tenon worker]...
             tenon_worker dev [-r FILE]... [OPTION OF tenon dev]... [PATH]...

      Runs `tenon worker` (or `tenon dev`) with a handler for all the kinds of this application: its jobs of ActiveJob, and those of
      Tenon.handle. Without -r it loads the Rails application of this folder, and uses the database of its config/database.yml, unless
      TENON_DATABASE_URL is set.

        -r FILE    load this file instead; may be repeated
        TENON_THREADS   how many tasks a child runs at once; 4 if it is not set
        TENON           the program tenon, if it is not on the PATH
    TEXT

    # The variables that the worker would keep to itself.
    PASSED = /\A(DATABASE_URL\z|PG)/

    module_function

    def main(arguments)
      return puts(USAGE) if %w[-h --help].include?(arguments.first)
      return child(arguments.drop(1)) if arguments.first == "--child"

      command = arguments.first == "dev" ? arguments.shift : "worker"
      files = taken(arguments)
      this = [RbConfig.ruby, *load_path, File.expand_path($PROGRAM_NAME)]
      line = [*this, "--child", *files].map { |word| Shellwords.escape(word) }.join(" ")
      names = ENV.keys.grep(PASSED)
      passed = names.empty? ? [] : ["--pass-env", names.join(",")]
      application(files)
      Program.exec(command, *passed, "--handler", "*=pool:exec #{line}", *arguments)
    end

    # Its settings name the database; the child alone loads the rest.
    def application(files)
      require File.expand_path("config/application") if files.empty?
    end

    # What is not of Ruby itself.
    def load_path
      $LOAD_PATH.map(&:to_s).reject { |path| path.start_with?(RbConfig::CONFIG["libdir"], "/var/lib") }.map { |path| "-I#{path}" }
    end

    def taken(arguments)
      files = []
      while (at = arguments.index("-r"))
        files.concat(["-r", arguments.slice!(at, 2).last])
      end
      files
    end

    def child(arguments)
      files = arguments.each_slice(2).map(&:last)
      Tenon.starting(files.empty? ? "Rails" : files.join(" "))
      files.empty? ? rails : files.each { |file| load(File.expand_path(file)) }
      Jobs.handle_all if defined?(::ActiveJob::Base)
      Tenon.run
    end

    def rails
      require File.expand_path("config/environment")
      ::Rails.application.eager_load!
      require "active_job/queue_adapters/tenon_adapter" if defined?(::ActiveJob)
      log(::Rails)
      Tenon.around { |_task, run| ::Rails.application.executor.wrap { run.call } }
    end

    # The log of a worker is its stderr, and each line says which task it is of.
    def log(rails)
      rails.logger = ActiveSupport::TaggedLogging.new(::Logger.new($stderr, level: rails.logger.level))
      %w[ActiveRecord::Base ActiveJob::Base ActionMailer::Base].each do |name|
        name.safe_constantize&.logger = rails.logger
      end
      ::ActiveJob::LogSubscriber.prepend(OneLine) if defined?(::ActiveJob::LogSubscriber)
      Tenon.around { |task, run| rails.logger.tagged("task #{task.id}") { run.call } }
    end
  end
end
