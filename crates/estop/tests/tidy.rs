//! The rules of the house that a compiler does not know: who may depend on whom, how long a file is, that the
//! documents name what exists. Every failure says what to do.

#[path = "tidy/imports.rs"]
mod imports;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Which crates of ours each crate may use. Arrows only point down (ARCHITECTURE.md).
const ARROWS: &[(&str, &[&str])] = &[
    ("estop-core", &[]),
    ("estop-wire", &["estop-core"]),
    ("estop-journal", &["estop-core"]),
    ("estop-store", &["estop-core", "estop-journal"]),
    // The fake model is what its tests talk to.
    ("estop-gateway", &["estop-core", "estop-journal", "estop-wire", "estop-fake-model"]),
    ("estop-admin", &["estop-core", "estop-journal", "estop-store"]),
    ("estop-notify", &["estop-core", "estop-store"]),
    ("estop-config", &["estop-core", "estop-notify", "estop-wire"]),
    ("estop-supervise", &["estop-config"]),
    (
        "estop-daemon",
        &[
            "estop-admin",
            "estop-config",
            "estop-core",
            "estop-gateway",
            "estop-journal",
            "estop-notify",
            "estop-store",
            "estop-supervise",
            "estop-wire",
        ],
    ),
    (
        "estop-cli",
        &[
            "estop-config",
            "estop-core",
            "estop-fake-model",
            "estop-journal",
            // A test compares its list of alerts.
            "estop-notify",
            "estop-store",
            "estop-supervise",
            "estop-wire",
        ],
    ),
    (
        "estop",
        &[
            "estop-cli",
            "estop-config",
            "estop-daemon",
            "estop-supervise",
            // What its tests look at the running binary with.
            "estop-core",
            "estop-fake-model",
            "estop-journal",
            "estop-store",
            "estop-wire",
        ],
    ),
    // Beside the product: they drive it and are never part of it.
    ("estop-sim", &["estop-core", "estop-journal"]),
    ("estop-fake-model", &[]),
    (
        "estop-bench",
        &["estop-core", "estop-journal", "estop-wire", "estop-sim", "estop-store", "estop-gateway"],
    ),
    ("estop-models", &["estop-core"]),
];

/// All the core may use from outside (docs/decisions/0006).
const CORE_USES: &[&str] = &["serde", "serde_json", "thiserror", "xxhash-rust"];

/// Crates that speak SQL, by the start of their names; they belong into estop-store.
const SQL: &[&str] = &[
    "rusqlite",
    "libsqlite3-sys",
    "sqlx",
    "tokio-postgres",
    "deadpool-postgres",
    "postgres",
    "diesel",
    "sea-",
];

/// The one file of the product outside estop-store that names a store; everything else takes its traits.
const CHOOSES_THE_STORE: &str = "crates/estop-daemon/src/store.rs";

/// At this length look for the seam.
const LINES_MAX: usize = 500;

/// Longer files, each with the reason why it has no seam.
const LONG_FILES: &[(&str, &str)] = &[];

/// Loops of imports that are not cut yet, by crate, and how many files are in the largest. It only grows smaller.
const LOOPS: &[(&str, usize)] = &[];

struct Package {
    name: String,
    /// Name and whether it is for tests only.
    dependencies: Vec<(String, bool)>,
}

#[test]
fn tidy_crates_depend_only_downwards() {
    let mut problems = Vec::new();
    for Package { name, dependencies } in packages() {
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            problems.push(format!(
                "`{name}` is new: give it a place in ARROWS in tidy.rs and in ARCHITECTURE.md."
            ));
            continue;
        };
        let wrong =
            dependencies.iter().filter(|(other, _)| is_ours(other) && !allowed.contains(&other.as_str()));
        problems.extend(wrong.map(|(other, _)| {
            format!("`{name}` must not use `{other}`: arrows only point down. Move the code, or write the new arrow down in docs/decisions/ and in ARROWS.")
        }));
    }
    none(&problems);
}

#[test]
fn tidy_the_core_uses_nothing_but_its_few_crates() {
    let dependencies = package("estop-core").dependencies;
    let wrong =
        dependencies.iter().filter(|(other, for_tests)| !for_tests && !CORE_USES.contains(&other.as_str()));
    none(&each(wrong, |(other, _)| {
        format!(
            "estop-core must not use `{other}`: do it in a crate above, or write a decision like docs/decisions/0006 and add it to CORE_USES."
        )
    }));
}

#[test]
fn tidy_core_and_wire_have_no_runtime() {
    let is_runtime =
        |name: &str| ["tokio", "async-std", "smol"].contains(&name) || name.starts_with("tokio-");
    for pure in ["estop-core", "estop-wire"] {
        let dependencies = package(pure).dependencies;
        let wrong = dependencies.iter().filter(|(other, _)| is_runtime(other));
        none(&each(wrong, |(other, _)| {
            format!(
                "{pure} is pure and must not use `{other}`, not even in tests: move the code to estop-gateway."
            )
        }));
    }
}

