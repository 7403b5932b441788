"""A folder that `transformers` saved, read with hostile input in mind: nothing in it is executed.

Only JSON and safetensors are read, each with a limit on its size.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from copy import copy
from errno import ENOENT
from pathlib import Path
from typing import Any, Self

import safetensors.torch
from pydantic import BaseModel, TypeAdapter
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.atomic_io import read_limited
from regard.errors import RunError
from regard.exchange.huggingface.config import ConfigReader
from regard.json_files import describe_error, parse_json, read_json
from regard.manifest import sha256_of_file
from regard.settings import abbreviate, quoted
from regard.size_limits import SizeLimit

TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
HEADER_MAX_BYTES = 25 << 20  # of a safetensors file: names and shapes
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.msgpack", "*.h5")
GGUF = ".gguf"  # llama.cpp's files
PROCESSOR_CONFIG = "preprocessor_config.json"
CONFIGS = (CONFIG, TOKENIZER_CONFIG, PROCESSOR_CONFIG)
TOKENIZER_FILES = ("tokenizer*", "vocab*", "*.model", "*.spm")
REMOTE_CODE = ("auto_map", "trust_remote_code", "custom_pipelines")

JsonObject = dict[str, Any]
_OBJECT: TypeAdapter[JsonObject] = TypeAdapter(JsonObject)


class ShardIndex(BaseModel):
    """An index: the file of each tensor."""

    weight_map: dict[str, str]


class HfFolder:
    """The files of a folder, and its settings."""

    def __init__(self, path: Path, languages: Mapping[str, str] | None = None) -> None:
        """Raises a `RunError` if the folder is of another kind, or needs its own code.

        `languages`: codes of "source" and "target", if the model is multilingual.
        """
        self.path, self.languages = path, languages or {}
        self._tokenizer: bytes | None = None
        config = self.read_object(CONFIG, limit="config")
        if config is None:
            if packed := next(path.glob(f"*{GGUF}"), None):
                raise gguf_error(packed)
            raise RunError(
                f"{path}: holds no {CONFIG}; give a folder that transformers saved "
                "(model.save_pretrained)"
            )
        self.config = config
        for file in CONFIGS:
            raw = self.read_object(file) or {}
            if found := next(filter(raw.get, REMOTE_CODE), None):
                raise RunError(
                    f"{path / file}: {found}: the model's own code, which is never executed here; "
                    "use a model of a family that is part of transformers"
                )
        if config.get("quantization_config"):
            raise RunError(
                f"{path / CONFIG}: quantization_config: quantized weights cannot be imported; use "
                "the model before quantization"
            )

    def with_tokenizer(self, content: bytes) -> Self:
        """The folder with another `tokenizer.json`."""
        other = copy(self)
        other._tokenizer = content
        return other

    def config_reader(self) -> ConfigReader:
        """A reader of its settings, each of which must be read or ignored."""
        return ConfigReader(self.config, str(self.path / CONFIG))

    @property
    def model_type(self) -> str:
        """The name of the model's family in `transformers`."""
        return abbreviate(str(self.config.get("model_type")))

    @property
    def architecture(self) -> str:
        """The name of the model's class in `transformers`, or an empty string."""
        names = self.config.get("architectures")
        return str(names[0]) if isinstance(names, list) and len(names) == 1 else ""

    def read_object(self, name: str, *, limit: SizeLimit = "json") -> JsonObject | None:
        """The object in a JSON file; None if there is no such file."""
        path = self.path / name
        try:
            return _OBJECT.validate_python(parse_json(read_limited(path, limit)))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise RunError(f"{path}: cannot be read: {describe_error(error)}") from None

    def read_bytes(self, name: str) -> bytes | None:
        """The content of a file; None if there is no such file."""
        if name == TOKENIZER and self._tokenizer is not None:
            return self._tokenizer
        try:
            return read_limited(self.path / name, "json")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RunError(f"{self.path / name}: cannot be read: {describe_error(error)}") from None

    def weight_files(self) -> list[Path]:
        """The safetensors files: one, or several parts."""
        if (self.path / WEIGHTS).exists():
            return [self.path / WEIGHTS]
        if not (self.path / INDEX).exists():
            raise self._no_weights()
        try:
            index = read_json(self.path / INDEX, ShardIndex)
        except (OSError, ValueError) as error:
            raise RunError(
                f"{self.path / INDEX}: cannot be read: {describe_error(error)}"
            ) from None
        names = sorted({*index.weight_map.values()})
        for name in names:
            plain = Path(name).name == name and name.isprintable()
            if not plain or not name.endswith(".safetensors"):
                raise RunError(
                    f"{self.path / INDEX}: {abbreviate(repr(name))} is not the name of a "
                    "safetensors file of this folder"
                )
        return [self.path / name for name in names]

    def digests(self) -> dict[str, str]:
        """The SHA-256 of each file of weights."""
        return {path.name: sha256_of_file(path) for path in self.weight_files()}

    def tensors(self) -> dict[str, Tensor]:
        """All tensors, by their names in the files."""
        found: dict[str, Tensor] = {}
        for path in self.weight_files():
            check_header(path)
            try:
                part = safetensors.torch.load_file(path)
            except (SafetensorError, OSError, ValueError) as error:
                raise _damaged(path, error) from None
            if twice := found.keys() & part.keys():
                raise RunError(f"{path}: holds {min(twice)}, which another file holds too")
            found |= part
        return found

    def tensor_names(self) -> set[str]:
        """The names of all tensors, without reading them."""
        found: set[str] = set()
        for path in self.weight_files():
            check_header(path)
            try:
                with safe_open(path, "pt") as file:
                    found |= {*file.keys()}
            except (SafetensorError, OSError) as error:
                raise _damaged(path, error) from None
        return found

    def _no_weights(self) -> RunError:
        if packed := next(self.path.glob(f"*{GGUF}"), None):
            return gguf_error(packed)
        pickles = [one.name for pattern in PICKLES for one in sorted(self.path.glob(pattern))]
        if not pickles:
            return RunError(f"{self.path}: holds neither {WEIGHTS} nor {INDEX}")
        refused = (
            f"{self.path}: its weights are in {pickles[0]}, which may execute code when it is "
            "read: it is refused"
        )
        if not pickles[0].startswith("pytorch_model"):  # which transformers reads no longer
            return RunError(f"{refused}; get a copy of the model with {WEIGHTS}")
        classes = [self.architecture if self.architecture.isidentifier() else "AutoModel"]
        if (self.path / PROCESSOR_CONFIG).exists():
            classes.append("AutoImageProcessor")
        elif any(next(self.path.glob(name), None) for name in TOKENIZER_FILES):
            classes.append("AutoTokenizer")
        convert = _save_again(self.path, classes)
        return RunError(f"{refused}; if you trust it, convert it: {convert}")


