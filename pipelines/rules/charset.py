"""How the bytes of a page become text: byte order mark, header, meta prescan, detection, windows-1252.

Rules: WHATWG HTML, "determining the character encoding"; labels: WHATWG Encoding (webencodings).
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from typing import Final

import webencodings
from resiliparse.parse.encoding import detect_encoding

from pipelines.rules.sniff import media_type

PRESCAN_BYTES: Final = 1024
DETECT_BYTES: Final = 65_536
LEAST_EVIDENCE: Final = 6
"""Bytes above ASCII that a guess needs: uchardet reads a single one as whatever comes first to its mind."""
DEFAULT: Final = "windows-1252"
_HIGH: Final = bytes(range(0x80, 0x100)) + b"\0"

# Python codecs that cover what the Encoding Standard puts under a name, where webencodings knows a smaller one.
_CODECS: Final = {
    "shift_jis": "cp932",
    "euc-kr": "cp949",
    "big5": "big5hkscs",
    "gbk": "gb18030",
    "x-user-defined": "windows-1252",
}
_BOMS: Final = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16be"), (b"\xff\xfe", "utf-16le"))
_DETECTED_NAMES: Final = {"cp949": "euc-kr", "iso2022_jp": "iso-2022-jp", "mac_cyrillic": "x-mac-cyrillic"}


def charset_of(body: bytes, *, content_type: str | None) -> tuple[str, str]:
    """Return (WHATWG encoding name in lower case, how it was found) for the bytes of a page.

    How: "bom", "header", "meta" (meta tag or XML declaration in the first 1,024 bytes; else a meta tag in the
    first 64 KB, which makes browsers start again), "detected" (from the first 64 KB, or because all of it is
    UTF-8), "default" (windows-1252). Unknown labels are passed over.
    """
    for mark, name in _BOMS:
        if body.startswith(mark):
            return name, "bom"
    said = media_type(content_type)
    # two fields joined by a comma are common; no label holds one
    declared = said and encoding_name(said[1].get("charset", "").partition(",")[0])
    if declared:
        return declared, "header"
    found = prescan(body[:PRESCAN_BYTES]) or _late_meta(body)
    if found:
        return found, "meta"
    guessed = detect(body)
    return (guessed, "detected") if guessed else (DEFAULT, "default")


def decode(body: bytes, charset: str) -> str:
    """Return the text of `body` read as `charset` (a name from `charset_of`), its byte order mark dropped.

    Bytes that the encoding does not know become U+FFFD; nothing raises. The "replacement" encoding, which
    stands for encodings that are not safe to read, gives one U+FFFD.
    """
    if charset == "replacement":
        return "\ufffd" if body else ""
    for mark, name in _BOMS:
        if name == charset and body.startswith(mark):
            body = body[len(mark) :]
    return body.decode(codec_of(charset), "whatwg")


def _undecodable(fault: UnicodeError) -> tuple[str, int]:
    """Answer a decoder that met unknown bytes as the Encoding Standard does where Python is stricter."""
    if not isinstance(fault, UnicodeDecodeError):
        raise fault
    byte = fault.object[fault.start]
    if fault.encoding == "charmap" and byte < 0xA0:  # the holes of windows-125x are control characters
        return chr(byte), fault.start + 1
    if fault.encoding == "gb18030" and byte == 0x80:
        return "€", fault.start + 1
    return "\ufffd", fault.end


codecs.register_error("whatwg", _undecodable)


def codec_of(charset: str) -> str:
    """Return the name of the Python codec that reads a WHATWG encoding."""
    known = webencodings.lookup(charset)
    return _CODECS.get(charset) or (known.codec_info.name if known else "utf-8")


def encoding_name(label: str) -> str | None:
    """Return the WHATWG name of an encoding label, in lower case; None if no such label exists.

    >>> encoding_name(" ISO-8859-1 ")
    'windows-1252'
    """
    found = webencodings.lookup(label) if label.isascii() else None
    return found.name if found else None


# --- prescan -------------------------------------------------------------------------------------------

_SCAN: Final = re.compile(
    rb"<(?:(!--)|(meta)(?=[\t\n\x0c\r /])|/?[a-z][^\t\n\x0c\r >]*(?=([\t\n\x0c\r >]))|[!/?])", re.I
)
_ATTRIBUTE: Final = re.compile(
    rb"[\t\n\x0c\r /]*(=[^\t\n\x0c\r />=]*|[^\t\n\x0c\r />=]+)"
    rb"(?:[\t\n\x0c\r ]*=[\t\n\x0c\r ]*(?:\"([^\"]*)\"|'([^']*)'|([\"'])|([^\t\n\x0c\r >]*)))?"
)
_TAG_END: Final = re.compile(rb"[\t\n\x0c\r /]*>")
_CHARSET_WORD: Final = re.compile(r"charset[\t\n\x0c\r ]*=[\t\n\x0c\r ]*")
_XML: Final = re.compile(rb"<\?xml[^>]*?encoding[\x00-\x20]*=[\x00-\x20]*([\"'])([^\"'>]*)\1[^>]*>")


def prescan(head: bytes) -> str | None:
    """Return the encoding that a meta tag or an XML declaration in the first bytes declares; None if none does.

    UTF-16 is read as utf-8 and x-user-defined as windows-1252, as the standard wants.
    """
    if head.startswith(b"<\0?\0x\0"):
        return "utf-16le"
    if head.startswith(b"\0<\0?\0x"):
        return "utf-16be"
    return _first_meta(head) or _xml_encoding(head)


def _first_meta(head: bytes) -> str | None:
    """Return what the first meta tag declares that says anything. The pages of a site begin alike: it is remembered."""
    word = head.find(b"charset")
    if word < 0 and b"charset" not in head.lower():
        return None
    end = head.find(b">", word) + 1
    return (_scan_beginning(head[:end]) if word >= 0 and end else None) or _scan_metas(head)


@lru_cache(maxsize=1_024)
def _scan_beginning(beginning: bytes) -> str | None:
    """Return what a meta tag that ends in these bytes declares: no byte behind them can change it."""
    return _scan_metas(beginning)


_SCRIPT: Final = re.compile(rb"<(script|style|title|textarea)[\t\n\x0c\r />].*?(?:</\1|\Z)", re.I | re.S)


def _late_meta(body: bytes) -> str | None:
    """Return what a meta tag behind the prescan declares: HTML, "change the encoding while parsing"."""
    sample = body[:DETECT_BYTES]
    if len(sample) <= PRESCAN_BYTES or b"charset" not in sample[PRESCAN_BYTES - 16 :].lower():
        return None
    return _scan_metas(_SCRIPT.sub(b"", sample))


def _xml_encoding(head: bytes) -> str | None:
    declared = _XML.match(head)
    return _corrected(encoding_name(declared[2].decode("latin-1"))) if declared else None


def _corrected(name: str | None) -> str | None:
    if name and name.startswith("utf-16"):
        return "utf-8"
    return DEFAULT if name == "x-user-defined" else name


def _scan_metas(head: bytes) -> str | None:
    """Walk the tags of `head`; the first meta that declares a known encoding decides."""
    at = 0
    while (token := _SCAN.search(head, at)) is not None:
        if token[1]:  # a comment; "<!-->" is a whole one
            at = head.find(b"-->", token.start() + 2) + 3
            if at < 3:
                return None
        elif token[2] or token[3]:
            attributes, at = _attributes(head, token.end())
            if attributes is None:
                return None
            found = _corrected(_declared(attributes)) if token[2] else None
            if found:
                return found
        else:
            at = head.find(b">", token.end()) + 1
            if not at:
                return None
    return None


def _attributes(head: bytes, at: int) -> tuple[dict[str, str] | None, int]:
    """Return a tag's attributes (lower case, first of a name wins) and the place behind it; None if it is cut."""
    found: dict[str, str] = {}
    while (end := _TAG_END.match(head, at)) is None:
        match = _ATTRIBUTE.match(head, at)
        if match is None or match[4] or match.end() == len(head):
            return None, len(head)
        value = next((part for part in match.group(2, 3, 5) if part is not None), b"")
        found.setdefault(match[1].decode("latin-1").lower(), value.decode("latin-1").lower())
        at = match.end()
    return found, end.end()


