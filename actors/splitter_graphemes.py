"""Where one user-perceived character (an extended grapheme cluster) ends and the next begins.

The rules of Unicode 17.0, UAX 29, with its tables in this file, so that every Python and every
machine says the same; `unicodedata` differs from Python to Python. Simpler than the rules in two
places, and there on the side of not cutting: what counts as an emoji after a joiner is a few wide
ranges, and Hangul syllables are not told apart by their endings.
"""

from __future__ import annotations

import re
from typing import Final

# Extend and SpacingMark: never the first of a grapheme
_EXTEND: Final = (
    "300-36f 483-489 591-5bd 5bf 5c1-5c2 5c4-5c5 5c7 610-61a 64b-65f 670 6d6-6dc 6df-6e4 "
    "6e7-6e8 6ea-6ed 711 730-74a 7a6-7b0 7eb-7f3 7fd 816-819 81b-823 825-827 829-82d 859-85b "
    "897-89f 8ca-8e1 8e3-903 93a-93c 93e-94f 951-957 962-963 981-983 9bc 9be-9c4 9c7-9c8 "
    "9cb-9cd 9d7 9e2-9e3 9fe a01-a03 a3c a3e-a42 a47-a48 a4b-a4d a51 a70-a71 a75 a81-a83 abc "
    "abe-ac5 ac7-ac9 acb-acd ae2-ae3 afa-aff b01-b03 b3c b3e-b44 b47-b48 b4b-b4d b55-b57 "
    "b62-b63 b82 bbe-bc2 bc6-bc8 bca-bcd bd7 c00-c04 c3c c3e-c44 c46-c48 c4a-c4d c55-c56 "
    "c62-c63 c81-c83 cbc cbe-cc4 cc6-cc8 cca-ccd cd5-cd6 ce2-ce3 cf3 d00-d03 d3b-d3c d3e-d44 "
    "d46-d48 d4a-d4d d57 d62-d63 d81-d83 dca dcf-dd4 dd6 dd8-ddf df2-df3 e31 e33-e3a e47-e4e "
    "eb1 eb3-ebc ec8-ece f18-f19 f35 f37 f39 f3e-f3f f71-f84 f86-f87 f8d-f97 f99-fbc fc6 "
    "102d-1037 1039-103e 1056-1059 105e-1060 1071-1074 1082 1084-1086 108d 109d 135d-135f "
    "1712-1715 1732-1734 1752-1753 1772-1773 17b4-17d3 17dd 180b-180d 180f 1885-1886 18a9 "
    "1920-192b 1930-193b 1a17-1a1b 1a55-1a5e 1a60 1a62 1a65-1a7c 1a7f 1ab0-1add 1ae0-1aeb "
    "1b00-1b04 1b34-1b44 1b6b-1b73 1b80-1b82 1ba1-1bad 1be6-1bf3 1c24-1c37 1cd0-1cd2 1cd4-1ce8 "
    "1ced 1cf4 1cf7-1cf9 1dc0-1dff 200c-200d 20d0-20f0 2cef-2cf1 2d7f 2de0-2dff 302a-302f "
    "3099-309a a66f-a672 a674-a67d a69e-a69f a6f0-a6f1 a802 a806 a80b a823-a827 a82c a880-a881 "
    "a8b4-a8c5 a8e0-a8f1 a8ff a926-a92d a947-a953 a980-a983 a9b3-a9c0 a9e5 aa29-aa36 aa43 "
    "aa4c-aa4d aa7c aab0 aab2-aab4 aab7-aab8 aabe-aabf aac1 aaeb-aaef aaf5-aaf6 abe3-abea abec- "
    "abed fb1e fe00-fe0f fe20-fe2f ff9e-ff9f 101fd 102e0 10376-1037a 10a01-10a03 10a05-10a06 "
    "10a0c-10a0f 10a38-10a3a 10a3f 10ae5-10ae6 10d24-10d27 10d69-10d6d 10eab-10eac 10efa-10eff "
    "10f46-10f50 10f82-10f85 11000-11002 11038-11046 11070 11073-11074 1107f-11082 110b0-110ba "
    "110c2 11100-11102 11127-11134 11145-11146 11173 11180-11182 111b3-111c0 111c9-111cc "
    "111ce-111cf 1122c-11237 1123e 11241 112df-112ea 11300-11303 1133b-1133c 1133e-11344 "
    "11347-11348 1134b-1134d 11357 11362-11363 11366-1136c 11370-11374 113b8-113c0 113c2 113c5 "
    "113c7-113ca 113cc-113d0 113d2 113e1-113e2 11435-11446 1145e 114b0-114c3 115af-115b5 "
    "115b8-115c0 115dc-115dd 11630-11640 116ab-116b7 1171d-1171f 11722-1172b 1182c-1183a "
    "11930-11935 11937-11938 1193b-1193e 11940 11942-11943 119d1-119d7 119da-119e0 119e4 "
    "11a01-11a0a 11a33-11a39 11a3b-11a3e 11a47 11a51-11a5b 11a8a-11a99 11b60-11b67 11c2f-11c36 "
    "11c38-11c3f 11c92-11ca7 11ca9-11cb6 11d31-11d36 11d3a 11d3c-11d3d 11d3f-11d45 11d47 "
    "11d8a-11d8e 11d90-11d91 11d93-11d97 11ef3-11ef6 11f00-11f01 11f03 11f34-11f3a 11f3e-11f42 "
    "11f5a 13440 13447-13455 1611e-1612f 16af0-16af4 16b30-16b36 16f4f 16f51-16f87 16f8f-16f92 "
    "16fe4 16ff0-16ff1 1bc9d-1bc9e 1cf00-1cf2d 1cf30-1cf46 1d165-1d169 1d16d-1d172 1d17b-1d182 "
    "1d185-1d18b 1d1aa-1d1ad 1d242-1d244 1da00-1da36 1da3b-1da6c 1da75 1da84 1da9b-1da9f "
    "1daa1-1daaf 1e000-1e006 1e008-1e018 1e01b-1e021 1e023-1e024 1e026-1e02a 1e08f 1e130-1e136 "
    "1e2ae 1e2ec-1e2ef 1e4ec-1e4ef 1e5ee-1e5ef 1e6e3 1e6e6 1e6ee-1e6ef 1e6f5 1e8d0-1e8d6 "
    "1e944-1e94a 1f3fb-1f3ff e0020-e007f e0100-e01ef "
)
_PREPEND: Final = (
    "600-605 6dd 70f 890-891 8e2 d4e 110bd 110cd 111c2-111c3 113d1 1193f 11941 11a84-11a89 "
    "11d46 11f02 "
)
_LINKERS: Final = (
    "94d 9cd acd b4d c4d d4d 1039 17d2 1a60 1b44 1bab a9c0 aaf6 10a3f 11133 113d0 1193e 11a47 "
    "11a99 11f42 "
)
_CONSONANTS: Final = (
    "915-939 958-95f 978-97f 995-9a8 9aa-9b0 9b2 9b6-9b9 9dc-9dd 9df 9f0-9f1 a95-aa8 aaa-ab0 "
    "ab2-ab3 ab5-ab9 af9 b15-b28 b2a-b30 b32-b33 b35-b39 b5c-b5d b5f b71 c15-c28 c2a-c39 "
    "c58-c5a d15-d3a 1000-102a 103f 1050-1055 105a-105d 1061 1065-1066 106e-1070 1075-1081 108e "
    "1780-17b3 1a20-1a54 1b0b-1b0c 1b13-1b33 1b45-1b4c 1b83-1ba0 1bae-1baf 1bbb-1bbd a989-a98b "
    "a98f-a9b2 a9e0-a9e4 a9e7-a9ef a9fa-a9fe aa60-aa6f aa71-aa73 aa7a aa7e-aa7f aae0-aaea "
    "abc0-abda 10a00 10a10-10a13 10a15-10a17 10a19-10a35 11103-11126 11144 11147 11380-11389 "
    "1138b 1138e 11390-113b5 11900-11906 11909 1190c-11913 11915-11916 11918-1192f 11a00 "
    "11a0b-11a32 11a50 11a5c-11a83 11f04-11f10 11f12-11f33 "
)


