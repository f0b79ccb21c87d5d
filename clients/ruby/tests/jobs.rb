# A Rails application in one file, as small as possible: jobs, a model, and no more.
require "active_record"
require "active_job"
require "global_id"
require "active_job/queue_adapters/tenon_adapter"

ActiveRecord::Base.establish_connection(ENV.fetch("DATABASE_URL"))
ActiveRecord::Base.logger = nil
ActiveJob::Base.logger = nil
ActiveJob::Base.queue_adapter = :tenon
GlobalID.app = "tests"

class Note < ActiveRecord::Base
  include GlobalID::Identification
end

# Writes that it ran.
class NoteJob < ActiveJob::Base
  def perform(text)
    Note.create!(text: text)
    puts "not a line of the protocol"
  end
end

class GlobalJob < ActiveJob::Base
  def perform(note, at:, names:)
    Note.create!(text: "#{note.text} #{at.class} #{names}")
  end
end

class Busy < StandardError
end

class RetriedJob < ActiveJob::Base
  retry_on Busy, wait: 0, attempts: 3

  def perform(succeeds_at)
    Note.create!(text: "execution #{executions}")
    raise Busy, "busy" if executions < succeeds_at
  end
end

class DiscardedJob < ActiveJob::Base
  discard_on Busy

  def perform
    raise Busy, "busy"
  end
end

class FailingJob < ActiveJob::Base
  include Tenon::Job
  tenon retry: "constant(1 ms, 1 ms)", max_attempts: 2

  def perform
    raise "no funds"
  end
end

class KilledJob < ActiveJob::Base
  include Tenon::Job
  tenon timeout: "30 s", retry: "constant(1 ms, 1 ms)", unique_key: ->(job) { "killed:#{job.arguments.first}" }

  def perform(_name)
    Note.create!(text: "started")
    Process.kill("KILL", Process.pid) if Note.where(text: "started").count == 1
    Note.create!(text: "ended")
  end
end

class SagaJob < ActiveJob::Base
  STEPS = %w[reserve charge ship].freeze

  def perform
    STEPS.each do |name|
      Tenon.current.step(name) do
        Note.create!(text: name)
        name
      end
      Process.kill("KILL", Process.pid) unless Tenon.current.attempt > STEPS.index(name) + 1
    end
  end
end
