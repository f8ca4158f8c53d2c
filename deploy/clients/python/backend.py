"""Builds the package (PEP 517, PEP 660). It needs nothing but Python, so pip installs the package without an index."""

from __future__ import annotations

import base64
import hashlib
import json
import pathlib
import re
import tarfile
import zipfile
from typing import Any

HERE = pathlib.Path(__file__).parent


def build_wheel(directory: str, settings: object = None, metadata: object = None) -> str:
    source = HERE / "src"
    modules = [p for p in sorted(source.rglob("*")) if p.suffix == ".py" or p.name == "py.typed"]
    return _wheel(directory, {p.relative_to(source).as_posix(): p.read_bytes() for p in modules})


def build_editable(directory: str, settings: object = None, metadata: object = None) -> str:
    return _wheel(directory, {"spendgate.pth": str(HERE / "src").encode()})


def build_sdist(directory: str, settings: object = None) -> str:
    project = _project()
    name = f"{project['name']}-{project['version']}"
    with tarfile.open(pathlib.Path(directory, name + ".tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as out:
        for part in ("pyproject.toml", "backend.py", "README.md", "src"):
            out.add(HERE / part, f"{name}/{part}", filter=lambda entry: None if "__pycache__" in entry.name else entry)
    return name + ".tar.gz"


def _project() -> dict[str, Any]:
    """Reads the table project, whose values are of one line: Python 3.10 has no reader of TOML."""
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    table = text[text.index("\n[project]\n"):].split("\n[")[1]
    return {name: json.loads(value) for name, value in re.findall(r'^([a-z-]+) = ("[^"]*"|\[.*?\])', table, re.MULTILINE)}


def _wheel(directory: str, files: dict[str, bytes]) -> str:
    project = _project()
    name = f"{project['name']}-{project['version']}"
    said = [
        "Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}", f"Summary: {project['description']}",
        f"Requires-Python: {project['requires-python']}", *(f"Requires-Dist: {need}" for need in project["dependencies"]),
        f"License: {project['license']}", "Description-Content-Type: text/markdown", "", (HERE / project["readme"]).read_text(encoding="utf-8"),
    ]
    files[f"{name}.dist-info/METADATA"] = "\n".join(said).encode()
    files[f"{name}.dist-info/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: spendgate\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = f"{name}.dist-info/RECORD"
    rows = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in files.items()]
    files[record] = "\n".join([*rows, record + ",,", ""]).encode()
    wheel = name + "-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(directory, wheel), "w", zipfile.ZIP_DEFLATED) as out:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path)  # the same bytes whenever it is built
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            out.writestr(entry, content)
    return wheel


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
