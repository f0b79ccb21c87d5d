require "json"

module Tenon
  # One statement on the caller's connection, and so in the caller's transaction: a PG::Connection, or a connection of
  # ActiveRecord.
  class Statement
    def initialize(connection)
      @connection = connection
      @texts = []
    end

    # The place of a text, or of nil, in the statement.
    def text(value)
      value = value.to_s unless value.nil?
      return "#{@connection.quote(value)}::text" unless raw?

      "$#{@texts.push(value).length}::text"
    end

    def json(value)
      "#{text(Tenon.json(value))}::json"
    end

    # An array of texts, of which some may be nil.
    def texts(values)
      return "NULL::text[]" if values.nil?

      "ARRAY(SELECT pg_catalog.json_array_elements_text(#{json(values.map { |value| value&.to_s })}))"
    end

    # All rows, as arrays of texts.
    def rows(sql)
      return @connection.exec_params(sql, @texts) { |result| result.values } if raw?

      @connection.exec_query(sql, "Tenon").rows.map { |row| row.map { |value| value&.to_s } }
    end

    private

    def raw?
      !@connection.respond_to?(:exec_query)
    end
  end

  # JSON that PostgreSQL can read; raises where it is none, such as NaN.
  def self.json(value)
    JSON.generate(value, max_nesting: 0)
  end
end
