require "json"

module Tenon
  # What the worker is told of a run: the outcome that its result or its exception stands for.
  module Reply
    ERROR_BYTES_MAX = 8_191
    CLASS_BYTES_MAX = 100
    RESULT_BYTES_MAX = 2_000_000
    DELAY_MS_MAX = 2_592_000_000
    NOTE_CHARACTERS_MAX = 500

    module_function

    def to(task)
      task.open(Tenon.secrets[task.kind])
      result = yield
      task.suspended ? task.suspended.reply : done(task, result)
    rescue Suspended => e
      e.reply
    rescue StandardError, ScriptError, NoMemoryError, SystemStackError => e
      task.suspended ? task.suspended.reply : failed(task, e)
    end

    def done(task, result)
      return { outcome: "done" } if result.nil?

      text = Tenon.json(task.sealed(result, "result"))
      raise ArgumentError, "it is longer than #{RESULT_BYTES_MAX} bytes" if text.bytesize > RESULT_BYTES_MAX

      { outcome: "done", result: JSON.parse(text, max_nesting: false) }
    rescue StandardError, SystemStackError => e # the work is done, whatever the result is
      { outcome: "done", result: "tenon: the result was not kept: #{storable(said(task, e))[0, NOTE_CHARACTERS_MAX]}" }
    end

    def failed(task, error)
      described_outcome(task, error)
    rescue StandardError, SystemStackError => e # of the error's own methods, or its delay
      { outcome: "failed", error: "an error that cannot be described: #{error.class}, #{e.class}" }
    end

    def described_outcome(task, error)
      case error
      when Interrupted then { outcome: "interrupted" }
      when Snooze then { outcome: "snooze", error: cut(error.message), **delay(error) }
      when Retry then { outcome: "failed", **described(task, error), **delay(error) }
      when Dead then { outcome: "dead", **described(task, error) }
      else { outcome: "failed", **described(task, error) }
      end
    end

    def delay(error)
      return {} if error.after.nil?

      { delay_ms: Duration.milliseconds(error.after).clamp(1, DELAY_MS_MAX) }
    end

    # `raise Tenon::Dead` in a rescue: the error is the one that was rescued.
    def described(task, error)
      cause = error.is_a?(Outcome) && error.cause ? error.cause : error
      head = error.message.empty? ? said(task, cause) : said(task, error)
      trace = error.is_a?(Outcome) && cause.equal?(error) ? [] : [[cause.class, said(task, cause)].uniq.join(": "), *cause.backtrace]
      { error: cut([head, "", *trace].join("\n").rstrip), error_class: cause.class.to_s[-CLASS_BYTES_MAX..] || cause.class.to_s }
    end

    # What an error says, unless that may be secret. Outcomes say what they say on purpose.
    def said(task, error)
      return error.message if !task.hides? || error.is_a?(Outcome) || error.is_a?(SecretError)

      "#{error.class} (its message is not kept, because the task is secret)"
    end

    # Without its middle, if it is too long.
    def cut(text)
      text = storable(text)
      return text if text.bytesize <= ERROR_BYTES_MAX

      half = (ERROR_BYTES_MAX / 2) - 10
      "#{text.byteslice(0, half).scrub('')}\n[...]\n#{text.byteslice(-half, half).scrub('')}"
    end

    def storable(text)
      text = text.encoding == Encoding::UTF_8 ? text : text.dup.force_encoding(Encoding::UTF_8)
      text.scrub.tr("\0", "\u{FFFD}")
    end
  end
end
