"""Encrypted payloads, results, progress and steps (docs/secrets.md): AES-256-GCM in an envelope with the key's id."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Mapping
from typing import Any, Literal

from tenon._outcomes import SecretError
from tenon._payload import encode

Secret = Literal["payload", "all"]
"""What of a task is encrypted: its payload; or also its results, its progress, and the values of its steps."""

ENVELOPE = "tenon:secret"
VERSION = 1
KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
_ID = re.compile(r"[A-Za-z0-9_.-]{1,100}")


class Keys:
    """Keys by their ids. The first one encrypts, each decrypts what was encrypted with it."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        if not keys:
            raise ValueError("no keys were given")
        for key_id, key in keys.items():
            if not _ID.fullmatch(key_id):
                raise ValueError("the id of a key has 1 to 100 of A-Z a-z 0-9 _ . -")
            if len(key) != KEY_BYTES:
                raise ValueError(f"the key {key_id!r} has {len(key)} bytes, not {KEY_BYTES}")
        self._keys = dict(keys)

    @classmethod
    def parse(cls, text: str) -> Keys:
        """`ID:BASE64`, more of them with spaces between, such as a variable of the environment has them."""
        keys: dict[str, bytes] = {}
        for word in text.split():
            key_id, _, key = word.partition(":")
            if key_id in keys:
                raise ValueError(f"the key {key_id!r} is given twice")
            try:
                keys[key_id] = base64.b64decode(key, validate=True)
            except binascii.Error:
                raise ValueError("a key is not ID:BASE64") from None  # without its text
        return cls(keys)

    @property
    def ids(self) -> list[str]:
        """The first one encrypts."""
        return list(self._keys)

    def __repr__(self) -> str:
        return f"<tenon.Keys {', '.join(self._keys)}>"

    def encrypt(self, value: Any, *, kind: str, what: str = "payload") -> dict[str, Any]:
        """The envelope of a value of JSON. It can be opened for this kind only, and only as what it is."""
        return self.seal_text(encode(value), kind, what, os.urandom(NONCE_BYTES))

    def decrypt(self, value: Any, *, kind: str, what: str = "payload") -> Any:
        """The value in an envelope; what is none is returned as it is. SecretError says why not."""
        return json.loads(self.open_text(value[ENVELOPE], kind, what)) if is_envelope(value) else value

    def seal_text(self, text: str, kind: str, what: str, nonce: bytes) -> dict[str, Any]:
        """A nonce is for one text only."""
        key_id, key = next(iter(self._keys.items()))
        cipher = _aes(key).encrypt(nonce, text.encode(), bound_to(kind, what))
        inner = {"v": VERSION, "key": key_id, "nonce": _base64(nonce), "text": _base64(cipher)}
        return {ENVELOPE: inner}

    def open_text(self, inner: Any, kind: str, what: str) -> str:
        """What seal_text was given."""
        key_id, nonce, cipher = _parts(inner, kind, what)
        key = self._keys.get(key_id)
        if key is None:
            raise SecretError(
                f"{_named(kind, what)} is encrypted with the key {key_id!r}, which this process does not have; "
                f"it has {', '.join(map(repr, self._keys))}"
            )
        aes = _aes(key)
        from cryptography.exceptions import InvalidTag

        try:
            return str(aes.decrypt(nonce, cipher, bound_to(kind, what)).decode())
        except InvalidTag:
            raise SecretError(
                f"{_named(kind, what)} cannot be decrypted with the key {key_id!r}: it was encrypted with another key "
                "of that id, for another kind or purpose, or it was changed"
            ) from None


_keys: Keys | None = None


def set_keys(keys: Keys | None) -> None:
    """The keys of this process: of producers, to encrypt; of handlers, to decrypt."""
    global _keys
    _keys = keys


def sealed(value: Any, kind: str, what: str) -> Any:
    """Encrypted with the keys of this process."""
    if _keys is None:
        raise SecretError(f"{_named(kind, what)} is to be encrypted, but there are no keys: tenon.set_keys()")
    return _keys.encrypt(value, kind=kind, what=what)


def opened(value: Any, kind: str, what: str) -> Any:
    """Decrypted with the keys of this process, if it is an envelope."""
    if not is_envelope(value):
        return value
    if _keys is None:
        raise SecretError(f"{_named(kind, what)} is encrypted, but there are no keys: tenon.set_keys()")
    return _keys.decrypt(value, kind=kind, what=what)


def is_envelope(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and ENVELOPE in value


def bound_to(kind: str, what: str) -> bytes:
    """The additional data: an envelope opens for this kind only, and only as this. No kind has a line feed."""
    return f"{ENVELOPE}:{VERSION}\n{kind}\n{what}".encode()


def _parts(inner: Any, kind: str, what: str) -> tuple[str, bytes, bytes]:
    if isinstance(inner, dict) and inner.get("v") != VERSION:
        raise SecretError(f"{_named(kind, what)} is encrypted in a version that this client does not know")
    try:
        key_id, nonce, cipher = inner["key"], _bytes(inner["nonce"]), _bytes(inner["text"])
    except (TypeError, KeyError, ValueError):
        key_id, nonce, cipher = None, b"", b""
    if not isinstance(key_id, str) or len(nonce) != NONCE_BYTES or len(cipher) < TAG_BYTES:
        raise SecretError(f"{_named(kind, what)} is not an envelope of v, key, nonce and text")
    return key_id, nonce, cipher


def _bytes(text: Any) -> bytes:
    return base64.b64decode(text, validate=True)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _named(kind: str, what: str) -> str:
    return f"the {what} of {kind}"


def _aes(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ModuleNotFoundError:
        raise SecretError("encryption needs the package cryptography: pip install cryptography") from None
    return AESGCM(key)
