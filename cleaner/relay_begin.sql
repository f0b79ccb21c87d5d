-- Makes this session the relay. Returns the token, which the other statements of the relay take.
SELECT tenon.relay_begin();
