"""Packages import downwards, inside functions only what is listed; shared ones name no model."""

import ast
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

from regard.models.build import FAMILIES

ORDER = [
    {"errors", "interruption", "settings", "iterate", "types"},
    {"size_limits"},
    {"manifest", "nested_values"},
    {"atomic_io", "kernels"},
    {"json_files", "yaml_files"},
    {"text", "images", "attention"},
    {"corpora", "layers"},
    {"batching", "models"},
    {"evaluation"},
    {"training", "decoding", "exchange"},
    {"tasks"},
    {"inspection"},
    {"recipes"},
    {"alignment"},
    {"engines"},
    {"comparison"},
    {"tasks/families"},
    {"tasks/NAME"},
    {"pipelines"},
    {"server"},
    {"cluster"},
    {"cli"},
    {"__init__", "__main__"},
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}
ROOT = Path(__file__).parents[1] / "src" / "regard"


def layer_of(parts):
    """The layer of a module: the first folder of its path, but tasks have folders of their own."""
    if parts[0] == "tasks" and len(parts) > 1 and (ROOT / "tasks" / parts[1]).is_dir():
        return "tasks/families" if parts[1] == "families" else "tasks/NAME"
    return parts[0]


def internal_imports():
    for file in sorted(ROOT.rglob("*.py")):
        home = layer_of([part.removesuffix(".py") for part in file.relative_to(ROOT).parts])
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard."):
                yield (
                    f"{file.relative_to(ROOT)}:{node.lineno}",
                    home,
                    layer_of(node.module.split(".")[1:]),
                )


def test_imports_point_downwards():
    found = list(internal_imports())
    assert len(found) > 10, f"found only {len(found)} internal imports: is ROOT right?"
    bad = [
        f"{place} {home} -> {there}"
        for place, home, there in found
        if there != home and RANK[there] >= RANK[home]
    ]
    assert not bad, "\n".join(bad)


def test_no_task_imports_another():
    for file in sorted((ROOT / "tasks").glob("*/**/*.py")):
        own = file.relative_to(ROOT / "tasks").parts[0]
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            module = getattr(node, "module", None) or ""
            if isinstance(node, ast.ImportFrom) and module.startswith("regard.tasks."):
                _, _, other, *_ = module.split(".")
                folder = (ROOT / "tasks" / other).is_dir()
                assert other in (own, "families") or not folder, f"{file}: {module}"


def test_no_folder_holds_more_than_fifteen_modules():
    modules = (file for file in ROOT.rglob("*.py") if file.name != "__init__.py")
    counts = Counter(file.parent.relative_to(ROOT) for file in modules)
    assert {folder: count for folder, count in counts.items() if count > 15} == {}


