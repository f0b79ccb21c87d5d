require "json"
require_relative "reply"
require_relative "task"

module Tenon
  # The lines to the worker. What the application prints goes to stderr.
  class Wire
    # Takes the stdout of the process: from here on `puts` writes to stderr, also in subprocesses.
    def self.of_process
      @of_process ||= begin
        $stdout.flush
        sink = $stdout.dup
        $stdout.reopen($stderr)
        $stdout.sync = true
        source = $stdin.dup
        $stdin.reopen(File::NULL)
        new(source, sink)
      end
    end

    attr_reader :source

    def initialize(source, sink)
      @source = source.binmode
      @sink = sink.binmode
      @sink.sync = true
      @lock = Mutex.new
    end

    def say(message)
      line = "#{JSON.generate(message, max_nesting: 0)}\n"
      @lock.synchronize { @sink.write(line) }
    rescue Errno::EPIPE
      exit!(1) # the worker is gone
    end
  end

  # A pool child: one thread reads task lines, others run them (docs/protocol.md).
  class Child
    NESTING_MAX = 1_000

    def initialize(handlers, threads:, around:, wire: Wire.of_process)
      raise ArgumentError, "there is no handler: define one with Tenon.handle" if handlers.empty?

      @handlers = handlers
      @threads = threads
      @around = around
      @wire = wire
      @tasks = Thread::Queue.new
      @running = {}
      @lock = Mutex.new
    end

    # Until no more tasks come and all have been answered.
    def serve
      @wire.say({ hello: "tenon", in_flight: @threads, stop: true, kinds: @handlers.keys.sort })
      runners = Array.new(@threads) { |n| Thread.new { run_tasks }.tap { |thread| thread.name = "tenon-#{n}" } }
      while (line = @wire.source.gets)
        read(line)
      end
      running.each(&:end_of_lines)
      @tasks.close
      runners.each(&:join)
    end

    private

    def read(line)
      message = JSON.parse(line.force_encoding(Encoding::UTF_8), max_nesting: NESTING_MAX)
      if message.key?("stop") then stop(message["stop"], message["why"])
      elsif message.key?("step") then told(message)
      else start(message)
      end
    rescue JSON::ParserError, SystemStackError => e
      refuse(line[/\A{"id":(\d+)/, 1].to_i, "dead", "Ruby cannot read the payload: #{e.class}")
    end

    def start(message)
      return refuse(message["id"], "failed", "there is no handler for #{message['kind'].inspect}") unless @handlers.key?(message["kind"])

      task = Task.new(message) { |said| @wire.say(said) }
      @lock.synchronize { @running[task.id] = task }
      @tasks.push(task)
    end

    def run_tasks
      while (task = @tasks.pop)
        reply = run(task)
        @lock.synchronize { @running.delete(task.id) }
        @wire.say({ id: task.id, **reply })
      end
    end

    def run(task)
      Tenon.current = task
      Reply.to(task) { @around.reduce(-> { @handlers[task.kind].call(task) }) { |inner, outer| -> { outer.call(task, inner) } }.call }
    ensure
      Tenon.current = nil
    end

    def stop(id, why)
      running.each { |task| task.stop(why) if id.nil? || task.id == id }
    end

    def told(message)
      @lock.synchronize { @running[message["step"]] }&.told(message["name"], message["recorded"])
    end

    def running
      @lock.synchronize { @running.values }
    end

    def refuse(id, outcome, why)
      @wire.say({ id: id, outcome: outcome, error: Reply.cut(why) })
    end
  end
end
