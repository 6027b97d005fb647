//! Hooks inside a settings file that is not ours alone: adds our entries, and takes exactly them out again.
//!
//! The shape is the same everywhere: `{"hooks": {"<event>": [<entry>, …]}}`. An entry of ours is recognised by its
//! command, which ends in [`super::mark`]'s words.

use estop_wire::hooks::HookClient;

use super::jsonc::{self, Node, Value};
use super::{Removed, SettingsError, is_marked};

/// A settings file can be this large; ours are a few kilobytes.
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What we add to one file.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    pub(super) client: HookClient,
    /// What a new file has beside the hooks.
    pub(super) template: &'static str,
    /// For each event, the entry as it is written.
    pub(super) entries: Vec<(&'static str, String)>,
    /// A switch that must be on for the hooks to run, if it is not there: object, key, value.
    pub(super) switch: Option<(&'static str, &'static str, &'static str)>,
}

impl Entries {
    pub(super) fn add(&self, existing: Option<&str>) -> Result<String, SettingsError> {
        let text = existing.filter(|text| !is_blank(text)).unwrap_or(self.template);
        let root = read(text)?;
        if self.is_there(text, &root) {
            return Ok(text.to_owned());
        }
        let mut text = self.without_ours(text.to_owned())?;
        if let Some((object, key, value)) = self.switch {
            text = with_switch(text, object, key, value)?;
        }
        for (event, entry) in &self.entries {
            text = with_entry(&text, event, entry)?;
        }
        Ok(text)
    }

    pub(super) fn remove(&self, existing: &str) -> Result<Removed, SettingsError> {
        if is_blank(existing) {
            return Ok(Removed::Unchanged);
        }
        let text = self.without_ours(existing.to_owned())?;
        let is_only = |template: &str| text.trim() == template.trim() || is_blank_object(&text);
        Ok(match text == existing {
            true => Removed::Unchanged,
            false if is_only(self.template) => Removed::Delete,
            false => Removed::Text(text),
        })
    }

    /// All entries are there as we would write them, and none beside.
    fn is_there(&self, text: &str, root: &Node) -> bool {
        let events = root.get("hooks");
        let one = |(event, entry): &(&str, String)| {
            let Some(Value::Array(list)) = events.and_then(|e| e.get(event)).map(|list| &list.value) else {
                return false;
            };
            let ours: Vec<&Node> = list.iter().filter(|node| has_mark(node, self.client)).collect();
            matches!(ours.as_slice(), [node] if text.get(node.span.clone()) == Some(entry.as_str()))
        };
        let switched = self
            .switch
            .is_none_or(|(object, key, _)| root.get(object).is_some_and(|object| object.get(key).is_some()));
        switched && self.entries.iter().all(one)
    }

    /// The text without our entries, and without what they alone filled.
    fn without_ours(&self, mut text: String) -> Result<String, SettingsError> {
        // Each round takes one out.
        loop {
            let root = read(&text)?;
            let Some(path) = root.get("hooks").and_then(|_| path_to_ours(&root, self.client)) else {
                return Ok(text);
            };
            text = cut(&text, &root, &path);
        }
    }
}

/// The way to one of our hooks below `hooks`: which child at each level.
fn path_to_ours(root: &Node, client: HookClient) -> Option<Vec<usize>> {
    let Value::Object(members) = &root.value else { return None };
    let nth = members.iter().rposition(|member| member.key == "hooks")?;
    let mut path = vec![nth];
    find(&members[nth].node, client, &mut path).then_some(path)
}

fn find(node: &Node, client: HookClient, path: &mut Vec<usize>) -> bool {
    let children: Vec<&Node> = match &node.value {
        Value::Object(members) => members.iter().map(|member| &member.node).collect(),
        Value::Array(nodes) => nodes.iter().collect(),
        Value::Text(_) | Value::Plain => return false,
    };
    if is_ours(node, client) {
        return true;
    }
    for (nth, child) in children.into_iter().enumerate() {
        path.push(nth);
        if find(child, client, path) {
            return true;
        }
        path.pop();
    }
    false
}

/// A hook of ours itself: an object with our command.
fn is_ours(node: &Node, client: HookClient) -> bool {
    node.get("command").and_then(Node::text).is_some_and(|command| is_marked(command, client))
}

fn has_mark(node: &Node, client: HookClient) -> bool {
    find(node, client, &mut Vec::new())
}

/// Cuts out what the path leads to, or the largest thing around it that holds nothing else: the list of hooks, its
/// entry (whose other keys only say when it runs), the event, `hooks` itself.
fn cut(text: &str, root: &Node, path: &[usize]) -> String {
    let mut parents = vec![root];
    for nth in path {
        let Some(next) = parents.last().and_then(|node| child(node, *nth)) else { return text.to_owned() };
        parents.push(next);
    }
    // The last one is the hook itself.
    let mut level = path.len() - 1;
    while level > 0 && holds_nothing_else(parents[level]) {
        level -= 1;
    }
    jsonc::remove(text, parents[level], path[level])
}

/// Whether it goes with its one child.
fn holds_nothing_else(node: &Node) -> bool {
    match &node.value {
        Value::Array(nodes) => nodes.len() == 1,
        // An entry around a list of hooks; or an object of events.
        Value::Object(members) => {
            members.len() == 1
                || members.iter().all(|m| ["matcher", "sequential", "hooks"].contains(&m.key.as_str()))
        }
        Value::Text(_) | Value::Plain => false,
    }
}

fn child(node: &Node, nth: usize) -> Option<&Node> {
    match &node.value {
        Value::Object(members) => members.get(nth).map(|member| &member.node),
        Value::Array(nodes) => nodes.get(nth),
        Value::Text(_) | Value::Plain => None,
    }
}

fn with_switch(text: String, object: &str, key: &str, value: &str) -> Result<String, SettingsError> {
    let root = read(&text)?;
    match root.get(object) {
        Some(inner) if inner.get(key).is_some() => Ok(text),
        Some(inner) if matches!(inner.value, Value::Object(_)) => {
            Ok(jsonc::append(&text, inner, &format!("\"{key}\": {value}")))
        }
        Some(_) => Err(SettingsError::Shape { key: object.to_owned(), expected: "an object" }),
        None => Ok(jsonc::append(&text, &root, &format!("\"{object}\": {{\"{key}\": {value}}}"))),
    }
}

fn with_entry(text: &str, event: &str, entry: &str) -> Result<String, SettingsError> {
    let root = read(text)?;
    let shape = |key: String, expected| Err(SettingsError::Shape { key, expected });
    match root.get("hooks") {
        None => with_entry(&jsonc::append(text, &root, "\"hooks\": {}"), event, entry),
        Some(hooks) if !matches!(hooks.value, Value::Object(_)) => shape("hooks".to_owned(), "an object"),
        Some(hooks) => match hooks.get(event) {
            None => Ok(jsonc::append(text, hooks, &format!("\"{event}\": [{entry}]"))),
            Some(list) if !matches!(list.value, Value::Array(_)) => shape(format!("hooks.{event}"), "a list"),
            Some(list) => Ok(jsonc::append(text, list, entry)),
        },
    }
}

/// The tree of a settings file, which must be an object.
pub(super) fn read(text: &str) -> Result<Node, SettingsError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(SettingsError::TooLarge { bytes: text.len() });
    }
    let root = jsonc::parse(text).map_err(|broken| SettingsError::Broken {
        line: text.get(..broken.at).unwrap_or_default().matches('\n').count() + 1,
        what: broken.what,
    })?;
    match root.value {
        Value::Object(_) => Ok(root),
        Value::Array(_) | Value::Text(_) | Value::Plain => {
            Err(SettingsError::Shape { key: "the file".to_owned(), expected: "an object" })
        }
    }
}

fn is_blank(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim().is_empty()
}

fn is_blank_object(text: &str) -> bool {
    text.chars().filter(|c| !c.is_whitespace()).eq("{}".chars())
}
