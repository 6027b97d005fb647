//! MCP servers in a client's settings: put behind the gate (TL-3), and taken from behind it again.
//!
//! A server that is a command gets `estop mcp … --` put before it; one that is a URL gets the gate's, if estop knows the
//! server. Only these words change; undone, the text is the same to the last space.

use std::ops::Range;

use serde_json::json;

use super::entries;
use super::jsonc::{Node, Value};
use super::mcp_toml;
use super::{HookClient, Removed, Scope, SettingsError, UnsupportedScope};
use crate::clients::{Descriptor, McpForm, McpPaths};

/// Written behind our options: what stands before it is ours, what follows is the server's command.
pub(super) const MARK: [&str; 2] = ["--installed", "--"];

/// A file with MCP servers.
#[derive(Clone, Copy, Debug)]
pub struct McpLocation {
    /// As in [`super::Target::path`].
    pub path: &'static str,
    form: McpForm,
}

/// What became of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpEntry {
    /// Its name.
    pub name: String,
    /// What became of it.
    pub outcome: McpOutcome,
}

/// What became of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpOutcome {
    /// It is behind the gate now.
    Gated,
    /// It was behind the gate already.
    Already,
    /// It is a URL that estop's configuration does not name.
    UnknownUrl(String),
    /// It has neither a command nor a URL we know how to speak to.
    Unreadable,
}

/// How servers are put behind the gate.
pub struct McpGate<'a> {
    /// estop's path, `mcp` and options.
    pub words: &'a [String],
    /// Only this server.
    pub only: Option<&'a str>,
    /// The gate's URL for a server of this name and URL, if estop knows it.
    pub url: &'a dyn Fn(&str, &str) -> Option<String>,
    /// The URL of a server whose URL is the gate's.
    pub behind: &'a dyn Fn(&str, &str) -> Option<String>,
}

/// The files with a client's MCP servers.
pub fn mcp_locations(client: HookClient, scope: Scope) -> Result<Vec<McpLocation>, UnsupportedScope> {
    let place = |mcp: &McpPaths| match scope {
        Scope::User => Some(McpLocation { path: mcp.user?, form: mcp.user_form }),
        Scope::Project => Some(McpLocation { path: mcp.project?, form: mcp.project_form }),
        Scope::System => None,
    };
    let found = Descriptor::of(client).and_then(|descriptor| place(&descriptor.mcp));
    found.map(|place| vec![place]).ok_or(UnsupportedScope { client, scope })
}

impl McpLocation {
    /// The file with its servers behind the gate.
    pub fn add(&self, text: &str, gate: &McpGate<'_>) -> Result<(String, Vec<McpEntry>), SettingsError> {
        match self.form {
            McpForm::Toml => mcp_toml::add(text, gate),
            McpForm::Json { under, url } => {
                let root = entries::read(text)?;
                let (mut edits, mut all) = (Vec::new(), Vec::new());
                for (name, node) in servers(&root, under).into_iter().filter(|(name, _)| gate.takes(name)) {
                    let outcome = add_json(text, name, node, url, gate, &mut edits);
                    all.push(McpEntry { name: name.to_owned(), outcome });
                }
                Ok((edited(text, edits), all))
            }
        }
    }

    /// The file with its servers as they were.
    pub fn remove(&self, text: &str, gate: &McpGate<'_>) -> Result<Removed, SettingsError> {
        let after = match self.form {
            McpForm::Toml => mcp_toml::remove(text, gate)?,
            McpForm::Json { under, url } => {
                let root = entries::read(text)?;
                let mut edits = Vec::new();
                for (name, node) in servers(&root, under).into_iter().filter(|(name, _)| gate.takes(name)) {
                    remove_json(text, name, node, url, gate, &mut edits);
                }
                edited(text, edits)
            }
        };
        Ok(if after == text { Removed::Unchanged } else { Removed::Text(after) })
    }

    /// The servers whose command is behind the gate, each with the estop that is started for it.
    pub fn programs(&self, text: &str) -> Result<Vec<(String, String)>, SettingsError> {
        let McpForm::Json { under, .. } = self.form else { return mcp_toml::programs(text) };
        let root = entries::read(text)?;
        let program = |(name, node): (&str, &Node)| {
            let command = node.get("command")?;
            let first =
                if command.text().is_some() { std::slice::from_ref(command) } else { elements(command) };
            let args = node.get("args").map(elements).unwrap_or_default();
            let words: Vec<Option<&str>> = first.iter().chain(args).map(Node::text).collect();
            own_begins(words.iter().copied())?;
            Some((name.to_owned(), words.first().copied().flatten()?.to_owned()))
        };
        Ok(servers(&root, under).into_iter().filter_map(program).collect())
    }
}

impl McpGate<'_> {
    pub(super) fn takes(&self, name: &str) -> bool {
        self.only.is_none_or(|only| only == name)
    }

    /// The words before a server's command, without estop itself.
    pub(super) fn options(&self, name: &str) -> Vec<String> {
        let ours = self.words.iter().skip(1).cloned();
        ours.chain(["--server", name, MARK[0], MARK[1]].map(str::to_owned)).collect()
    }

    pub(super) fn program(&self) -> &str {
        self.words.first().map_or("estop", String::as_str)
    }
}

/// Whether a command is ours, and at which of its arguments the server's own begins.
pub(super) fn own_begins<'w>(words: impl IntoIterator<Item = Option<&'w str>>) -> Option<usize> {
    let words: Vec<Option<&str>> = words.into_iter().collect();
    let program = words.first().copied().flatten()?;
    let is_ours = program.rsplit('/').next() == Some("estop") && words.get(1) == Some(&Some("mcp"));
    let mark = words.windows(2).position(|two| *two == MARK.map(Some))?;
    (is_ours && words.len() > mark + 2).then_some(mark + 2)
}

