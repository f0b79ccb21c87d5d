class WelcomeJob < ApplicationJob
  class Busy < StandardError; end

  queue_as :mail
  tenon timeout: 5.minutes, unique_key: ->(job) { "welcome:#{job.arguments.first.id}" }
  retry_on Busy, wait: 30.seconds, attempts: 2
  discard_on ActiveJob::DeserializationError

  def perform(member)
    raise Busy, "the mail server is busy" if member.mail.start_with?("busy")

    Sent.create!(text: "Welcome, #{member.mail}!")
  end
end
