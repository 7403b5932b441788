"""Lines that tokenizers stumble over."""

import random
import unicodedata

SEQUENCES = (
    "👩‍👩‍👧‍👦 👍🏽 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🇩🇪🇫🇷 ❤️ 1️⃣ 🧑🏿‍🚀",
    "e\u0301 é ﬁ ² ｆｕｌｌ ℌ Å İi ıI ß ẞ ς ǆ",
    "a\u0300\u0301\u0302\u0303b \u0301leading",
    "שלום עולם العربية ‏mixed‏ ١٢٣ हिन्दी ไทย မြန်မာ ខ្មែរ 한국어 日本語 漢字かな 𠮷野家 👾",
    "\u200b\u200c\u200d\ufeff\u2060 zero\u200bwidth",
    "tab\tnewline\nreturn\rfeed\x0cnul\x00del\x7fesc\x1b[0m\x85\u2028\u2029",
    "\u00a0no\u202fbreak\u3000wide\u1680ogham",
    "[MASK] [CLS] [SEP] [PAD] [UNK] <mask> <s> </s> <pad> <unk> <|endoftext|> <0x0A> ##ing ▁x Ġy",
    "  two  spaces   three ",
    "don't I'll we've 'S 'T they'RE 12,345.67 1e-9 $5 50% a_b-c/d\\e @x #y https://a.b/c?d=e&f",
    "\ufffd\ufdd0\ufffe\U0010ffff private \ue000",
    "x" * 500,
    "日" * 300,
    "!" * 300,
)

WORDS = ("the", "Attention", "élève", "cat's", "3.14", "\t", "ok.")


def hostile_lines(count=2000):
    """`count` lines: every script, sequences, control characters, empty and very long ones."""
    rng = random.Random(0)
    lines = ["", " ", "\n", "\x00", *SEQUENCES, " ".join(f"word{n % 977}" for n in range(10_000))]
    blocks = []
    for first in (*range(0, 0x32000, 0x60), *range(0xE0000, 0xE0200, 0x60)):
        chars = [chr(n) for n in range(first, first + 0x60) if not 0xD800 <= n < 0xE000]
        known = [char for char in chars if unicodedata.category(char) != "Cn"]
        blocks += [known] if known else []
    for number in range(count - len(lines)):
        block = blocks[number % len(blocks)]
        parts = []
        for _ in range(rng.randint(1, 12)):
            kind = rng.random()
            if kind < 0.5:
                parts.append("".join(rng.choices(block, k=rng.randint(1, 6))))
            elif kind < 0.7:
                parts.append(rng.choice(SEQUENCES)[: rng.randint(1, 40)])
            else:
                parts.append(rng.choice(WORDS))
        lines.append(rng.choice([" ", "", "  "]).join(parts))
    return lines
