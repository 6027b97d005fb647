//! Which file imports which, read from the source: files that import each other in a loop cannot be understood one by one.

use std::collections::{BTreeMap, BTreeSet};

/// The modules of a crate that import each other in a loop, each loop sorted. A module and its own children may: they are one
/// thing in several files. `files` are paths below the crate's `src`, with their texts.
pub(crate) fn loops(files: &[(String, String)]) -> Vec<Vec<String>> {
    let texts: BTreeMap<String, &str> = files
        .iter()
        .map(|(path, text)| (module(path), text.as_str()))
        .filter(|(module, _)| !is_root(module) && !is_test(module))
        .collect();
    let edges: BTreeMap<&str, BTreeSet<&str>> =
        texts.iter().map(|(module, text)| (module.as_str(), imports(module, text, &texts))).collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|module| (*module, reach(module, &edges))).collect();
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for (module, there) in &reached {
        if !there.contains(module) {
            continue;
        }
        let is_back = |other: &&&str| reached.get(**other).is_some_and(|back| back.contains(module));
        let looped: Vec<&str> = there.iter().filter(is_back).copied().collect();
        let is_family = looped
            .iter()
            .any(|top| looped.iter().all(|other| other == top || other.starts_with(&format!("{top}::"))));
        if !is_family {
            found.insert(looped.into_iter().map(str::to_owned).collect());
        }
    }
    found.into_iter().collect()
}

fn module(path: &str) -> String {
    path.trim_end_matches(".rs").replace('/', "::")
}

fn is_root(module: &str) -> bool {
    matches!(module, "lib" | "main")
}

fn is_test(module: &str) -> bool {
    module.split("::").any(|part| part == "tests")
}

/// Everything that can be reached from a module by one import or more.
fn reach<'m>(from: &str, edges: &BTreeMap<&'m str, BTreeSet<&'m str>>) -> BTreeSet<&'m str> {
    let mut seen = BTreeSet::new();
    let mut next: Vec<&str> = edges.get(from).into_iter().flatten().copied().collect();
    while let Some(module) = next.pop() {
        if seen.insert(module) {
            next.extend(edges.get(module).into_iter().flatten());
        }
    }
    seen
}

/// The modules that a file names: in `use`, and wherever else a path begins with `crate::` or `super::`.
fn imports<'m>(module: &str, text: &str, all: &'m BTreeMap<String, &str>) -> BTreeSet<&'m str> {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = product.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut paths = Vec::new();
    let mut at = 0;
    for line in code.split_inclusive('\n') {
        let begun = line.trim_start();
        let tree = begun
            .split_once("use ")
            .filter(|(before, _)| before.is_empty() || before.starts_with("pub") && before.ends_with(' '));
        if let Some((before, _)) = tree {
            let start = at + (line.len() - begun.len()) + before.len() + "use ".len();
            let end = code[start..].find(';').unwrap_or_default();
            expand("", &code[start..start + end].replace(char::is_whitespace, ""), &mut paths);
        }
        at += line.len();
    }
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for (at, _) in code.match_indices("crate::").chain(code.match_indices("super::")) {
        if !code[..at].ends_with(is_path) {
            paths.push(code[at..].chars().take_while(|c| is_path(*c)).collect());
        }
    }
    // A module uses its children, by names that need no path.
    let children = code.lines().filter_map(|line| line.trim().strip_suffix(';')?.split_once("mod "));
    paths.extend(children.map(|(_, child)| format!("self::{child}")));
    paths.iter().filter_map(|path| resolve(module, path, all)).filter(|other| *other != module).collect()
}

/// The paths of a `use` tree.
fn expand(before: &str, tree: &str, paths: &mut Vec<String>) {
    let Some(open) = tree.find('{') else {
        return paths.push(format!("{before}{tree}"));
    };
    let inside = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let before = format!("{before}{}", &tree[..open]);
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inside.char_indices().chain([(inside.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if at > start {
                    expand(&before, &inside[start..at], paths);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The module a path leads to: the longest part of it that is one.
fn resolve<'m>(from: &str, path: &str, all: &'m BTreeMap<String, &str>) -> Option<&'m str> {
    let mut parts: Vec<&str> = from.split("::").collect();
    let mut rest = path;
    if let Some(of_crate) = rest.strip_prefix("crate::") {
        parts.clear();
        rest = of_crate;
    } else if let Some(own) = rest.strip_prefix("self::") {
        rest = own;
    } else {
        while let Some(up) = rest.strip_prefix("super::") {
            parts.pop();
            rest = up;
        }
    }
    parts.extend(rest.split("::"));
    (1..=parts.len())
        .rev()
        .find_map(|length| all.get_key_value(&parts[..length].join("::")))
        .map(|(m, _)| m.as_str())
}

#[test]
fn tidy_a_loop_is_found_and_a_family_is_none() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let files = [
        file("lib.rs", "mod a;"),
        file("a.rs", "use crate::b::{c::D, E};"),
        file("b.rs", "mod c;\n// use crate::a::X;\nuse c::D;"),
        file("b/c.rs", "use super::E;\nfn f() { crate::a::g(); }"),
        file("d.rs", "use super::{F, e};"),
        file("e.rs", "fn f() { super::d::g(); }"),
        file("family.rs", "mod child;\nuse child::A;"),
        file("family/child.rs", "use super::B;"),
    ];
    assert_eq!(loops(&files), [vec!["a", "b", "b::c"], vec!["d", "e"]]);
}