def test_no_public_class_name_has_two_meanings():
    sources = (file.read_text(encoding="utf-8") for file in ROOT.rglob("*.py"))
    names = Counter(re.findall(r"^class ([A-Z]\w*)", "\n".join(sources), re.MULTILINE))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_folder_has_a_rank():
    homes = {path.stem for path in ROOT.iterdir() if path.suffix == ".py"}
    homes |= {path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert homes <= set(RANK), homes - set(RANK)


FUNCTION_IMPORTS = {
    ("cli/use.py", "regard.cli.display.progress_bar"),  # rich.progress is slow
    ("tasks/translation/options.py", "regard.tasks.translation.markup.markup_translator"),  # torch
    ("engines/ctranslate2/availability.py", "ctranslate2"),  # optional
    (
        "tasks/translation/measurements/engine_benchmark.py",
        "regard.engines.native.native_engine",
    ),  # in a child process
    ("pipelines/exchange/from_ctranslate2.py", "regard.engines.ctranslate2.reference"),  # optional
    ("tasks/translation/pipeline.py", "regard.engines.ctranslate2.ct2_engine"),  # ctranslate2
    ("tasks/translation/pipeline.py", "regard.engines.ctranslate2.exporter"),  # torch, ctranslate2
    ("tasks/translation/pipeline.py", "regard.engines.native.native_engine"),  # torch
    (
        "tasks/translation/pipeline.py",
        "regard.tasks.translation.look",
    ),  # torch; it takes a Translator
    (
        "tasks/translation/pipeline.py",
        "regard.tasks.translation.markup.markup_translator",
    ),  # torch; likewise
    ("text/build.py", "regard.text.hf_tokenizer"),  # tokenizers
    ("text/sentencepiece_tokenizer.py", "regard.text.subword_sampling"),  # NumPy
}
"""Imports inside functions: what is optional or slow to import, and not always needed."""


def test_imports_inside_functions_are_on_the_list():
    found = [
        (str(file.relative_to(ROOT)), name)
        for file in sorted(ROOT.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
        for name in (
            [alias.name for alias in inner.names]
            if isinstance(inner, ast.Import)
            else [inner.module]
        )
    ]
    assert len(FUNCTION_IMPORTS) <= 12
    assert sorted(found) == sorted(FUNCTION_IMPORTS)


EXTRAS = {
    **dict.fromkeys(
        ("fastapi", "starlette", "uvicorn", "h11", "prometheus_client", "python_multipart"),
        ("server", "cluster"),
    ),
    "click": {"cli"},  # typer's, unless that brings its own
    "onnxruntime": {"engines"},
    "pyarrow": {"cluster"},
    "ray": {"cluster"},
    "tokenizers": {"exchange", "text"},
    "triton": {"kernels"},
}
"""Packages that not every installation has -> the folders whose modules import them."""
BROUGHT = {"mpl_toolkits", "packaging", "pydantic_core", "typing_extensions"}
"""Packages that a dependency is made of or cannot do without."""
NAMES_OF = {"pyyaml": "yaml", "pillow": "PIL", "tensorboardx": "tensorboardX"}


def test_the_core_imports_what_it_depends_on():
    project = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    core = {re.split(r"[^\w-]", one)[0].lower() for one in project["dependencies"]}
    known = sys.stdlib_module_names | BROUGHT | {"regard", *(NAMES_OF.get(n, n) for n in core)}
    imports = {
        (file.relative_to(ROOT).parts[0], name.partition(".")[0])
        for file in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [n.name for n in node.names] if isinstance(node, ast.Import) else [node.module]
        )
    }
    assert len(imports) > 100
    foreign = {(folder, name) for folder, name in imports if name not in known}
    assert {(a, name) for a, name in foreign if a not in EXTRAS.get(name, ())} == set()


SHARED = ("kernels", "batching", "decoding", "training", "inspection", "evaluation")
SHARED += ("alignment", "engines", "pipelines", "server", "cluster")
"""Folders that serve every model alike."""
FORMULAS = {("decoding/settings.py", "gnmt")}
"""Called after the paper that has the formula, which any model may use: a length penalty."""


NAMES = {name for family in FAMILIES for name in (family, family.replace("-", ""))}
NAMED = re.compile(rf"(?<![a-z0-9])({'|'.join(sorted(NAMES))})(?![a-z0-9])")


def models_named(node):
    """The models that a node names or says; in a docstring they may be named."""
    if isinstance(node, ast.Expr):
        return set()
    said = [getattr(node, key, None) for key in ("id", "attr", "arg", "name", "module")]
    said += [one.value for one in ast.iter_child_nodes(node) if isinstance(one, ast.Constant)]
    texts = [text.lower().replace("_", "-") for text in said if isinstance(text, str)]
    return {name for text in texts for name in NAMED.findall(text)}


def test_what_serves_every_model_names_none():
    files = [file for room in SHARED for file in sorted((ROOT / room).rglob("*.py"))]
    assert len(files) > 40
    found = {
        (str(file.relative_to(ROOT)), name)
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        for name in models_named(node)
    }
    assert found == FORMULAS


def test_what_serves_every_model_knows_its_contract_alone():
    imports = {
        (str(file.relative_to(ROOT)), node.module)
        for room in SHARED
        for file in sorted((ROOT / room).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard.models")
    }
    assert {module for _, module in imports} == {"regard.models.contracts"}, imports