def _declared(attributes: dict[str, str]) -> str | None:
    """Return the encoding that a meta tag declares by charset, or by content with http-equiv."""
    if "charset" in attributes:
        return encoding_name(attributes["charset"])
    if attributes.get("http-equiv") == "content-type":
        return charset_in_content(attributes.get("content", ""))
    return None


def charset_in_content(content: str) -> str | None:
    """Return the encoding named in a meta tag's `content` (lower case), as "text/html; charset=koi8-r"."""
    word = _CHARSET_WORD.search(content)
    if word is None:
        return None
    rest = content[word.end() :]
    if rest[:1] in ('"', "'"):
        label, closed, _ = rest[1:].partition(rest[0])
        return encoding_name(label) if closed else None
    return encoding_name(re.split(r"[\t\n\x0c\r ;]", rest, maxsplit=1)[0])


# --- detection -----------------------------------------------------------------------------------------


def detect(body: bytes) -> str | None:
    """Return the encoding that undeclared bytes are most likely in; None if they do not tell (plain ASCII)."""
    sample = body[:DETECT_BYTES]
    if body.isascii() and b"\0" not in sample and b"\x1b" not in sample:
        return None
    if sample.startswith((b"<\0", b"\0<")):
        return "utf-16le" if sample[0] else "utf-16be"
    if not body.isascii() and _is_utf8(body):
        return "utf-8"
    if len(sample) - len(sample.translate(None, _HIGH)) < LEAST_EVIDENCE and b"\x1b" not in sample:
        return None
    guess = detect_encoding(sample, max_len=0, html5_compatible=False)
    name = guess and encoding_name(_DETECTED_NAMES.get(guess, guess.replace("_", "-")))
    return name if name and name != "replacement" else None


def _is_utf8(body: bytes) -> bool:
    """Tell whether all of it is UTF-8; a sequence cut by the end of the body is no fault."""
    try:
        body.decode()
    except UnicodeDecodeError as fault:
        return fault.reason == "unexpected end of data" and not body[: fault.start].isascii()
    return True