def _class(ranges: str) -> str:
    """``"300-36f 483"`` as what stands in the brackets of a regular expression."""
    parts = (part.partition("-") for part in ranges.split())
    return "".join(f"\\U{int(low, 16):08x}-\\U{int(high or low, 16):08x}" for low, _, high in parts)


_CONTROL = _class(
    "0-1f 7f-9f ad 61c 180e 200b 200e-200f 2028-202e 2060-206f feff fff0-fffb 13430-1343f "
    "1bca0-1bca3 1d173-1d17a e0000-e001f e0080-e00ff e01f0-e0fff"
)
_EMOJI = _class(
    "a9 ae 203c 2049 2122 2139 2194-21aa 231a-23fa 24c2 25aa-25fe 2600-27bf 2934-2935 2b05-2b55 "
    "3030 303d 3297-3299 1f000-1f1e5 1f201-1faff 1fc00-1fffd"
)
_HANGUL_FIRST, _HANGUL_LATER, _HANGUL = "1100-115f a960-a97c", "1160-11ff d7b0-d7fb", "ac00-d7a3"
_VOWEL_PARTS = "16d63 16d67-16d6a"

# Two characters that always belong together; see UAX 29 for the numbers.
_PAIR = re.compile(
    "(?s:"
    + "|".join(
        [
            "\r\n",  # GB3
            f"[{_class(_HANGUL_FIRST)}][{_class(f'{_HANGUL_FIRST} {_HANGUL_LATER} {_HANGUL}')}]",
            f"[{_class(f'{_HANGUL_LATER} {_HANGUL}')}][{_class(_HANGUL_LATER)}]",  # GB7, GB8
            f"[{_class(_VOWEL_PARTS)}][{_class(_VOWEL_PARTS)}]",
            f"[^{_CONTROL}][{_class(_EXTEND)}]",  # GB9, GB9a
            f"[{_class(_PREPEND)}][^{_CONTROL}]",  # GB9b
            f"\u200d[{_EMOJI}]",  # GB11
        ]
    )
    + ")"
)
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]")
_EXTENDS = re.compile(f"[{_class(_EXTEND)}]")
_LINKER = re.compile(f"[{_class(_LINKERS)}]")
_CONSONANT = re.compile(f"[{_class(_CONSONANTS)}]")


