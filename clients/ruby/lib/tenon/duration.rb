module Tenon
  # Lengths of time: a number of seconds, an ActiveSupport::Duration, or a text such as "30 s", "5 min", "2 h", "1 d".
  module Duration
    UNITS_MS = { "ms" => 1, "s" => 1_000, "min" => 60_000, "h" => 3_600_000, "d" => 86_400_000 }.freeze

    module_function

    def milliseconds(span)
      return text_milliseconds(span) if span.is_a?(String)
      raise ArgumentError, "a length of time is a number of seconds or a text, not #{span.inspect}" unless span.respond_to?(:to_f)

      (span.to_f * 1000).round
    end

    def text_milliseconds(text)
      found = /\A(\d+(?:\.\d+)?) ?(ms|s|min|h|d)\z/.match(text)
      raise ArgumentError, %(the length of time is #{text[0, 60].inspect}; it should be like "30 s", "5 min", "2 h", "1 d") unless found

      (found[1].to_r * UNITS_MS[found[2]]).round
    end
  end
end
