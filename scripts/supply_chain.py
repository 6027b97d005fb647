#!/usr/bin/env python3
"""Checks what is compiled into estop, without a network: where crates come from, under which licences, and how old they are.

Reads Cargo.lock, `cargo metadata --offline`, deny.toml (licences, sources, bans) and security/min-versions.toml (floors).
Exits 1 and says what to do if something does not hold. `--self-test` also breaks each rule once and expects to be told."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def load(name):
    return tomllib.loads((ROOT / name).read_text())


def host():
    said = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    return re.search(r"^host: (.*)$", said, re.M).group(1)


def metadata():
    command = ["cargo", "metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", host()]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"cargo metadata failed; build once first, so that every crate is on this machine:\n{ran.stderr}")
    return json.loads(ran.stdout)["packages"]


def version(text):
    """A version as numbers; what comes before a release is below it."""
    core, _, before = text.split("+")[0].partition("-")
    return [int(part) for part in core.split(".")], not before


def licence_fits(expression, allowed):
    """Whether one of the alternatives of an SPDX expression is allowed as a whole. `/` is the old way to write OR."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    at = 0

    def alternatives():
        nonlocal at
        fits = parts()
        while at < len(tokens) and tokens[at] == "OR":
            at += 1
            other = parts()
            fits = fits or other
        return fits

    def parts():
        nonlocal at
        fits = one()
        while at < len(tokens) and tokens[at] == "AND":
            at += 1
            other = one()
            fits = fits and other
        return fits

    def one():
        nonlocal at
        if at >= len(tokens):
            raise ValueError(expression)
        token = tokens[at]
        at += 1
        if token == "(":
            fits = alternatives()
            if at >= len(tokens) or tokens[at] != ")":
                raise ValueError(expression)
            at += 1
            return fits
        if at + 1 < len(tokens) and tokens[at] == "WITH":
            token = f"{token} WITH {tokens[at + 1]}"
            at += 2
        return token in allowed

    try:
        fits = alternatives()
    except ValueError:
        return False
    return fits and at == len(tokens)


def check(lock, packages, deny, floors):
    problems = []
    registries = {f"registry+{url}" for url in deny["sources"]["allow-registry"]}
    banned = {entry["crate"]: entry["reason"] for entry in deny["bans"]["deny"]}
    allowed = set(deny["licenses"]["allow"])
    for package in lock["package"]:
        name = f"{package['name']} {package['version']}"
        source = package.get("source")
        if source is None:
            if not package["name"].startswith("estop"):
                problems.append(f"{name} comes from a folder: take it from crates.io")
            continue
        if source not in registries:
            problems.append(f"{name} comes from {source}: only {', '.join(sorted(registries))} is allowed")
        if not re.fullmatch(r"[0-9a-f]{64}", package.get("checksum", "")):
            problems.append(f"{name} has no checksum in Cargo.lock")
        if package["name"] in banned:
            problems.append(f"{name} is banned: {banned[package['name']]}")
    for package in packages:
        if package["source"] is None:
            continue
        licence = package["license"]
        if not licence or not licence_fits(licence, allowed):
            problems.append(
                f"{package['name']} {package['version']} has the licence {licence or 'none'}: not in deny.toml. "
                "Look for another crate, or add the licence there with a word why"
            )
    versions = {}
    for package in lock["package"]:
        versions.setdefault(package["name"], []).append(package["version"])
    for name, floor in floors["crates"].items():
        if set(floor) != {"min", "required", "why"}:
            problems.append(f"security/min-versions.toml: {name} needs exactly min, required and why")
            continue
        found = versions.get(name, [])
        if not found and floor["required"]:
            problems.append(f"{name} must be in Cargo.lock and is not: if another crate took its place, give that one a floor")
        for one in found:
            if version(one) < version(floor["min"]):
                problems.append(f"{name} {one} is below {floor['min']} ({floor['why']}): cargo update -p {name}")
    return problems


def self_test(lock, packages, deny, floors):
    def broken(what, change):
        copies = json.loads(json.dumps([lock, packages, deny, floors]))
        change(*copies)
        if not check(*copies):
            sys.exit(f"the check does not notice: {what}")

    def first(lock, name):
        return next(package for package in lock["package"] if package["name"] == name)

    foreign = next(package["name"] for package in packages if package["source"])
    broken("a git source", lambda l, p, d, f: first(l, foreign).update(source="git+https://example.com/x"))
    broken("another registry", lambda l, p, d, f: first(l, foreign).update(source="registry+https://example.com/i"))
    broken("a crate of a folder", lambda l, p, d, f: first(l, foreign).pop("source"))
    broken("no checksum", lambda l, p, d, f: first(l, foreign).pop("checksum"))
    broken("a licence", lambda l, p, d, f: next(x for x in p if x["name"] == foreign).update(license="GPL-3.0"))
    broken("no licence", lambda l, p, d, f: next(x for x in p if x["name"] == foreign).update(license=None))
    broken("a ban", lambda l, p, d, f: d["bans"]["deny"].append({"crate": foreign, "reason": "test"}))
    broken("an old version", lambda l, p, d, f: first(l, "rustls").update(version="0.23.45"))
    broken("a version before a release", lambda l, p, d, f: first(l, "rustls").update(version="0.23.46-rc.1"))
    broken("an old one beside a new one", lambda l, p, d, f: l["package"].append(first(l, "rustls") | {"version": "0.20.0"}))
    broken("a crate that must be there", lambda l, p, d, f: l.update(package=[x for x in l["package"] if x["name"] != "h2"]))
    broken("a floor without a reason", lambda l, p, d, f: f["crates"]["h2"].pop("why"))
    for expression, fits in [
        ("MIT", True), ("MIT/Apache-2.0", True), ("GPL-3.0 OR MIT", True), ("GPL-3.0 AND MIT", False),
        ("(GPL-3.0 OR MIT) AND ISC", True), ("Apache-2.0 WITH LLVM-exception", True), ("MIT AND (", False), ("", False),
        ("GPL-2.0 WITH Classpath-exception-2.0", False), ("MIT ISC", False),
    ]:
        if licence_fits(expression, set(deny["licenses"]["allow"])) != fits:
            sys.exit(f"the check reads the licence {expression!r} wrong")


def main():
    inputs = load("Cargo.lock"), metadata(), load("deny.toml"), load("security/min-versions.toml")
    problems = check(*inputs)
    if problems:
        sys.exit("\n".join(problems))
    if "--self-test" in sys.argv[1:]:
        self_test(*inputs)
    print(f"{len(inputs[0]['package'])} crates: sources, licences and {len(inputs[3]['crates'])} floors hold")


if __name__ == "__main__":
    main()
