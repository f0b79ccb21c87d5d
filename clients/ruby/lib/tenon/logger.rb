require "logger"

module Tenon
  # A logger for handlers: each line goes to the worker with the task that runs, and `tenon logs ID` prints it. The progname, if there
  # is one, is the field "logger". Outside of a task it prints to stderr.
  class Logger < ::Logger
    LEVELS = %w[debug info warning error error info].freeze

    def initialize(**options)
      super($stderr, **options)
    end

    def add(severity, message = nil, progname = nil)
      task = Tenon.current or return super
      severity ||= UNKNOWN
      return true if severity < level

      progname ||= self.progname
      if message.nil?
        message = block_given? ? yield : progname
        progname = self.progname unless block_given?
      end
      task.log(LEVELS.fetch(severity, "info"), text_of(message), progname && { logger: progname })
      true
    end
    alias log add

    private

    def text_of(message)
      message.is_a?(Exception) ? "#{message.class}: #{message.message}" : message.to_s
    end
  end

  class << self
    # Logs lines of the task that runs.
    def logger = @logger ||= Logger.new
    attr_writer :logger
  end
end
