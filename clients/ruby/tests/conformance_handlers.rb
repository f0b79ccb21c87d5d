# The handlers of clients/conformance/README.md.
require "tenon"

Tenon.handle("conformance.echo", &:payload)
Tenon.handle("conformance.nothing") { |_task| nil }
Tenon.handle("conformance.about") do |task|
  { id: task.id.to_s, kind: task.kind, queue: task.queue, attempt: task.attempt, failures: task.failures,
    max_attempts: task.max_attempts, claim: task.claim, trace: task.trace, progress: task.progress }
end
Tenon.handle("conformance.fail") { |task| raise task.payload["message"] * (task.payload["times"] || 1) }
Tenon.handle("conformance.retry") do |task|
  raise Tenon::Retry.new(task.payload["message"], after: task.payload["ms"] / 1000.0)
end
Tenon.handle("conformance.snooze") do |task|
  raise Tenon::Snooze.new(after: task.payload["ms"] && (task.payload["ms"] / 1000.0))
end
Tenon.handle("conformance.dead") { |task| raise Tenon::Dead, task.payload["message"] }
Tenon.handle("conformance.interrupt") { |_task| raise Tenon::Interrupted }
Tenon.handle("conformance.typed") do |task|
  n = task.payload["n"]
  raise Tenon::Dead, "n is #{n.inspect}, and no integer" unless n.is_a?(Integer)

  n + 1
end
Tenon.handle("conformance.no_json") { |_task| Float::NAN }
Tenon.handle("conformance.large") { |task| "x" * task.payload["bytes"] }
Tenon.handle("conformance.print") do |task|
  puts task.payload["text"]
  system("echo", task.payload["text"])
  "printed"
end
Tenon.handle("conformance.log") do |task|
  Tenon.logger.warn("shop") { task.payload["message"] }
  "logged"
end
Tenon.handle("conformance.progress") do |task|
  task.progress = { done: ((task.progress || {})["done"] || 0) + 1 }
  nil
end
Tenon.handle("conformance.extend") do |task|
  task.extend_by(task.payload["ms"] / 1000.0)
  nil
end
Tenon.handle("conformance.steps") do |task|
  one = task.step("one") { 1 }
  two = task.step("two") { { n: one + 1 } }
  one + two["n"]
end
Tenon.handle("conformance.wait") do |task|
  { came: task.wait_signal(task.payload["signal"], timeout: task.payload["ms"] / 1000.0) }
end
Tenon.handle("conformance.slow") do |task|
  task.wait(60)
  task.check!
end
Tenon.handle("conformance.sleep") do |task|
  sleep(task.payload["ms"] / 1000.0)
  "slept"
end
