# A pool handler: reads a task per line, and answers each in a line; docs/protocol.md says what the lines mean.
#
#     tenon worker --handler 'welcome_mail=pool:exec ruby examples/ruby/handler.rb'
require "json"

class Dead < StandardError # it can never work, however often it is tried
end

def welcome_mail(payload)
  to = payload["to"] or raise Dead, 'the payload has no "to"'
  warn "mail to #{to}" # send it here; stdout is for answers
  { sent: to }
end

def text(answer)
  JSON.generate(answer, max_nesting: 0) # raises where a result is no JSON, such as NaN
end

def answer(id, line)
  task = JSON.parse(line, max_nesting: false)
  text(id: id, outcome: "done", result: welcome_mail(task.fetch("payload")))
rescue Dead => e
  text(id: id, outcome: "dead", error: e.message.scrub)
rescue StandardError, SystemStackError => e # it is tried again, later and later, until it has failed 25 times
  text(id: id, outcome: "failed", error: "#{e.message}\n#{e.backtrace.join("\n")}".scrub, error_class: e.class.name)
end

replies = $stdout.dup
replies.sync = true
$stdout.reopen($stderr) # what is printed elsewhere must not get into the answers
$stdin.set_encoding("UTF-8")
replies.puts text(hello: "tenon")
$stdin.each_line do |line|
  id = line.delete_prefix('{"id":').to_i # also of a payload that Ruby cannot read
  replies.puts answer(id, line)
end
