# A whole Rails application, tests/shop, on real servers: its own tests, and what `bin/rails` and `tenon_worker` do there.
require_relative "support"
require "uri"

class RailsTest < Minitest::Test
  SHOP = "#{__dir__}/shop".freeze

  # In the database of the fixture, beside that of the application's tests.
  def setup
    url = URI(ENV.fetch("DATABASE_URL"))
    @base = url.path.delete_prefix("/")
    @application = url.dup.tap { |one| one.query = "application_name=shop%20one" }.to_s
    @test = url.dup.tap { |one| one.path += "_shop" }.to_s
    @connection = PG.connect(url.to_s)
    @connection.exec("SET client_min_messages = warning")
    @connection.exec("DELETE FROM tenon.task; DELETE FROM tenon.limit_task")
    Tenon.sync(@connection, { remove: { kinds: %w[ReportJob WelcomeJob], limits: ["reports"], schedules: ["nightly"] } })
  end

  def teardown
    ["#{@base}_shop", "#{@base}_shop-0", "#{@base}_shop-1"].each { |name| @connection.exec(%(DROP DATABASE IF EXISTS "#{name}")) }
    @connection.close
  end

  # config/database.yml reads SHOP_DATABASE_URL; DATABASE_URL is not set.
  def environment(rails_env, url)
    load_path = $LOAD_PATH.map(&:to_s).grep(%r{\A(#{Regexp.escape(ROOT)})/}).map { |path| "-I#{path}" }
    { "SHOP_DATABASE_URL" => url, "DATABASE_URL" => nil, "RAILS_ENV" => rails_env, "AMQP_URL" => "none", "TENON" => TENON,
      "RUBYOPT" => load_path.join(" "), "TENON_PASS_ENV" => nil, "DISABLE_DATABASE_ENVIRONMENT_CHECK" => "1" }
  end

  def shop(*command, rails_env: "development", url: @application)
    env = environment(rails_env, url)
    out, status = patiently("bin/rails", 120) { Open3.capture2e(env, *command, chdir: SHOP) }
    raise "#{command.join(' ')} ended with #{status}: #{out}" unless status.success?

    out
  end

  def in_shop(code)
    shop("bin/rails", "runner", %(ActiveRecord::Schema.verbose = false; load "db/schema.rb"; #{code}))
  end

  def sent
    @connection.exec("SELECT text FROM public.sent").column_values(0).sort
  end

  # As the cleaner does for the limit of ReportJob.
  def settle
    2.times { @connection.exec("SELECT tenon.settle()") }
  end

  # Nobody has run tenon setup there, nor in the databases of its two parallel processes.
  def test_the_tests_of_an_application
    shop("bin/rails", "db:create", "db:schema:load", rails_env: "test", url: @test)
    assert_match(/\b8 runs, \d+ assertions, 0 failures, 0 errors, 0 skips/, shop("bin/rails", "test", rails_env: "test", url: @test))
    names = @connection.exec_params("SELECT count(*) FROM pg_database WHERE datname LIKE $1", ["#{@base}_shop-_"])
    assert_equal("2", names.getvalue(0, 0))
  end

  def test_a_worker_on_the_database_of_database_yml
    in_shop('Member.create!(mail: "zoë@example.org"); ReportJob.perform_later("weekly")')
    settle
    log = shop("#{CLIENT}/exe/tenon_worker", "--until-empty", "--queues", "default,mail", "--stderr")
    assert_equal(["Welcome, zoë@example.org!", "weekly"], sent)
    assert_match(/\[task \d+\].*the report weekly/, log)
  end

  # The error of the task has it, and the worker keeps 4,096 bytes of the job's own lines.
  def test_the_log_has_no_backtrace
    in_shop('ReportJob.perform_later("broken")')
    settle
    log = shop("#{CLIENT}/exe/tenon_worker", "--until-empty", "--stderr").lines.grep_v(/\Ats=/)
    assert(log.any?(/\[task \d+\].*Error performing ReportJob.*division by zero/), log.join)
    refute(log.any?(/:in [`'].*perform/), log.join)
    assert_match(/in [`'].*perform/, @connection.exec("SELECT last_error FROM tenon.task").getvalue(0, 0))
  end

  def test_sync
    in_shop("")
    first = shop("bin/rails", "tenon:sync").lines.map(&:chomp).sort
    assert_equal(["added kind ReportJob", "added kind WelcomeJob", "added limit reports", "added schedule nightly"], first)
    assert_empty(shop("bin/rails", "tenon:sync"))
    kinds = @connection.exec("SELECT name, queue, max_attempts, timeout_ms FROM tenon.kind WHERE name LIKE '%Job' ORDER BY name").values
    assert_equal([["ReportJob", nil, "3", nil], ["WelcomeJob", "mail", nil, "300000"]], kinds)
    a_task_of_the_schedule
  end

  # It has arguments alone, and the options of its kind.
  def a_task_of_the_schedule
    @connection.exec("SELECT tenon.enqueue(kind, payload) FROM tenon.schedule WHERE name = 'nightly'")
    assert_equal("3", @connection.exec("SELECT max_attempts FROM tenon.task").getvalue(0, 0))
    settle
    shop("#{CLIENT}/exe/tenon_worker", "--until-empty")
    assert_equal(["nightly"], sent)
  end

  # Its handlers get the URL of the database as DATABASE_URL, which Rails reads.
  def test_dev
    in_shop('ReportJob.perform_later("weekly")')
    Open3.popen2e(environment("development", @application), "#{CLIENT}/exe/tenon_worker", "dev", "app", chdir: SHOP) do |_, out, process|
      said = +""
      patiently("tenon dev", 120) { said << (out.gets || raise("it has ended: #{said}")) until said.include?("event=task_done") }
      Process.kill("TERM", process.pid)
      patiently("the end of tenon dev") { out.read }
    end
    assert_equal(["weekly"], sent)
  end

  def test_the_program_on_the_database_of_database_yml
    @connection.exec("SELECT tenon.enqueue('ReportJob', '{}', queue => 'elsewhere')")
    assert_match(/ReportJob +elsewhere/, shop("bin/rails", "tenon", "list", "--queue", "elsewhere"))
  end
end
