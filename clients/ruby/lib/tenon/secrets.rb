require "json"
require "openssl"

module Tenon
  # A value cannot be encrypted or decrypted here. The task fails and is retried: usually a key is missing.
  class SecretError < StandardError
  end

  # Keys by their ids. The first one encrypts, each decrypts what was encrypted with it (docs/secrets.md).
  class Keys
    ENVELOPE = "tenon:secret".freeze
    ID = /\A[A-Za-z0-9_.-]{1,100}\z/
    KEY_BYTES = 32
    NONCE_BYTES = 12
    TAG_BYTES = 16

    # "ID:BASE64 ID:BASE64", as an environment variable has them.
    def self.parse(text)
      new(text.split.map do |word|
        id, key, more = word.split(":")
        raise ArgumentError, "a key is not ID:BASE64" if more || key.nil? # without its text

        [id, decoded(key)]
      end)
    end

    # nil: it is no base64.
    def self.decoded(text)
      text.is_a?(String) ? text.unpack1("m0") : nil
    rescue ArgumentError
      nil
    end

    def self.envelope?(value)
      value.is_a?(Hash) && value.size == 1 && value.key?(ENVELOPE)
    end

    # Pairs of an id and 32 bytes.
    def initialize(pairs)
      @keys = {}
      pairs.each do |id, key|
        raise ArgumentError, "the id of a key has 1 to 100 of A-Z a-z 0-9 _ . -, and is there once" if !ID.match?(id) || @keys.key?(id)
        raise ArgumentError, "the key #{id} should be base64 of #{KEY_BYTES} bytes" unless key&.bytesize == KEY_BYTES

        @keys[id] = key
      end
      raise ArgumentError, "no keys were given" if @keys.empty?
    end

    def inspect = "#<Tenon::Keys #{@keys.keys.join(' ')}>"

    # An envelope of the value. It opens for this kind only, and only as what it is: "payload", "result", "progress" or "step:NAME".
    def encrypt(value, kind:, what: "payload")
      seal(Tenon.json(value), kind, what, OpenSSL::Random.random_bytes(NONCE_BYTES))
    end

    # The value in an envelope; what is no envelope is returned as it is.
    def decrypt(value, kind:, what: "payload")
      Keys.envelope?(value) ? JSON.parse(unseal(value[ENVELOPE], kind, what), max_nesting: false) : value
    end

    # Of a text of JSON; the nonce is for one text only.
    def seal(text, kind, what, nonce)
      id, key = @keys.first
      cipher = OpenSSL::Cipher.new("aes-256-gcm").encrypt
      cipher.key = key
      cipher.iv = nonce
      cipher.auth_data = bound_to(kind, what)
      sealed = cipher.update(text) + cipher.final + cipher.auth_tag
      { ENVELOPE => { "v" => 1, "key" => id, "nonce" => [nonce].pack("m0"), "text" => [sealed].pack("m0") } }
    end

    private

    def unseal(inner, kind, what)
      id, nonce, sealed = parts(inner, "the #{what} of #{kind}")
      key = @keys.fetch(id) do
        raise SecretError, "the #{what} of #{kind} is encrypted with the key '#{id}', which this process does not have; " \
                           "it has #{@keys.keys.map { |one| "'#{one}'" }.join(', ')}"
      end
      deciphered(key, nonce, sealed, bound_to(kind, what))
    rescue OpenSSL::Cipher::CipherError
      raise SecretError.new("the #{what} of #{kind} cannot be decrypted with the key '#{id}': it was encrypted with another key of " \
                            "that id, for another kind or purpose, or it was changed"), cause: nil
    end

    def deciphered(key, nonce, sealed, bound)
      cipher = OpenSSL::Cipher.new("aes-256-gcm").decrypt
      cipher.key = key
      cipher.iv = nonce
      cipher.auth_tag = sealed[-TAG_BYTES..]
      cipher.auth_data = bound
      text = sealed[0...-TAG_BYTES]
      ((text.empty? ? "" : cipher.update(text)) + cipher.final).force_encoding(Encoding::UTF_8)
    end

    def parts(inner, name)
      version = inner.is_a?(Hash) ? inner["v"] : nil
      raise SecretError, "#{name} is encrypted in a version that this client does not know" if version && version != 1

      id, nonce, sealed = version && [inner["key"], Keys.decoded(inner["nonce"]), Keys.decoded(inner["text"])]
      return [id, nonce, sealed] if id.is_a?(String) && nonce&.bytesize == NONCE_BYTES && sealed && sealed.bytesize >= TAG_BYTES

      raise SecretError, "#{name} is not an envelope of v, key, nonce and text"
    end

    def bound_to(kind, what)
      "#{ENVELOPE}:1\n#{kind}\n#{what}".b
    end
  end

  # With the keys of this process.
  module Secrets
    WORDS = %w[payload all].freeze

    module_function

    # What is encrypted of a kind: nil, "payload" or "all".
    def word(secret)
      return nil if secret.nil?
      return secret.to_s if WORDS.include?(secret.to_s)

      raise ArgumentError, "secret is #{secret.inspect}; it should be \"payload\" or \"all\""
    end

    def sealed(value, kind, what)
      keys = Tenon.keys or raise SecretError, "the #{what} of #{kind} is to be encrypted, but there are no keys: Tenon.keys="

      keys.encrypt(value, kind: kind, what: what)
    end

    def opened(value, kind, what)
      return value unless Keys.envelope?(value)

      keys = Tenon.keys or raise SecretError, "the #{what} of #{kind} is encrypted, but there are no keys: Tenon.keys="

      keys.decrypt(value, kind: kind, what: what)
    end
  end

  class << self
    # Those of this process: of producers, to encrypt; of handlers, to decrypt.
    attr_accessor :keys
  end
end
