require "json"
require "minitest/autorun"
require "open3"
require "pg"
require "rbconfig"
require "tenon"
require "tenon/testing"
require "time"
require "timeout"

ROOT = File.expand_path("../../..", __dir__)
CLIENT = File.expand_path("..", __dir__)
TENON = ENV.fetch("TENON", "tenon")
PATIENCE_S = 20

# Waits for a queue or an IO no longer than a broken test should.
def patiently(what, seconds = PATIENCE_S, &block)
  Timeout.timeout(seconds, nil, "waited #{seconds} s for #{what}", &block)
end

# A connection of its own for each test, in a transaction that is rolled back.
module InTransaction
  attr_reader :connection

  def setup
    @connection = PG.connect(ENV.fetch("DATABASE_URL"))
    connection.exec("BEGIN")
  end

  def teardown
    connection.close
  end
end

# The same until this is so: a worker that waits for a retry alone is at its end.
def work_until(file)
  10.times do
    work(file)
    return if yield
  end
  raise "it has not happened"
end

# A worker of this file's handlers until no task is left; returns its log.
def work(file, *options, env: {})
  command = [RbConfig.ruby, "-I#{CLIENT}/lib", "#{CLIENT}/exe/tenon_worker", "-r", file, "--until-empty", *options]
  out, status = patiently("the worker") { Open3.capture2e({ "AMQP_URL" => "none", "TENON" => TENON, **env }, *command) }
  raise "the worker ended with #{status}: #{out}" unless status.success?

  out
end
