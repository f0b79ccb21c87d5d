# The handlers of client_test.rb.
require "pg"
require "tenon"

CONNECTION = PG.connect(ENV.fetch("DATABASE_URL"))
ONE_AT_A_TIME = Mutex.new

def write(text)
  CONNECTION.exec_params("INSERT INTO public.lines (text) VALUES ($1)", [text])
  text
end

Tenon.around { |_task, run| ONE_AT_A_TIME.synchronize { run.call } }

Tenon.handle("echo", &:payload)

Tenon.handle("finish") do |task|
  CONNECTION.transaction do
    write("finished")
    task.finish(CONNECTION, { in: "transaction" })
  end
end

# Attempts 1 and 3 die in the work of a step, 2 and 4 after its record, 5 within the transaction of the last.
def die(task, attempt)
  Process.kill("KILL", Process.pid) if task.attempt == attempt
end

Tenon.handle("saga") do |task|
  done = %w[reserve charge].each_with_index.map do |name, n|
    task.step(name) { write(name).tap { die(task, (2 * n) + 1) } }.tap { die(task, (2 * n) + 2) }
  end
  done << CONNECTION.transaction { task.step("ship", CONNECTION) { write("ship").tap { die(task, 5) } } }
end

Tenon.keys = Tenon::Keys.parse("2026-11:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")

Tenon.handle("charge", secret: "all") do |task|
  card = task.payload["card"]
  raise "no such card: #{card}" if task.payload["refused"]

  if task.progress.nil?
    task.progress = { card: card }
    raise Tenon::Snooze.new("again", after: "1 ms")
  end

  last = task.step("last") { card[-4..] }
  CONNECTION.transaction { [last, task.step("there", CONNECTION) { card }, task.progress] }
end

Tenon.handle("wait") { |task| task.wait_signal("paid:#{task.id}") }