/// Every server under these keys.
fn servers<'n>(root: &'n Node, under: &[&[&str]]) -> Vec<(&'n str, &'n Node)> {
    let mut found = Vec::new();
    for path in under {
        let mut nodes = vec![root];
        for key in *path {
            nodes = nodes.iter().flat_map(|node| children(node, key)).map(|(_, node)| node).collect();
        }
        found.extend(nodes.iter().flat_map(|node| children(node, "*")));
    }
    found
}

fn children<'n>(node: &'n Node, key: &str) -> Vec<(&'n str, &'n Node)> {
    let Value::Object(members) = &node.value else { return Vec::new() };
    let fits = |name: &str| key == "*" || name == key;
    members.iter().filter(|m| fits(&m.key)).map(|m| (m.key.as_str(), &m.node)).collect()
}

type Edits = Vec<(Range<usize>, String)>;

/// The text with all edits, none of which overlap.
fn edited(text: &str, mut edits: Edits) -> String {
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut text = text.to_owned();
    for (range, new) in edits {
        text.replace_range(range, &new);
    }
    text
}

fn quoted(words: &[String]) -> String {
    words.iter().map(|word| json!(word).to_string()).collect::<Vec<_>>().join(", ")
}

fn add_json(
    text: &str,
    name: &str,
    node: &Node,
    url: &str,
    gate: &McpGate<'_>,
    edits: &mut Edits,
) -> McpOutcome {
    let raw = |node: &Node| text.get(node.span.clone()).unwrap_or_default().to_owned();
    let inside = |list: &Node| list.span.start + 1..list.span.start + 1;
    match (node.get("command"), node.get("args")) {
        (Some(command), args) if command.text().is_some() => {
            // Before the first edit: half of them would start estop alone, and lose the server's command.
            let is_null = |args: &Node| matches!(args.value, Value::Plain) && raw(args) == "null";
            if args.is_some_and(|args| !matches!(args.value, Value::Array(_)) && !is_null(args)) {
                return McpOutcome::Unreadable;
            }
            let list = args.map(elements).unwrap_or_default();
            if own_begins([command].into_iter().chain(list.iter()).map(|node| node.text())).is_some() {
                return McpOutcome::Already;
            }
            let ours = format!("{}, {}", quoted(&gate.options(name)), raw(command));
            edits.push((command.span.clone(), json!(gate.program()).to_string()));
            match args {
                Some(args) if matches!(args.value, Value::Array(_)) => {
                    let comma = if list.is_empty() { "" } else { "," };
                    edits.push((inside(args), format!("{ours}{comma}")));
                }
                // Undone, there is none or an empty one, which is the same; the copy beside the file has what was there.
                Some(null) => edits.push((null.span.clone(), format!("[{ours}]"))),
                None => {
                    let end = command.span.end;
                    edits.push((end..end, format!(r#", "args": [{ours}]"#)));
                }
            }
            McpOutcome::Gated
        }
        // opencode: one list with the program and its arguments.
        (Some(command), _) if matches!(&command.value, Value::Array(list) if !list.is_empty()) => {
            if own_begins(elements(command).iter().map(Node::text)).is_some() {
                return McpOutcome::Already;
            }
            let ours = [&[gate.program().to_owned()], &*gate.options(name)].concat();
            edits.push((inside(command), format!("{},", quoted(&ours))));
            McpOutcome::Gated
        }
        _ => match node.get(url).and_then(|url| Some((url, url.text()?))) {
            Some((_, said)) if (gate.behind)(name, said).is_some() => McpOutcome::Already,
            Some((at, said)) => match (gate.url)(name, said) {
                Some(new) => {
                    edits.push((at.span.clone(), json!(new).to_string()));
                    McpOutcome::Gated
                }
                None => McpOutcome::UnknownUrl(said.to_owned()),
            },
            None => McpOutcome::Unreadable,
        },
    }
}

fn remove_json(text: &str, name: &str, node: &Node, url: &str, gate: &McpGate<'_>, edits: &mut Edits) {
    let Some(command) = node.get("command") else {
        if let Some((at, said)) = node.get(url).and_then(|url| Some((url, url.text()?)))
            && let Some(old) = (gate.behind)(name, said)
        {
            edits.push((at.span.clone(), json!(old).to_string()));
        }
        return;
    };
    let own = |list: &Node, own: usize| {
        // From the bracket to the server's own words, with the comma before them that is ours.
        let at = elements(list).get(own)?.span.clone();
        let comma = usize::from(text.get(at.end..).is_some_and(|rest| rest.starts_with(',')));
        Some((at.clone(), list.span.start + 1..at.end + comma))
    };
    if let Value::Array(list) = &command.value {
        let Some(begin) = own_begins(list.iter().map(Node::text)) else { return };
        if let Some((_, before)) = own(command, begin.saturating_sub(1)) {
            edits.push((before, String::new()));
        }
        return;
    }
    let Some(args) = node.get("args") else { return };
    let list = elements(args);
    let Some(begin) = own_begins([command].into_iter().chain(list.iter()).map(|node| node.text())) else {
        return;
    };
    let Some((at, ours)) = own(args, begin - 1) else { return };
    edits.push((command.span.clone(), text.get(at).unwrap_or_default().to_owned()));
    // A list that we made goes with its words.
    let between = text.get(command.span.end..args.span.start);
    if between == Some(r#", "args": "#) && list.len() == begin {
        edits.push((command.span.end..args.span.end, String::new()));
    } else {
        edits.push((ours, String::new()));
    }
}

fn elements(node: &Node) -> &[Node] {
    match &node.value {
        Value::Array(nodes) => nodes,
        Value::Object(_) | Value::Text(_) | Value::Plain => &[],
    }
}
