# clients/conformance: what every client must do.
require_relative "support"

# A pool child with the handlers of the cases.
class ConformanceChild
  def initialize
    command = [RbConfig.ruby, "-I#{CLIENT}/lib", "-r#{__dir__}/conformance_handlers.rb", "-e", "Tenon.run"]
    @input, @output, @process = Open3.popen2(*command)
    [@input, @output].each { |pipe| pipe.set_encoding(Encoding::UTF_8) }
  end

  def send(line)
    @input.puts(line)
    @input.flush
  end

  def line
    JSON.parse(patiently("a line") { @output.gets } || raise("the child has ended"))
  end

  def end
    @input.close unless @input.closed?
  end

  def status
    rest = patiently("the end of the child") { @output.read }
    raise "unexpected: #{rest}" unless rest.empty?

    @process.value.exitstatus
  end
end

class ConformanceTest < Minitest::Test
  DATA = JSON.parse(File.read("#{ROOT}/clients/conformance/protocol.json"))

  DATA["cases"].each do |one|
    define_method("test_#{one['name'].gsub(/\W+/, '_')}") do
      child = ConformanceChild.new
      hello = child.line
      assert_equal(DATA["hello"], hello.slice(*DATA["hello"].keys))
      assert_equal(DATA["kinds"], hello["kinds"] & DATA["kinds"])
      assert_operator(hello["in_flight"], :>=, 4)
      one["steps"].each { |step| follow(child, step) }
      child.end
      assert_equal(0, child.status)
    end
  end

  def follow(child, step)
    if step.key?("send") then child.send(text(step["send"]))
    elsif step.key?("end") then child.end
    elsif step.key?("exit") then assert_equal(step["exit"], child.status)
    else compare(child.line, step)
    end
  end

  def text(send)
    case send
    when Hash then JSON.generate(send)
    when Array then send.map { |part| part.is_a?(Array) ? part[0] * part[1] : part }.join
    else send
    end
  end

  def compare(line, step)
    wanted = step["expect_any"] || [step["expect"]]
    assert(wanted.any? { |one| one.all? { |key, value| line[key] == value } }, "#{line.to_s[0, 300]}, not #{wanted}")
    (step["absent"] || []).each { |key| refute(line.key?(key), "#{line} has #{key}") }
    assert_includes(line["error"], step["error_contains"]) if step["error_contains"]
    (step["error_without"] || []).each { |part| refute_includes(line["error"], part) }
    assert_operator(line["error"].bytesize, :<=, step["error_bytes_max"]) if step["error_bytes_max"]
    assert(line["result"].start_with?(step["result_begins"])) if step["result_begins"]
  end
end

class ConformanceWaitForTest < Minitest::Test
  include InTransaction
  DATA = JSON.parse(File.read("#{ROOT}/clients/conformance/wait_for.json"))
  NAME = DATA["name"]

  DATA["cases"].each do |one|
    define_method("test_#{one['name'].gsub(/\W+/, '_')}") do
      ids = one["tasks"].each_with_object([]) { |state, before| before << task(state, before.last) }
      steps = one["waited_ms"] ? { "#{NAME}:since" => (Time.now.to_f * 1000).round - one["waited_ms"] } : {}
      run = waits(ids, connection, steps)
      assert_equal(one["outcome"], run.outcome.to_s)
      one["states"] ? ended(one["states"], run, ids) : waiting(one, run)
    end
  end

  def task(state, before)
    return state == "same" ? before : 999_999_999_999 if %w[same missing].include?(state)

    id = Tenon.enqueue(connection, "conformance.nowhere")
    Tenon.cancel(connection, id) if state == "cancelled"
    id
  end

  def waits(ids, connection, steps)
    Tenon.handle("conformance.wait_for") { |task| task.wait_for(ids, connection, NAME).map(&:state) }
    Tenon::Testing.run("conformance.wait_for", {}, steps: steps)
  end

  def ended(states, run, ids)
    again = waits(ids, nil, run.steps)
    assert_equal([states, states], [run.result, again.result])
    assert_equal([[NAME], []], [run.steps.keys, again.steps.keys])
  end

  def waiting(one, run)
    assert(run.delay_ms.between?(*one["delay_ms"]), run.delay_ms)
    assert_equal(one["waited_ms"] ? [] : ["#{NAME}:since"], run.steps.keys)
  end
end

