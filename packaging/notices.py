"""The licences of the crates that are compiled into the binary: most of them ask to be passed on with it."""

import json
import pathlib
import subprocess

NAMES = ("license", "licence", "copying", "copyright", "notice", "unlicense")


def notices(root, arch):
    """One text for all: each licence once, with the crates that have it."""
    command = ["cargo", "metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", f"{arch}-unknown-linux-gnu"]
    metadata = json.loads(subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    texts = {}
    for package in sorted((packages[one] for one in compiled_in(metadata)), key=lambda one: (one["name"], one["version"])):
        name = f"{package['name']} {package['version']} ({package['license']})"
        found = files(pathlib.Path(package["manifest_path"]).parent)
        for text in found or [f"By {', '.join(package['authors'])}; its package has no text of its licence."]:
            texts.setdefault(text, []).append(name)
    line = "-" * 100
    return "".join(f"{', '.join(names)}\n\n{text}\n\n{line}\n\n" for text, names in texts.items()).encode()


def compiled_in(metadata):
    """Crates of others, reached from estop by what is neither for tests nor for build scripts."""
    nodes = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
    ours = {package["id"]: package["name"] for package in metadata["packages"] if not package["source"]}
    reached, waiting = set(), [one for one, name in ours.items() if name == "estop"]
    while waiting:
        if (one := waiting.pop()) not in reached:
            reached.add(one)
            waiting += [dep["pkg"] for dep in nodes[one] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
    return reached - set(ours)


def files(folder):
    """Texts of a crate's licences; those of C code that it brings along are in folders of it."""
    found = (file for pattern in ("*", "*/*", "*/*/*") for file in sorted(folder.glob(pattern)))
    kept = (file for file in found if file.is_file() and file.name.lower().startswith(NAMES) and file.suffix != ".rs")
    return list(dict.fromkeys(file.read_text(errors="replace").strip() for file in kept))
