"""Packages import downwards only, and nothing is imported inside a function."""

import ast
from pathlib import Path

ORDER = [
    {"errors", "settings", "streams", "nouns", "types"},
    {"files", "kernels"},
    {"text", "attention"},
    {"corpora", "layers"},
    {"batching", "models"},
    {"training", "decoding", "exchange"},
    {"evaluation", "inspection"},
    {"recipes"},
    {"serving"},
    {"comparison"},
    {"cli"},
    {"__init__", "__main__"},
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}
ROOT = Path(__file__).parents[1] / "src" / "regard"


def internal_imports():
    for file in sorted(ROOT.rglob("*.py")):
        home = file.relative_to(ROOT).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard."):
                yield f"{file.relative_to(ROOT)}:{node.lineno}", home, node.module.split(".")[1]


def test_imports_point_downwards():
    found = list(internal_imports())
    assert len(found) > 10, f"found only {len(found)} internal imports: is ROOT right?"
    bad = [
        f"{place} {home} -> {there}"
        for place, home, there in found
        if there != home and RANK[there] >= RANK[home]
    ]
    assert not bad, "\n".join(bad)


def test_every_folder_has_a_rank():
    homes = {path.stem for path in ROOT.iterdir() if path.suffix == ".py"}
    homes |= {path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert homes <= set(RANK), homes - set(RANK)


def test_no_import_hides_in_a_function():
    hidden = [
        f"{file.relative_to(ROOT)}:{inner.lineno}"
        for file in sorted(ROOT.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]
    assert not hidden, "\n".join(hidden)
