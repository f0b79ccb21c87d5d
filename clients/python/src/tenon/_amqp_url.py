"""AMQP_URL in the form that tenon's programs accept: several hosts of one cluster, or none."""

from __future__ import annotations

import re
from urllib.parse import unquote

HOSTS_MAX = 16
_FORM = re.compile(r"(amqps?://)((?:[^@/?#\s]*@)?)([^@/?#\s]*)(/[^/?#\s]*|//)?", re.ASCII)
_HOST = re.compile(r"(?:\[[0-9a-fA-F:.%]+\]|[^\[\]:,\s]*)(?::([0-9]{1,5}))?", re.ASCII)


class AmqpUrl:
    """Its hosts, each as a URL that the libraries know."""

    def __init__(self, url: str) -> None:
        """ValueError, which never has the password in it, if it is no such URL."""
        self.urls: list[str] = []
        self.where = "none"
        if url == "none":
            return
        found = _FORM.fullmatch(url) if isinstance(url, str) else None
        hosts = found[3].split(",") if found else []
        if found is None or len(hosts) > HOSTS_MAX or not all(map(_fits, hosts)) or ("" in hosts and len(hosts) > 1):
            raise ValueError(
                f"the AMQP URL has at most {HOSTS_MAX} hosts and the form amqp://USER:PASSWORD@HOST:PORT,HOST:PORT/VHOST"
                ' or amqps://..., and a slash in a name is written %2f; or it is "none"'
            )
        scheme, login, vhost = found[1], found[2], found[4] or "/"
        path = "/%2f" if vhost in ("/", "//") else vhost
        self.urls = [f"{scheme}{login}{host or 'localhost'}{path}" for host in hosts]
        self.where = f"{found[3] or 'localhost'}, virtual host {unquote(path[1:])}"
        self._password = unquote(login[:-1].partition(":")[2])

    def without_password(self, text: str) -> str:
        """What a library has said, for a log."""
        return text.replace(self._password, "***") if self._password else text


def _fits(host: str) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and (found[1] is None or 1 <= int(found[1]) <= 65535)