class ConformanceDurationTest < Minitest::Test
  DATA = JSON.parse(File.read("#{ROOT}/clients/conformance/durations.json"))

  def test_texts
    DATA["texts"].each { |text, ms| assert_equal(ms, Tenon::Duration.milliseconds(text), text) }
    DATA["refused"].each { |text| assert_raises(ArgumentError, text) { Tenon::Duration.milliseconds(text) } }
  end
end

class ConformanceSecretsTest < Minitest::Test
  DATA = JSON.parse(File.read("#{ROOT}/clients/conformance/secrets.json"))
  PAIRS = DATA["keys"].map { |id, key| [id, key.unpack1("m0")] }

  def test_sealed
    DATA["sealed"].each do |one|
      envelope, kind, what, plain = one.values_at("envelope", "kind", "what", "plain")
      inner = envelope[Tenon::Keys::ENVELOPE]
      keys = Tenon::Keys.new(PAIRS.sort_by { |id, _| id == inner["key"] ? 0 : 1 })
      assert_equal([JSON.parse(plain)], [keys.decrypt(envelope, kind: kind, what: what)])
      assert_equal(envelope, keys.seal(plain, kind, what, inner["nonce"].unpack1("m0")))
    end
  end

  def test_refused
    DATA["refused"].each do |one|
      error = assert_raises(Tenon::SecretError, one["why"]) do
        Tenon::Keys.new(PAIRS).decrypt(one["envelope"], kind: one["kind"], what: one["what"])
      end
      assert_includes(error.message, one["error"], one["why"])
    end
  end

  def test_keys
    text = DATA["keys"].map { |id, key| "#{id}:#{key}" }.join(" ")
    assert_equal("#<Tenon::Keys 2026-11 2026-10>", Tenon::Keys.parse(text).inspect)
    ["", "2026-11", "2026-11:c2hvcnQ=", "#{text} #{text}", "a b:#{DATA['keys'].values[0]}"].each do |wrong|
      error = assert_raises(ArgumentError, wrong) { Tenon::Keys.parse(wrong) }
      refute_match(/c2hvcnQ|AAEC/, error.message)
    end
  end
end

