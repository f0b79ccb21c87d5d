require_relative "tenon/version"
require_relative "tenon/duration"
require_relative "tenon/outcomes"
require_relative "tenon/database"
require_relative "tenon/secrets"
require_relative "tenon/enqueue"
require_relative "tenon/acts"
require_relative "tenon/publish"
require_relative "tenon/task"
require_relative "tenon/sync"
require_relative "tenon/child"
require_relative "tenon/logger"

# Transactional background tasks for PostgreSQL.
module Tenon
  THREADS = 4

  @handlers = {}
  @secrets = {}
  @around = []

  class << self
    # Of each kind: its block, and what of it is secret.
    attr_reader :handlers, :secrets

    # The block runs the tasks of this kind; it gets the task, and its value is the result. `secret: "all"` encrypts results, progress
    # and steps, too.
    def handle(kind, secret: nil, &block)
      raise ArgumentError, "a handler needs a block" unless block

      @secrets[kind.to_s] = Secrets.word(secret)
      @handlers[kind.to_s] = block
    end

    # A block around each run, as a middleware: `Tenon.around { |task, run| run.call }`. The last one is the outermost.
    def around(&block)
      @around << block
    end

    # While the application loads; `tenon why` shows it.
    def starting(what)
      Wire.of_process.say({ starting: what.to_s })
    end

    # Runs tasks that the worker sends, until it sends no more.
    def run(threads: Integer(ENV.fetch("TENON_THREADS", THREADS)))
      Child.new(@handlers, threads: threads, around: @around).serve
    end

    # The task that this thread runs; nil outside of a handler.
    def current
      Thread.current.thread_variable_get(:tenon_task)
    end

    def current=(task)
      Thread.current.thread_variable_set(:tenon_task, task)
    end
  end
end

require_relative "tenon/railtie" if defined?(Rails::Railtie)