def gguf_error(file: Path) -> RunError:
    """The error about a file of llama.cpp, with the commands that make it a folder to import."""
    convert = _save_again(file.parent, ("AutoModelForCausalLM", "AutoTokenizer"), packed=file.name)
    return RunError(
        f"{file}: a file of llama.cpp, which is not read; import the model that it was made from, "
        f"or convert it: pip install gguf accelerate && {convert}"
    )


def _save_again(folder: Path, classes: Sequence[str], *, packed: str = "") -> str:
    """The command by which `transformers` writes a folder, or the file `packed` in it, in a form
    that is read here, and the command that imports it.
    """
    name = Path(packed).stem or folder.resolve().name
    source, new, listed = json.dumps(str(folder)), f"{name}-safetensors", ", ".join(classes)
    given = f", gguf_file={json.dumps(packed)}" if packed else ""
    # What has been unpacked is saved only if nothing says that it was packed.
    plain = "made[0].hf_quantizer = made[0].config.quantization_config = None; " if packed else ""
    code = (
        f"from transformers import {listed}; "
        f"made = [one.from_pretrained({source}{given}) for one in [{listed}]]; "
        f"{plain}[one.save_pretrained({json.dumps(new)}) for one in made]"
    )
    return f"python -c {quoted(code)} && regard import {quoted(new)} --out {quoted(f'runs/{name}')}"


def _damaged(path: Path, error: Exception) -> RunError:
    return RunError(
        f"{path}: damaged, truncated, or not a safetensors file: {abbreviate(str(error))}"
    )


def check_header(path: Path) -> None:
    """Raise a `RunError` unless a safetensors file's header is inside it and not too long."""
    try:
        if not path.is_file():  # opening a pipe would block
            raise FileNotFoundError(ENOENT, "no such regular file")
        with path.open("rb") as file:
            head, size = file.read(8), path.stat().st_size
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}") from None
    if len(head) < 8:
        raise RunError(f"{path}: not a safetensors file, or truncated: it has {size:,} bytes")
    length = struct.unpack("<Q", head)[0]
    if not 0 < length <= min(HEADER_MAX_BYTES, size - 8):
        raise RunError(
            f"{path}: not a safetensors file, or truncated: its header would be {length:,} bytes "
            f"of a file of {size:,}"
        )


def string_token(value: object) -> str | None:
    """The text of a special token in a tokenizer's settings: a string, or an object that has it."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else None
