require "json"

module Tenon
  @description = {}

  class << self
    # What the code says of kinds, queues, limits and schedules, for sync: `Tenon.describe limits: { "smtp" => { max_running: 5 } }`.
    def describe(**parts)
      parts.each { |part, named| @description[part] = (@description[part] || {}).merge(named) }
    end

    attr_reader :description

    # Applies what describe was given, in one statement; returns the changes, each as [what, name, act]. Run it when you deploy.
    def sync(connection, description = @description)
      statement = Statement.new(connection)
      statement.rows("SELECT s.what, s.name, s.act FROM tenon.sync(#{statement.json(description)}::jsonb) s")
    end
  end
end
