"""What differs in recorded answers from one time to the next, and what is written instead."""

import re
from collections.abc import Mapping

CELL = r" +(?:\| )?"
"""Between two cells of a table, in the terminal and in Markdown."""
VOLATILE = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:\d\d)?", "<time>"),
        (r"(measured |\"date\": \")\d{4}-\d\d-\d\d", r"\1<date>"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
        (r"(?m)^time +about [^\n]* left\n", ""),
        (r"(?m)^\d+ of \d+ [^\n]+, about [^\n]+ left\n", ""),
        (r"  \S[^\n]{0,20} left\n", "\n"),
        (r"(steps: \S+ in) [^;\n]+;", r"\1 <duration>;"),
        (r"(checkpoints/step-\d+)-\w+\.safetensors(: .*)?", r"\1"),  # seconds stand in them
        (r"(after \d+ steps) in [^\n]+", r"\1 in <duration>"),
        (
            rf"(?m)^((?:\| )?\S+{CELL}\S+{CELL}[\d.]+[kMGT]){CELL}\S+({CELL}.*%){CELL}\S+( \|)?$",
            r"\1 <speed>\2 <speed>",  # compare: parameters FLOPs tok/s … AER sent/s
        ),
        (
            rf"(?m)^(\S.*{CELL}(?:–|\S+…\S+){CELL}\d+{CELL}[\d,]+){CELL}\d+( \|)?$",
            r"\1 <duration>",  # compare: lowest…highest steps tokens seconds
        ),
        (r"(?m)^((?:regard|process|python)_\S+) [\d.e+-]+$", r"\1 <count>"),  # of Prometheus
        (r"download_file/[\w-]{32}", "download_file/<token>"),
        (r"retry-after: \d+", "retry-after: <duration>"),
        (r"\d[\d,]*(\.\d+)? (tokens|sentences|characters|pairs|examples)/s", r"<speed> \2/s"),
        (r"(tokens|steps|examples|sentences)_per_second\": [\d.e+-]+", r'\1_per_second": <speed>'),
        (r"\"((?:\w+_)?seconds|took|time)\": [\d.e+-]+", r'"\1": <duration>'),
        (r"\"mtime_ns\": \d+", '"mtime_ns": <time>'),
        (r"events\.out\.tfevents\.\S+", "events.out.tfevents.<host>"),
        (r"<dc:date>[^<]*</dc:date>", "<dc:date/>"),
    )
]
"""Patterns, and what stands in their place; narrow, so that no answer is lost."""
OTHER_EACH_TIME = re.compile(r"events\.out\.tfevents|manifest\.json$|\.lock$")
"""Files that have times or process numbers in them, or digests of such files: only named."""
UNSTABLE_HEADERS = {"date", "x-request-id", "content-length", "etag", "last-modified"}
"""Headers of answers that are not recorded."""


def normalised(text: str, paths: Mapping[str, str] | None = None) -> str:
    """A text without what is volatile."""
    for path, name in (paths or {}).items():
        text = text.replace(path, name)
    for pattern, replacement in VOLATILE:
        text = pattern.sub(replacement, text)
    return text