class ConformanceEnqueueTest < Minitest::Test
  include InTransaction
  DATA = JSON.parse(File.read("#{ROOT}/clients/conformance/enqueue.json"))
  KIND = DATA["kind"]

  def setup
    super
    connection.exec("SET LOCAL timezone = 'UTC'")
    @known = connection.exec("SELECT proargnames::text FROM pg_proc WHERE proname IN ('enqueue', 'enqueue_many')").values.join
  end

  DATA["enqueue"].each do |one|
    define_method("test_#{one['name'].gsub(/\W+/, '_')}") do
      lacks(one["options"])
      return refused(one["error"]) { enqueue(one) } if one["error"]

      first = one["first"] && enqueue(one["first"])
      id = enqueue(one)
      assert_equal(first, id) if one["same_id"]
      check(id, one)
    end
  end

  DATA["enqueue_many"].each do |one|
    define_method("test_many_#{one['name'].gsub(/\W+/, '_')}") do
      options = one["options"].transform_keys(&:to_sym)
      lacks(one["options"])
      return refused(one["error"]) { Tenon.enqueue_many(connection, KIND, one["payloads"], **options) } if one["error"]

      ids = Tenon.enqueue_many(connection, KIND, one["payloads"], **options)
      assert_equal(one["rows"].length, ids.length)
      ids.zip(one["rows"]) { |id, row| check(id, { "row" => row }) }
    end
  end

  def refused(sqlstate, &block)
    assert_equal(sqlstate, assert_raises(PG::Error, &block).result.error_field(PG::PG_DIAG_SQLSTATE))
  end

  def lacks(options)
    options.each_key { |name| skip("this server's enqueue has no #{name}") unless @known.match?(/\b#{name}\b/) }
  end

  def enqueue(one)
    options = one["options"].transform_keys(&:to_sym)
    one.key?("payload") ? Tenon.enqueue(connection, KIND, one["payload"], **options) : Tenon.enqueue(connection, KIND, **options)
  end

  def check(id, one)
    %w[tasks task].zip([one["row"], one["task"]]) do |table, wanted|
      next unless wanted

      row = JSON.parse(connection.exec_params("SELECT to_jsonb(t) FROM tenon.#{table} t WHERE id = $1", [id]).getvalue(0, 0))
      wanted.each { |key, value| value.nil? ? assert_nil(row[key], key) : assert_equal(value, row[key], key) }
      assert_in_delta(one["delay_ms"] / 1000.0, Time.parse(row["run_at"]) - Time.parse(row["created_at"]), 1) if one["delay_ms"]
    end
  end
end

class ConformanceRunDueTest < Minitest::Test
  include InTransaction
  DATA = JSON.parse(File.read("#{ROOT}/clients/conformance/run_due.json"))
  KIND = DATA["kind"]
  HOUR = 3600

  DATA["cases"].each do |one|
    define_method("test_#{one['name'].gsub(/\W+/, '_')}") do
      ran = handle(one["tasks"].to_h { |task| [task["name"], task["first"]] })
      (one["limits"] || {}).each do |key, most|
        connection.exec_params("SELECT tenon.set_limit($1, max_running => $2)", [key, most])
      end
      ids = one["tasks"].map { |task| enqueue(task) }
      one["calls"].each do |call|
        ahead = call["ahead_ms"] && (call["ahead_ms"] / 1000.0)
        outcomes = Tenon::Testing.run_due(connection, ahead: ahead).map(&:outcome)
        assert_equal(call["ran"], ran.slice!(0..).zip(outcomes).map { |pair| pair.join(" ") })
      end
      assert_equal(one["states"], ids.map { |id| Tenon.result(connection, id).state.to_s })
    end
  end

  # ret: the names of the tasks that have run
  def handle(first)
    ran = []
    Tenon.handle(KIND) do |task|
      ran << (name = task.payload["name"])
      case first.delete(name)
      when "snooze" then raise Tenon::Snooze.new("not yet", after: HOUR)
      when "failed" then raise Tenon::Retry.new("not yet", after: HOUR)
      when "dead" then raise Tenon::Dead, "never"
      else name
      end
    end
    ran
  end

  def enqueue(task)
    options = task.slice("limit_keys", "max_attempts").transform_keys(&:to_sym)
    options[:delay] = task["delay_ms"] / 1000.0 if task["delay_ms"]
    Tenon.enqueue(connection, KIND, { name: task["name"] }, **options)
  end
end

class ConformancePublishTest < Minitest::Test
  include InTransaction
  DATA = JSON.parse(File.read("#{ROOT}/clients/conformance/publish.json"))

  DATA["publish"].each do |one|
    define_method("test_#{one['name'].gsub(/\W+/, '_')}") do
      publish = -> { Tenon.publish(connection, one["exchange"], one["routing_key"], body(one), **one["options"].transform_keys(&:to_sym)) }
      return refused(one["error"], &publish) if one["error"]

      row = check(publish.call, one["row"], one["body_hex"], one["body_json"])
      assert_equal("00:10:00", row["expires"]) if one["expires_ms"]
    end
  end

  DATA["publish_many"].each do |one|
    define_method("test_many_#{one['name'].gsub(/\W+/, '_')}") do
      options = one["options"].transform_keys(&:to_sym)
      publish = -> { Tenon.publish_many(connection, one["exchange"], one["routing_key"], body(one), **options) }
      return refused(one["error"], &publish) if one["error"]

      ids = publish.call
      assert_equal(one["rows"].length, ids.length)
      ids.each_with_index { |id, i| check(id, one["rows"][i], one["bodies_hex"]&.at(i), one["bodies_json"]&.at(i)) }
    end
  end

  def test_different_forms
    assert_raises(ArgumentError) { Tenon.publish_many(connection, "orders", "", ["text", "bytes".b]) }
    assert_equal([], Tenon.publish_many(connection, "orders", "", []))
  end

  def refused(sqlstate, &block)
    assert_equal(sqlstate, assert_raises(PG::Error, &block).result.error_field(PG::PG_DIAG_SQLSTATE))
  end

  def body(one)
    return one["text"] || one["json"] unless one["hex"]

    one["hex"].is_a?(Array) ? one["hex"].map { |hex| [hex].pack("H*") } : [one["hex"]].pack("H*")
  end

  def check(id, wanted, hex, json)
    sql = "SELECT to_jsonb(o) - 'body' || jsonb_build_object('hex', encode(o.body, 'hex'), 'expires', o.expires_at - o.created_at) " \
          "FROM tenon.outbox o WHERE id = $1"
    row = JSON.parse(connection.exec_params(sql, [id]).getvalue(0, 0))
    wanted.each { |key, value| value.nil? ? assert_nil(row[key], key) : assert_equal(value, row[key], key) }
    hex ? assert_equal(hex, row["hex"]) : assert_equal([json], JSON.parse("[#{[row['hex']].pack('H*')}]"))
    row
  end
end