def is_boundary(text: str, at: int, since: int) -> bool:
    """Whether a grapheme may end before character ``at``. ``since``: where one surely begins; no
    more than what lies between is looked at.
    """
    if at <= since or at >= len(text):
        return True
    if _PAIR.match(text, at - 1):
        return False
    if _FLAG.match(text, at):
        first = at
        while first > since and _FLAG.match(text, first - 1):
            first -= 1
        return (at - first) % 2 == 0  # GB12, GB13: flags are pairs
    return not (_CONSONANT.match(text, at) and _is_linked(text, at - 1, since))


def _is_linked(text: str, at: int, since: int) -> bool:
    """GB9c: whether marks that end here, a linking one among them, follow a consonant."""
    linked = False
    while at > since and _EXTENDS.match(text, at):
        linked = linked or _LINKER.match(text, at) is not None
        at -= 1
    return linked and _CONSONANT.match(text, at) is not None


def last_boundary(text: str, start: int, target: int) -> int:
    """The end of the last grapheme that ends at or before ``target``, of those after the one that
    begins at ``start``; of the first one where it is longer.
    """
    for at in range(min(target, len(text)), start, -1):
        if is_boundary(text, at, start):
            return at
    at = target + 1
    while not is_boundary(text, at, start):
        at += 1
    return min(at, len(text))
