require "erb"

module Tenon
  # The program tenon, on the database of the Rails application.
  module Program
    # ActiveRecord's names of what libpq calls otherwise.
    LIBPQ = { database: :dbname, username: :user }.freeze

    module_function

    # Becomes the program.
    def exec(*arguments)
      Kernel.exec(environment, name, *arguments)
    rescue Errno::ENOENT
      abort(MISSING)
    end

    # Runs it; raises with what it said if it fails.
    def run(*arguments, database: nil)
      require "open3"
      said, status = Open3.capture2e(environment(database), name, *arguments)
      raise "tenon #{arguments.first} failed: #{said}" unless status.success?

      said
    rescue Errno::ENOENT
      raise MISSING
    end

    MISSING = "there is no program tenon on the PATH; the variable TENON can name it".freeze

    def name
      ENV.fetch("TENON", "tenon")
    end

    # TENON_DATABASE_URL, unless it is set: of a connection, or what config/database.yml says.
    def environment(database = nil)
      return {} if database.nil? && (ENV.key?("TENON_DATABASE_URL") || !application?)

      { "TENON_DATABASE_URL" => url(database || configured) }
    end

    def application?
      defined?(::Rails.application) && ::Rails.application.config.respond_to?(:active_record)
    end

    def configured
      require "active_record"
      require "active_record/database_configurations"
      hash = ::ActiveRecord::DatabaseConfigurations.new(::Rails.application.config.database_configuration)
                                                   .configs_for(env_name: ::Rails.env).first.configuration_hash
      hash.transform_keys { |key| LIBPQ.fetch(key, key) }.slice(*known)
    end

    def known
      require "pg"
      PG::Connection.conndefaults_hash.keys
    end

    # A URL that Rails can read, too: `tenon dev` hands it to its handlers.
    def url(hash)
      options = hash.compact.map { |key, value| "#{key}=#{ERB::Util.url_encode(value)}" unless key == :dbname }
      "postgresql:///#{ERB::Util.url_encode(hash[:dbname])}?#{options.compact.join('&')}"
    end
  end
end
