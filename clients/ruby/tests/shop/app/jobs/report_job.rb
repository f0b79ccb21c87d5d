class ReportJob < ApplicationJob
  tenon max_attempts: 3, limit_keys: ["reports"]

  def perform(name)
    Rails.logger.info("the report #{name}")
    ActiveRecord::Base.transaction do
      Sent.create!(text: name)
      ActiveRecord::Base.connection.execute("SELECT 1 / 0") if name == "broken"
    end
  end
end
