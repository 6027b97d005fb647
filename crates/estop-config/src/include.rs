//! `include:`: further files that hold agents, beside the file that names them (OB-3).

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use estop_core::ids::Name;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::origin::SourceText;
use super::problem::{Problem, Spot, printable, printable_sentence};
use super::tree::{Key, Node, Step, Value, ValueSource};
use super::values::FilePath;
use super::{ConfigError, FILE_BYTES_MAX, explain, read_tree, text_of, too_large};

/// Files that one configuration includes: enough for one of each agent of a large team.
const FILES_MAX: usize = 1_000;
const AGENTS: &str = "agents";

/// What a file includes, whatever else it says.
#[derive(Default, Deserialize)]
#[serde(default)]
struct IncludeIn {
    include: Vec<FilePath>,
}

/// An included file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct IncludedIn {
    /// Looked at once they are in the configuration.
    #[serde(rename = "agents")]
    _agents: BTreeMap<Name, IgnoredAny>,
}

/// The texts of a configuration with their names: the file itself first, then what it includes.
pub(super) struct Texts(Vec<(String, String)>);

impl Texts {
    /// A text that is in no folder: it can include nothing.
    pub(super) fn alone(text: &str, name: &str) -> Result<Texts, Problem> {
        let texts = Texts(vec![(name.to_owned(), text.to_owned())]);
        let (tree, named) = texts.named()?;
        if named.is_empty() {
            return Ok(texts);
        }
        let message = "include works in a file only: there is no folder here to look in".to_owned();
        Err(Problem::at(name, spot(&tree, text, 0), message))
    }

    /// A file and what it includes.
    pub(super) fn read(path: &Path) -> Result<Texts, ConfigError> {
        let mut texts = Texts(vec![(path.display().to_string(), text_of(path)?)]);
        let mut bytes = texts.0[0].1.len();
        for file in texts.included(path)? {
            let (name, text) = (file.display().to_string(), text_of(&file)?);
            bytes = bytes.saturating_add(text.len());
            if bytes > FILE_BYTES_MAX {
                return Err(Problem::whole_file(&name, too_large()).into());
            }
            texts.0.push((name, text));
        }
        Ok(texts)
    }

    /// Each with its name.
    pub(super) fn all(&self) -> Vec<SourceText<'_>> {
        self.0.iter().map(|(name, text)| SourceText { name, text }).collect()
    }

    /// The file itself, as a tree, and what it names under `include`.
    fn named(&self) -> Result<(Node, Vec<FilePath>), Problem> {
        let (name, text) = &self.0[0];
        let tree = read_tree(text, name)?;
        let read = IncludeIn::deserialize(&tree);
        let read = read.map_err(|refusal| explain::refused(&refusal, &self.all(), &[]))?;
        Ok((tree, read.include))
    }

    /// The files that are included.
    fn included(&self, path: &Path) -> Result<Vec<PathBuf>, Problem> {
        let (tree, named) = self.named()?;
        let mut files = Vec::new();
        for (number, given) in named.iter().enumerate() {
            let found = place(path, given).and_then(|place| files_at(&place));
            let found = found.and_then(|found| {
                files.extend(found);
                if files.len() > FILES_MAX { Err(format!("more than {FILES_MAX} files")) } else { Ok(()) }
            });
            found.map_err(|why| {
                let (name, text) = &self.0[0];
                Problem::at(name, spot(&tree, text, number), printable_sentence(&format!("include: {why}")))
            })?;
        }
        Ok(files)
    }
}

/// The file and all whose change may change what it says, as far as they can be found.
pub(super) fn watched(path: &Path) -> Vec<PathBuf> {
    let mut files = vec![path.to_owned()];
    let named = text_of(path).ok().and_then(|text| {
        let texts = Texts(vec![(String::new(), text)]);
        texts.named().ok()
    });
    for place in named.iter().flat_map(|(_, named)| named).filter_map(|given| place(path, given).ok()) {
        if files.len() > FILES_MAX {
            break;
        }
        // Of a folder, itself too: its time changes when a file comes or goes.
        let in_it = if place.is_dir() { files_at(&place).unwrap_or_default() } else { Vec::new() };
        files.push(place);
        files.extend(in_it);
    }
    files
}

