# The loop of a pool handler, for a copy of your own: it reads a task per line, and answers each in a line. It needs the standard
# library only; docs/protocol.md says what the lines mean. Require it first: from then on $stdout is $stderr, because what an
# application prints must not get into the answers.
require "json"

module Tenon
  class Dead < StandardError # it can never work, however often it is tried
  end

  REPLIES = $stdout.dup
  REPLIES.sync = true
  $stdout.reopen($stderr)

  module_function

  # While an application loads; `tenon why` shows it.
  def starting(what)
    REPLIES.puts text(starting: what)
  end

  # handlers: for each kind a proc, which gets the payload and the whole task. After an error the task is tried again, later and
  # later, until it has failed 25 times.
  def serve(handlers)
    $stdin.set_encoding("UTF-8")
    REPLIES.puts text(hello: "tenon")
    $stdin.each_line do |line|
      id = line.delete_prefix('{"id":').to_i # also of a payload that Ruby cannot read
      REPLIES.puts answer(handlers, id, line)
    end
  end

  def answer(handlers, id, line)
    task = JSON.parse(line, max_nesting: false)
    handler = handlers.fetch(task["kind"])
    text(id: id, outcome: "done", result: handler.arity == 1 ? handler.call(task["payload"]) : handler.call(task["payload"], task))
  rescue Dead => e
    text(id: id, outcome: "dead", error: e.message.scrub)
  rescue StandardError, SystemStackError => e
    text(id: id, outcome: "failed", error: "#{e.message}\n#{e.backtrace.join("\n")}".scrub, error_class: e.class.name)
  end

  def text(answer)
    JSON.generate(answer, max_nesting: 0) # raises where a result is no JSON, such as NaN
  end
end
