#!/usr/bin/env python3
"""Checks the code itself: layer arrows, who may include or call what, self-contained headers, generated docs, words that have
no place here. Prints one line a finding, "file:line: rule: what"; exit status 1 when there is one.

    tidy.py ROOT                                  the rules that only read
    tidy.py ROOT --headers --compiler g++         also compiles every header alone
    tidy.py ROOT --generated docs/a.md COMMAND    also compares a file with what the command prints (repeatable)
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys

TOPS = ("allocator", "api", "cmake", "docs", "mpi_examples", "runtime", "tests", "tools", "transport")
CODE = (".c", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".def")
TEXT = CODE + (".txt", ".cmake", ".md", ".py", ".sh", "")

# Directory -> the directories it may include from, besides itself. The longest matching prefix counts.
BASE = ("runtime/base",)
SIDE = ("runtime/base", "runtime/coherence", "runtime/memory", "runtime/device", "transport", "allocator")
MIDDLE = SIDE + ("runtime/engine",)
API = MIDDLE + ("runtime/weights", "runtime/sync", "runtime/membership", "farpage")
ANY = API + ("api",)
LAYERS = {
    "runtime/base": (),
    "runtime/coherence": BASE,
    "runtime/memory": BASE,
    "runtime/device": BASE,
    "transport": BASE,
    "allocator": BASE,
    "runtime/engine": SIDE,
    "runtime/weights": MIDDLE,
    "runtime/sync": MIDDLE,
    "runtime/membership": MIDDLE,
    "api": API,
    "mpi_examples": ("farpage",),
    "tools": ANY,
    "tests": ANY + ("tools", "mpi_examples"),
}
LIBRARY = ("allocator/", "api/", "runtime/", "transport/")

# Rule, what must not match, where it counts, where it may.
SYSTEM_HEADERS = (
    ("mpi", re.compile(r"mpi\.h$"), LIBRARY, re.compile(r"^transport/bootstrap_mpi\.cpp$")),
    ("ucx", re.compile(r"^(ucp|ucs|uct|ucm)/"), LIBRARY,
     re.compile(r"^transport/(?!(transport|bootstrap|ucx_transport|launcher)\.hpp$)")),  # not what other layers include
    ("cuda", re.compile(r"^(cuda|cuda_runtime|cuda_runtime_api|nvml)\.h$"), LIBRARY, re.compile(r"^(runtime/device|transport)/")),
)
GETENV = re.compile(r"\b(secure_getenv|getenv|setenv|putenv|unsetenv)\s*\(")
GETENV_IN = "runtime/base/options.cpp"
WORDS = re.compile(r"\b(TODO|FIXME|XXX|HACK|placeholder)\b|\bfor now\b", re.IGNORECASE)
PATHS = re.compile(r"(^|[\s\"'`=(])/(root|home|work)/")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def files_of(root):
    """Paths below root, '/'-separated, of everything the rules read."""
    found = []
    for top in TOPS:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
            for name in sorted(names):
                if os.path.splitext(name)[1] in TEXT:
                    found.append(os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/"))
    found += [name for name in sorted(os.listdir(root)) if os.path.splitext(name)[1] in (".md", ".txt")]
    return found


def layer_of(path):
    best = max((layer for layer in LAYERS if path.startswith(layer + "/")), key=len, default=None)
    return best


def check_include(root, path, number, kind, name, findings):
    beside = path.rsplit("/", 1)[0] + "/" + name
    if kind == '"' and os.path.exists(os.path.join(root, beside)):
        name = beside
    if kind == "<":
        for rule, header, where, allowed in SYSTEM_HEADERS:
            if header.search(name) and path.startswith(where) and not allowed.search(path):
                findings.append(f"{path}:{number}: {rule}: <{name}> may not be included here")
    layer = layer_of(path)
    if layer is None:
        return
    target = layer_of(name) if kind == '"' else None
    if name.startswith("farpage/"):
        target = "farpage"
    if kind == '"' and target is None and "/" in name:
        findings.append(f'{path}:{number}: layers: "{name}" is in no layer')
    if target is not None and target != layer and target not in LAYERS[layer]:
        findings.append(f"{path}:{number}: layers: {layer} may not include {target} ({name})")


def check_code(root, path, lines, findings):
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match:
            check_include(root, path, number, match[1], match[2], findings)
        code = line.split("//", 1)[0]
        if GETENV.search(code) and path.startswith(LIBRARY) and path != GETENV_IN:
            findings.append(f"{path}:{number}: getenv: only {GETENV_IN} touches the environment")


def check_header(path, lines, findings):
    if not lines or not lines[0].startswith(("//", "/*")):
        findings.append(f"{path}:1: opening: a header begins by saying what it is")
    if not any(line.startswith(("#pragma once", "#ifndef FARPAGE_")) for line in lines):
        findings.append(f"{path}:1: guard: no #pragma once")


def check_words(path, lines, findings):
    for number, line in enumerate(lines, 1):
        for rule, pattern in (("words", WORDS), ("paths", PATHS)):
            match = pattern.search(line)
            if match:
                findings.append(f"{path}:{number}: {rule}: '{match[0].strip()}'")


def check_links(root, path, lines, findings):
    """A link to a file of the tree leads somewhere."""
    folder = os.path.dirname(os.path.join(root, path))
    for number, line in enumerate(lines, 1):
        for target in LINK.findall(line):
            if "://" not in target and not os.path.exists(os.path.join(folder, target)):
                findings.append(f"{path}:{number}: links: there is no {target}")


def check_built(root, paths, findings):
    """A source that no CMakeLists.txt names is dead."""
    lists = {path: "\n".join(read_lines(os.path.join(root, path))) for path in paths if path.endswith("CMakeLists.txt")}
    for path in paths:
        if not path.endswith((".cpp", ".c", ".cu")):
            continue
        folder, named = path, False
        while "/" in folder and not named:
            folder = folder.rsplit("/", 1)[0]
            text = lists.get(folder + "/CMakeLists.txt", "")
            inside = path[len(folder) + 1 :]
            stem = re.escape(inside.rsplit(".", 1)[0])
            named = re.search(r"(^|[\s(\"/])" + re.escape(inside) + r"($|[\s)\"])", text) is not None
            # A list of names that a foreach turns into targets.
            named = named or ("foreach" in text and re.search(r"(^|[\s(])" + stem + r"($|[\s)])", text) is not None)
        if not named:
            findings.append(f"{path}:1: built: no CMakeLists.txt names it")


def compile_header(root, path, compiler, flags):
    language = ["-x", "c", "-std=c11"] if path.endswith(".h") else ["-x", "c++", "-std=c++20"]
    command = [compiler, "-fsyntax-only", "-w", "-D_GNU_SOURCE", "-I" + root, "-I" + os.path.join(root, "api/include")]
    done = subprocess.run(command + flags + language + [os.path.join(root, path)], capture_output=True, text=True)
    return path, done.returncode, done.stderr


def check_headers_alone(root, paths, compiler, flags, findings):
    # mpi_examples are built against the installed headers only and have none of their own that others include.
    headers = [path for path in paths if path.endswith((".h", ".hpp")) and not path.startswith("mpi_examples/")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, status, text in pool.map(lambda header: compile_header(root, header, compiler, flags), headers):
            if status != 0:
                first = next((line for line in text.splitlines() if "error" in line), text.strip())
                findings.append(f"{path}:1: self-contained: {first}")


def check_generated(root, path, command, findings):
    printed = subprocess.run(command.split(), capture_output=True, text=True, check=True).stdout
    try:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            stored = file.read()
    except FileNotFoundError:
        stored = ""
    # A generator prints a whole file, or a part that must stand in the file as it is.
    if printed != stored and (not printed.strip() or printed not in stored):
        findings.append(f"{path}:1: generated: differs from what `{command}` prints")


def run(root, compiler=None, flags=(), generated=()):
    findings = []
    paths = files_of(root)
    for path in paths:
        lines = read_lines(os.path.join(root, path))
        if path.endswith(CODE):
            check_code(root, path, lines, findings)
        if path.endswith((".h", ".hpp", ".cuh")):
            check_header(path, lines, findings)
        if path.endswith(".md"):
            check_links(root, path, lines, findings)
        if not path.startswith("tests/tidy/"):
            check_words(path, lines, findings)
    check_built(root, paths, findings)
    if compiler:
        check_headers_alone(root, paths, compiler, list(flags), findings)
    for path, command in generated:
        check_generated(root, path, command, findings)
    return findings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root")
    parser.add_argument("--headers", action="store_true")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--flag", action="append", default=[], help="for the compiler, such as --flag=-I/opt/include")
    parser.add_argument("--generated", nargs=2, action="append", default=[], metavar=("FILE", "COMMAND"))
    options = parser.parse_args()
    findings = run(options.root, options.compiler if options.headers else None, options.flag, options.generated)
    for finding in findings:
        print(finding)
    print(f"tidy: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