#[test]
fn tidy_sql_stays_in_the_store() {
    for Package { name, dependencies } in
        packages().into_iter().filter(|package| package.name != "estop-store")
    {
        let wrong = dependencies.iter().filter(|(other, _)| SQL.iter().any(|sql| other.starts_with(sql)));
        none(&each(wrong, |(other, _)| {
            format!(
                "`{name}` must not use `{other}`: SQL belongs into estop-store, behind one of its traits."
            )
        }));
    }
}

#[test]
fn tidy_one_file_chooses_the_store() {
    let is_product = |file: &String| file.starts_with("crates/") && !file.starts_with("crates/estop-store/");
    let names_one = |file: &String| {
        let text = read(file);
        text.split("\nmod tests {").next().is_some_and(|text| text.contains("Sqlite"))
    };
    let files = source_files().into_iter().filter(|file| !is_test_file(file));
    let found: Vec<String> = files.filter(is_product).filter(names_one).collect();
    assert!(
        found == [CHOOSES_THE_STORE],
        "{found:?} name a store: take `dyn Store` or one of its traits, so that {CHOOSES_THE_STORE} alone chooses it."
    );
}

#[test]
fn tidy_every_dependency_is_explained() {
    let explained = read("docs/dependencies.md");
    let used: BTreeSet<String> =
        packages().into_iter().flat_map(|package| package.dependencies).map(|(name, _)| name).collect();
    let wrong = used.iter().filter(|name| !is_ours(name) && !explained.contains(&format!("| `{name}` |")));
    none(&each(wrong, |name| {
        format!(
            "docs/dependencies.md does not explain `{name}`: add a row \"| `{name}` | version | licence | why | runner-up |\"."
        )
    }));
}

#[test]
fn tidy_files_are_short() {
    let mut problems = Vec::new();
    for file in source_files().into_iter().filter(|file| !is_test_file(file)) {
        let (lines, is_long) =
            (read(&file).lines().count(), LONG_FILES.iter().any(|(long, _)| *long == file));
        if lines > LINES_MAX && !is_long {
            problems.push(format!("{file} has {lines} lines, more than {LINES_MAX}: look for the seam and split it, or add it to LONG_FILES in tidy.rs with the reason why it has none."));
        }
        if lines <= LINES_MAX && is_long {
            problems.push(format!(
                "{file} has {lines} lines and needs no exception: take it off LONG_FILES in tidy.rs."
            ));
        }
    }
    let gone = LONG_FILES.iter().filter(|(file, _)| !root().join(file).is_file());
    problems.extend(gone.map(|(file, _)| format!("{file} is gone: take it off LONG_FILES in tidy.rs.")));
    none(&problems);
}

#[test]
fn tidy_files_say_what_they_are_for() {
    let files = walk();
    let wrong = files.iter().filter(|file| is_rust(file) && !read(file).starts_with("//! "));
    none(&each(wrong, |file| {
        format!(
            "{file} must open with `//!`: one sentence that says what it is for. Attributes come after it."
        )
    }));
}

#[test]
fn tidy_no_files_import_each_other_in_a_loop() {
    let files = source_files();
    let mut problems = Vec::new();
    for krate in files
        .iter()
        .filter_map(|file| file.split_once("/src/").map(|(krate, _)| krate))
        .collect::<BTreeSet<_>>()
    {
        let of_crate =
            |file: &&String| file.strip_prefix(krate).is_some_and(|rest| rest.starts_with("/src/"));
        let texts: Vec<(String, String)> = files
            .iter()
            .filter(of_crate)
            .map(|file| (file[krate.len() + "/src/".len()..].to_owned(), read(file)))
            .collect();
        for looped in imports::loops(&texts) {
            let known = LOOPS.iter().any(|(of, size)| *of == krate && looped.len() <= *size);
            if !known {
                problems.push(format!(
                    "{krate}: {} import each other in a loop: move what they share to a file below them.",
                    looped.join(", ")
                ));
            }
        }
    }
    none(&problems);
}

#[test]
fn tidy_every_proven_requirement_has_its_proof() {
    let names = proof_names();
    let requirements = requirements(&read("docs/requirements.md"));
    assert!(
        requirements.len() >= 70,
        "docs/requirements.md: the tables could not be read, only {} rows",
        requirements.len()
    );
    let mut problems = Vec::new();
    for (id, status) in requirements {
        let prefix = format!("{}_", id.to_lowercase().replace('-', "_"));
        let is_proven = names.iter().any(|name| name.starts_with(&prefix));
        match status.as_str() {
            "not yet" => {}
            "proven" | "partly" if is_proven => {}
            "proven" | "partly" => problems.push(format!(
                "docs/requirements.md says `{id}` is {status}, but no test or scenario has a name that starts with `{prefix}`: write one, or say `not yet`."
            )),
            _ => problems.push(format!("docs/requirements.md: `{id}` is `{status}`; it must be `proven`, `partly` or `not yet`.")),
        }
    }
    none(&problems);
}

