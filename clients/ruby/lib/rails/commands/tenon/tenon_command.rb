require "rails/command"

module Rails
  module Command
    # `bin/rails tenon list --state dead`: the program tenon, on the database of the application.
    class TenonCommand < Base
      # With all words as they are: the options are the program's.
      def self.perform(_command, words, _config)
        require APP_PATH
        require "tenon/program"
        ::Tenon::Program.exec(*words)
      end

      desc "tenon COMMAND", "Run the program tenon on the application's database"
      def perform(*); end
    end
  end
end
