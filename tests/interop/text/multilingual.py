"""Texts in many scripts, made from a seed: words of random letters of each script, emoji with joiners,
combining marks, white space of all kinds, digits, contractions, control characters, code, noise."""
import random
import unicodedata

SCRIPTS = {  # ranges of assigned letters, with the marks among them
    "latin": [(0x41, 0x5a), (0x61, 0x7a)], "latin_more": [(0xc0, 0x17f), (0x1e00, 0x1eff)],
    "greek": [(0x391, 0x3a1), (0x3a3, 0x3ce)], "cyrillic": [(0x400, 0x45f)],
    "armenian": [(0x531, 0x556), (0x561, 0x586)], "hebrew": [(0x5b0, 0x5bd), (0x5d0, 0x5ea)],
    "arabic": [(0x620, 0x652), (0x660, 0x669)], "devanagari": [(0x900, 0x94d), (0x966, 0x96f)],
    "bengali": [(0x985, 0x98c), (0x9be, 0x9c4)], "tamil": [(0xb85, 0xb8a), (0xbbe, 0xbc2)],
    "thai": [(0xe01, 0xe3a), (0xe40, 0xe59)], "georgian": [(0x10d0, 0x10fa)],
    "hangul": [(0xac00, 0xd7a3)], "hiragana": [(0x3041, 0x3096)], "katakana": [(0x30a1, 0x30fa)],
    "han": [(0x4e00, 0x9fff)], "han_rare": [(0x20000, 0x2a6d0)], "ethiopic": [(0x1200, 0x1248)],
    "cherokee": [(0x13a0, 0x13f5)], "gothic": [(0x10330, 0x1034a)], "khmer": [(0x1780, 0x17b3)],
    "mathematical": [(0x1d400, 0x1d454)], "letterlike": [(0x2100, 0x214f), (0x2160, 0x2188)],
}
SPACES = list(" \t\n\r\v\f\x85\xa0\u1680\u2000\u2003\u2009\u200a\u2028\u2029\u202f\u205f\u3000")
NO_SPACES = list("\u200b\u180e\ufeff\u2060\x1c\x1d\x1e\x1f\x00\x7f\x9f\xad")
CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "\u2019s", "don't", "we'll've"]
EMOJI = ["\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd",
         "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "1\ufe0f\u20e3", "\U0001f3f4\U000e0067\U000e0062"]
NUMBERS = ["0", "007", "3.14", "1,000,000", "\u0663\u0664", "\u00bd", "\u2167", "\u00b2", "12345678901234567890",
           "\U0001d7d8", "\u4e03"]
CODE = ["for (int i = 0; i < n; ++i) {\n\treturn a[i];\n}", "<a href=\"x\">", "// ---", "def f(x):\n    pass",
        "<|endoftext|>", "<|end", "|>", "http://a.b/c?d=e&f=%20"]


def word(pick, script):
    ranges = SCRIPTS[script]
    letters = "".join(chr(pick.randint(*pick.choice(ranges))) for _ in range(pick.randint(1, 9)))
    if pick.random() < 0.1:
        letters += chr(pick.randint(0x300, 0x36f)) * pick.randint(1, 3)
    return unicodedata.normalize(pick.choice(["NFC", "NFD"]), letters)


def piece(pick, script):
    kind = pick.random()
    if kind < 0.45:
        return " " * pick.choice([0, 1, 1, 1]) + word(pick, script)
    if kind < 0.6:
        return "".join(pick.choices(SPACES, k=pick.randint(1, 5)))
    if kind < 0.66:
        return " " * pick.randint(1, 20) + "\n" * pick.randint(0, 3)
    if kind < 0.85:
        return pick.choice(pick.choice([CONTRACTIONS, EMOJI, NUMBERS, CODE, NO_SPACES]))
    if kind < 0.95:
        return "".join(chr(pick.randint(0x21, 0x7e)) for _ in range(pick.randint(1, 8)))
    # Any assigned character of the oldest Unicode that both sides know.
    while True:
        one = chr(pick.randint(0, 0x1ffff))
        if unicodedata.ucd_3_2_0.category(one) not in ("Cn", "Cs", "Co"):
            return one


def texts(count, seed):
    """`count` texts; among them a few with very long words."""
    pick = random.Random(seed)
    made = []
    for _ in range(count - 8):
        scripts = pick.choices(sorted(SCRIPTS), k=pick.randint(1, 3))
        made.append("".join(piece(pick, pick.choice(scripts)) for _ in range(pick.randint(0, 30))))
    for unit in ("a", "ab", "7", "!?", " ", "\n", "\u4e2d\u6587", "\U0001f600"):
        made.append(unit * (20000 // len(unit)))
    return made