#[test]
fn tidy_nothing_is_left_lying_about() {
    // Put together here, so that this file does not find itself.
    let places = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
    let words = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
        concat!("to", "do!"),
        concat!("unimple", "mented!"),
    ];
    let mut problems = Vec::new();
    for file in walk() {
        let Ok(text) = fs::read_to_string(root().join(&file)) else { continue };
        // What recorded agents said is data.
        let is_ours = !file.ends_with(".jsonl");
        for (at, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
            let found = places.iter().filter(|place| line.contains(*place));
            problems.extend(found.map(|place| {
                format!(
                    "{file}:{at}: `{place}` is a path of one machine: name it relative to the repository."
                )
            }));
            let found = words.iter().filter(|word| is_ours && has_word(line, word));
            problems.extend(found.map(|word| {
                format!("{file}:{at}: `{word}` is unfinished work: finish it, or write down what holds today and why.")
            }));
        }
    }
    none(&problems);
}

#[track_caller]
fn none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

fn each<T>(wrong: impl Iterator<Item = T>, message: impl Fn(T) -> String) -> Vec<String> {
    wrong.map(message).collect()
}

/// Packages of this workspace, as cargo sees them.
fn packages() -> Vec<Package> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--no-deps", "--format-version", "1", "--offline"];
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    list(&metadata["packages"]).iter().map(package_of).collect()
}

fn package_of(package: &Value) -> Package {
    let dependency = |d: &Value| (text(&d["name"]), d["kind"] == "dev");
    Package {
        name: text(&package["name"]),
        dependencies: list(&package["dependencies"]).iter().map(dependency).collect(),
    }
}

fn package(name: &str) -> Package {
    let found = packages().into_iter().find(|package| package.name == name);
    found.unwrap_or_else(|| fail(&format!("the workspace has no crate `{name}`")))
}

fn is_ours(name: &str) -> bool {
    name == "estop" || name.starts_with("estop-")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Rows `| ID-1 | status | … |`.
fn requirements(table: &str) -> Vec<(String, String)> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split('|').map(str::trim);
        let (id, status) = (cells.next()?, cells.next()?);
        let (letters, number) = id.split_once('-')?;
        let is_id = letters.len() == 2
            && letters.bytes().all(|b| b.is_ascii_uppercase())
            && number.parse::<u8>().is_ok();
        is_id.then(|| (id.to_owned(), status.to_owned()))
    };
    table.lines().filter_map(row).collect()
}

/// Names of functions and of scenario files.
fn proof_names() -> Vec<String> {
    let mut names = Vec::new();
    let places = walk().into_iter().filter(|file| file.starts_with("crates/") || file.starts_with("sim/"));
    for file in places {
        if is_rust(&file) {
            let source = read(&file);
            let begin = |line: &str| {
                line.trim_start().trim_start_matches("async ").strip_prefix("fn ").map(str::to_owned)
            };
            let functions = source.lines().filter_map(begin);
            names.extend(functions);
        } else {
            names.extend(file.rsplit('/').next().map(str::to_owned));
        }
    }
    names
}

fn has_word(line: &str, word: &str) -> bool {
    let is_edge = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        is_edge(before.chars().next_back()) && (word.ends_with('!') || is_edge(after.chars().next()))
    })
}

/// Rust files under `src` of the crates, the simulator and the benchmarks.
fn source_files() -> Vec<String> {
    walk().into_iter().filter(|file| is_rust(file) && file.contains("/src/")).collect()
}

fn is_rust(file: &str) -> bool {
    file.ends_with(".rs")
}

fn is_test_file(file: &str) -> bool {
    file.ends_with("/tests.rs") || file.contains("/tests/")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file))
        .unwrap_or_else(|error| fail(&format!("cannot read {file}: {error}")))
}

/// Every file of the repository, relative to its root, in order of name; what is built or hidden is left out.
fn walk() -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder of the repository can be listed") {
            let entry = entry.expect("a folder of the repository can be listed");
            let path = folder.join(entry.file_name());
            let name = entry.file_name().to_string_lossy().into_owned();
            let hidden = name.starts_with('.') && name != ".ci";
            let built = ["target", "node_modules", "__pycache__"].contains(&name.as_str());
            if hidden || built {
                continue;
            }
            if path_is_dir(&path) {
                folders.push(path);
            } else {
                files.push(path.to_string_lossy().into_owned());
            }
        }
    }
    files.sort();
    files
}

fn path_is_dir(path: &Path) -> bool {
    root().join(path).is_dir()
}

#[expect(clippy::panic, reason = "a test fails by panicking")]
fn fail(message: &str) -> ! {
    panic!("{message}")
}
