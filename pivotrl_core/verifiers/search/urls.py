"""URLs in a normal form: two of one form lead to one page.

Left out: the scheme where it is http or https, `www.`, the port that a scheme has anyway, parameters that only follow
visitors, the fragment (but `#!...` and `#/...`, which choose a page), a slash at the end. Hosts are in lower case and
by IDNA (UTS 46), escapes are spelt in one way, parameters sorted by name. Sources: RFC 3986 section 6, RFC 5891.
"""

from __future__ import annotations

import posixpath
import re
from contextlib import suppress
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

import idna

MAX_CHARACTERS = 8_000
_WEB = ("http", "https", "")
_PORTS = {"http": (None, 80), "https": (None, 443), "": (None, 80, 443), "ftp": (None, 21)}
_BARE = re.compile(r"(?:[\w-]{1,63}\.){1,10}[^\W\d_]{2,24}(?::\d{1,5})?(?:[/?#]\S*)?")
_FULL = re.compile(r"[a-z][a-z0-9+.-]{0,20}://\S+", re.IGNORECASE)
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_FOLLOWING = frozenset({
    "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "fbclid", "msclkid", "twclid", "ttclid", "yclid", "igshid",
    "mc_cid", "mc_eid", "_ga", "_gl", "ref_src", "ref_url", "vero_id", "oly_enc_id", "oly_anon_id", "mkt_tok",
})  # fmt: skip


def plain_url(text: str) -> str | None:
    """The normal form of a URL, with or without its scheme; None for what is none."""
    bare = text.strip()
    if len(bare) > MAX_CHARACTERS:
        return None
    try:
        if _FULL.fullmatch(bare):
            return _plain(urlsplit(bare))
        return _plain(urlsplit(f"//{bare}")) if _BARE.fullmatch(bare) else None
    except ValueError:  # brackets that hold no address, a port that is no number
        return None


def same_page(expected: str, actual: str) -> bool:
    """Whether two addresses, or names of documents, are one. Without a scheme only what has a path is an address."""
    if expected == actual:
        return True
    if not ("://" in expected or "://" in actual or ("/" in expected and "/" in actual)):
        return False
    first = plain_url(expected)
    return first is not None and first == plain_url(actual)


def _plain(parts: SplitResult) -> str | None:
    scheme = parts.scheme.lower()
    host = _plain_host(parts.hostname or "")
    if not host and scheme in _WEB:
        return None
    port = "" if parts.port in _PORTS.get(scheme, (None,)) else f":{parts.port}"
    user, at, _ = parts.netloc.rpartition("@")
    path = _plain_path(parts.path)
    asked = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True, errors="surrogateescape")
             if name.lower() not in _FOLLOWING and not name.lower().startswith("utm_")]  # fmt: skip
    query = urlencode(sorted(asked, key=lambda pair: pair[0]), errors="surrogateescape")
    fragment = f"#{parts.fragment}" if parts.fragment.startswith(("!", "/")) else ""
    start = "" if scheme in _WEB else f"{scheme}:"
    return f"{start}//{user}{at}{host}{port}{path}{'?' if query else ''}{query}{fragment}"


def _plain_host(host: str) -> str:
    host = host.rstrip(".").lower()
    if host.isascii():
        return _without_www(host)
    with suppress(UnicodeError):  # an address or an underscore stays as it is
        host = idna.encode(host, uts46=True).decode("ascii")
    return _without_www(host)


def _without_www(host: str) -> str:
    return host.removeprefix("www.") if host.count(".") > 1 else host


def _plain_path(path: str) -> str:
    escaped = quote(path, safe="/%:@!$&'()*+,;=~-._[]", errors="surrogatepass")
    decoded = _ESCAPE.sub(_spell_escape, escaped)
    plain = posixpath.normpath(f"/{decoded}").rstrip("/")
    return plain[1:] if plain.startswith("//") else plain


def _spell_escape(match: re.Match[str]) -> str:
    character = chr(int(match[1], 16))
    return character if character in _UNRESERVED else match[0].upper()
