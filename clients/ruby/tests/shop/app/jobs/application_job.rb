class ApplicationJob < ActiveJob::Base
  include Tenon::Job
end
