module Tenon
  # What the others have in common; not raised itself.
  class Outcome < StandardError
  end

  # This can never work: the task is dead, and not tried again.
  class Dead < Outcome
  end

  # An outcome after which the task runs again; `after` is a length of time.
  class Later < Outcome
    attr_reader :after

    def initialize(message = "", after: nil)
      super(message)
      @after = after
    end
  end

  # A failed attempt with a retry delay of its own: `raise Tenon::Retry.new("busy", after: "30 s")`.
  class Retry < Later
  end

  # Not now: the task runs again after `after` (60 s by default), without counting a failure.
  class Snooze < Later
  end

  # The handler stopped early: the task is ready again at once, without counting a failure.
  class Interrupted < Outcome
  end

  # Task#wait_signal and Task#sleep raise it to end the attempt; the task continues later. It is not a StandardError, so that a
  # plain `rescue` lets it pass.
  class Suspended < Exception # rubocop:disable Lint/InheritException
    attr_reader :reply

    def initialize(reply)
      super("the task continues later: do not rescue this")
      @reply = reply
    end
  end
end