/// Where an entry of `include` leads, as seen from the file's folder.
fn place(file: &Path, given: &FilePath) -> Result<PathBuf, String> {
    if given.0.starts_with('~') {
        return Err(format!(
            "`{}`: `~` is not filled in here; name it from / on, or as seen from this file's folder",
            given.0
        ));
    }
    Ok(file.parent().unwrap_or(Path::new("")).join(&given.0))
}

/// The file, or those of the folder whose names end with `.yaml` or `.yml`, by name.
fn files_at(place: &Path) -> Result<Vec<PathBuf>, String> {
    let name = place.display();
    let about = fs::metadata(place).map_err(|error| {
        let is_missing = error.kind() == ErrorKind::NotFound;
        if is_missing { format!("{name}: no such file or folder") } else { format!("{name}: {error}") }
    })?;
    if !about.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(place).map_err(|error| format!("{name}: {error}"))? {
        let file = entry.map_err(|error| format!("{name}: {error}"))?.path();
        let is_yaml = file.extension().is_some_and(|end| end == "yaml" || end == "yml");
        let is_hidden = file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if is_yaml && !is_hidden {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Where an entry of `include` stands.
fn spot(tree: &Node, text: &str, number: usize) -> Option<Spot> {
    let path = [Step::Key("include".to_owned()), Step::Item(number)];
    match tree.at(&path)?.place {
        ValueSource::Text(_, location) => Some(Spot::of(text, location)),
        ValueSource::Variable(_) | ValueSource::SectionFor(_) => None,
    }
}

/// All texts as one tree: the agents of each beside those of the first.
pub(super) fn tree(texts: &[SourceText<'_>]) -> Result<Node, Problem> {
    let Some((first, included)) = texts.split_first() else { return Ok(Node::nothing()) };
    let mut tree = read_tree(first.text, first.name)?;
    for (number, text) in included.iter().enumerate() {
        let mut read = read_tree(text.text, text.name)
            .map_err(|problem| if text.text.contains(AGENTS) { problem } else { problem.without_text() })?;
        read.stands_in(number + 1);
        let shape = IncludedIn::deserialize(&read);
        shape.map_err(|refusal| {
            let problem = explain::refused(&refusal, texts, &[]);
            problem.with_help(Some(format!("An included file holds `{AGENTS}:` and nothing else.")))
        })?;
        let Value::Mapping(entries) = read.value else { continue };
        for (key, agents) in entries {
            join(&mut tree, key, agents, texts)?;
        }
    }
    Ok(tree)
}

/// Puts agents beside those that are there.
fn join(tree: &mut Node, key: Key, agents: Node, texts: &[SourceText<'_>]) -> Result<(), Problem> {
    if let Value::Nothing = tree.value {
        *tree = Node::made(Value::Mapping(Vec::new()), key.place, "");
    }
    // What is no mapping is refused by its type.
    let Value::Mapping(top) = &mut tree.value else { return Ok(()) };
    let Some((_, here)) = top.iter_mut().find(|(there, _)| there.name == AGENTS) else {
        top.push((key, agents));
        return Ok(());
    };
    if let Value::Nothing = here.value {
        *here = agents;
        return Ok(());
    }
    let (Value::Mapping(here), Value::Mapping(agents)) = (&mut here.value, agents.value) else {
        return Ok(());
    };
    for (name, agent) in agents {
        if let Some((other, _)) = here.iter().find(|(there, _)| there.name == name.name) {
            let message = format!(
                "agent `{}` is in {} too",
                printable(&name.name),
                other.place.in_words(texts).unwrap_or_default()
            );
            let problem = name.place.problem(texts, message);
            return Err(problem.with_help(Some("Leave one of them out.".to_owned())));
        }
        here.push((name, agent));
    }
    Ok(())
}
