//! Edits JSON that people write, with comments and trailing commas, and leaves every other byte as it is.
//!
//! [`parse`] gives a tree of places in the text; an edit cuts or inserts text at such a place. After each edit the text
//! is parsed again: settings are small, and places move.

use std::ops::Range;

/// Settings nest a handful of levels; deeper is not a settings file.
const DEPTH_MAX: usize = 64;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Object(Vec<Member>),
    Array(Vec<Node>),
    Text(String),
    /// `true`, `null`, a number.
    Plain,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    /// From the key's first quote to the value's end.
    pub(super) span: Range<usize>,
    pub(super) key: String,
    pub(super) node: Node,
}

impl Node {
    /// The value of a key; the last one counts, as for every reader of such files.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        let Value::Object(members) = &self.value else { return None };
        members.iter().rfind(|member| member.key == key).map(|member| &member.node)
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            Value::Object(_) | Value::Array(_) | Value::Plain => None,
        }
    }

    /// Where its members or elements stand.
    fn children(&self) -> Vec<Range<usize>> {
        match &self.value {
            Value::Object(members) => members.iter().map(|member| member.span.clone()).collect(),
            Value::Array(nodes) => nodes.iter().map(|node| node.span.clone()).collect(),
            Value::Text(_) | Value::Plain => Vec::new(),
        }
    }
}

/// What is wrong, and at which byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) at: usize,
    pub(super) what: &'static str,
}

/// Reads a whole text.
pub(super) fn parse(text: &str) -> Result<Node, Broken> {
    let mut reader = Reader { bytes: text.as_bytes(), text, at: 0 };
    // Some editors put a byte order mark at the beginning.
    if text.starts_with('\u{feff}') {
        reader.at = '\u{feff}'.len_utf8();
    }
    let node = reader.value(0)?;
    reader.gap()?;
    if reader.at < text.len() {
        return Err(reader.broken("there is more after the end"));
    }
    Ok(node)
}

/// Adds a member or element at the end of an object or array. `item` is `"key": value` or a value.
///
/// A comment behind the last one stays with it, and so does a trailing comma.
pub(super) fn append(text: &str, parent: &Node, item: &str) -> String {
    let Some(last) = parent.children().pop() else { return append_first(text, parent, item) };
    let close = parent.span.end - 1;
    let trailing = comma(text, last.end, close);
    let at = last.end + text[last.end..close].trim_end().len();
    let space = space_before(text, last.start);
    let line = if ends_in_line_comment(text, last.end, at) && !space.contains('\n') { "\n" } else { "" };
    match trailing {
        Some(_) => format!("{}{line}{space}{item},{}", &text[..at], &text[at..]),
        None => {
            format!("{},{}{line}{space}{item}{}", &text[..last.end], &text[last.end..at], &text[at..])
        }
    }
}

fn append_first(text: &str, parent: &Node, item: &str) -> String {
    let (head, tail) = text.split_at(parent.span.start + 1);
    match &parent.value {
        // The first member of an object stands on a line of its own.
        Value::Object(_) => {
            let outer = indent_at(text, parent.span.start);
            format!("{head}\n{outer}{}{item}\n{outer}{tail}", indent_unit(text))
        }
        Value::Array(_) | Value::Text(_) | Value::Plain => format!("{head}{item}{tail}"),
    }
}

/// Takes a member or element out, with one comma and the space before it. Comments stay.
pub(super) fn remove(text: &str, parent: &Node, nth: usize) -> String {
    let children = parent.children();
    let Some(cut) = children.get(nth) else { return text.to_owned() };
    let next = children.get(nth + 1);
    let comma_after = comma(text, cut.end, next.map_or(parent.span.end, |next| next.start));
    match (nth.checked_sub(1).map(|n| &children[n]), comma_after) {
        // It has a comma of its own, and takes that along.
        (Some(before), Some(comma)) => {
            let head = before.end + text[before.end..cut.start].trim_end().len();
            let tail = format!("{}{}", &text[cut.end..comma], &text[comma + 1..]);
            join(text, before.end, head, &tail)
        }
        (Some(before), None) => {
            let Some(comma) = comma(text, before.end, cut.start) else { return text.to_owned() };
            let without = format!("{}{}", &text[..comma], &text[comma + 1..cut.start]);
            let head = before.end + without[before.end..].trim_end().len();
            join(&without, before.end, head, &text[cut.end..])
        }
        (None, Some(comma)) => {
            let (kept, after) = (&text[cut.end..comma], &text[comma + 1..]);
            let after = if kept.trim().is_empty() { after.trim_start() } else { after };
            format!("{}{}{after}", &text[..cut.start], kept.trim_start())
        }
        (None, None) => {
            let (head, tail) = (&text[..cut.start], &text[cut.end..]);
            let (bare_head, bare_tail) = (head.trim_end(), tail.trim_start());
            let is_bare = bare_head.len() == parent.span.start + 1 && bare_tail.starts_with(['}', ']']);
            if is_bare { format!("{bare_head}{bare_tail}") } else { format!("{head}{tail}") }
        }
    }
}

/// The text up to `head`, then `tail`: on a new line if a comment would swallow it.
fn join(text: &str, from: usize, head: usize, tail: &str) -> String {
    let is_swallowed = ends_in_line_comment(text, from, head)
        && !tail.trim_start_matches([' ', '\t', '\r']).starts_with('\n');
    format!("{}{}{tail}", &text[..head], if is_swallowed { "\n" } else { "" })
}

/// Whether what stands between two values ends in a `//` comment.
fn ends_in_line_comment(text: &str, from: usize, to: usize) -> bool {
    let mut rest = &text[from..to];
    let mut is_line = false;
    while !rest.is_empty() {
        let skipped = if rest.starts_with("//") {
            is_line = true;
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            is_line = false;
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else {
            is_line &= !rest.starts_with('\n');
            rest.chars().next().map_or(1, char::len_utf8)
        };
        rest = &rest[skipped..];
    }
    is_line
}

/// The white space between what stands at `at` and whatever is before it: a new line with its indent, or a blank.
fn space_before(text: &str, at: usize) -> &str {
    let head = &text[..at];
    let space = &head[head.trim_end_matches([' ', '\t', '\r', '\n']).len()..];
    // Blank lines between entries are not copied, and neither is an indent without its line.
    match space.rfind('\n') {
        Some(line) if space[..line].ends_with('\r') => &space[line - 1..],
        Some(line) => &space[line..],
        None => " ",
    }
}

/// The white space at the beginning of a line.
fn indent_at(text: &str, at: usize) -> &str {
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let rest = &text[line..];
    &rest[..rest.len() - rest.trim_start_matches([' ', '\t']).len()]
}

/// One step of indentation, as the first indented line has it.
fn indent_unit(text: &str) -> &str {
    let indents = text.match_indices('\n').map(|(end, _)| indent_at(text, end + 1));
    indents.into_iter().find(|indent| !indent.is_empty()).unwrap_or("  ")
}

/// The comma between two places, if there is one that is not in a comment.
fn comma(text: &str, from: usize, to: usize) -> Option<usize> {
    let mut reader = Reader { bytes: text.as_bytes(), text, at: from };
    reader.gap().ok()?;
    (reader.at < to && reader.bytes.get(reader.at) == Some(&b',')).then_some(reader.at)
}

struct Reader<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn broken(&self, what: &'static str) -> Broken {
        Broken { at: self.at, what }
    }

    /// White space and comments.
    fn gap(&mut self) -> Result<(), Broken> {
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let skipped = match rest.as_bytes() {
                [b' ' | b'\t' | b'\r' | b'\n', ..] => 1,
                [b'/', b'/', ..] => rest.find('\n').unwrap_or(rest.len()),
                [b'/', b'*', ..] => match rest.get(2..).and_then(|inner| inner.find("*/")) {
                    Some(end) => end + 4,
                    None => return Err(self.broken("a comment has no end")),
                },
                _ => return Ok(()),
            };
            self.at += skipped;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Broken> {
        if depth > DEPTH_MAX {
            return Err(self.broken("it is nested too deep"));
        }
        self.gap()?;
        let start = self.at;
        let value = match self.bytes.get(start) {
            Some(b'{') => Value::Object(self.object(depth)?),
            Some(b'[') => Value::Array(self.array(depth)?),
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9' | b'a'..=b'z') => {
                let rest = &self.bytes[start..];
                let is_word = |b: &&u8| b.is_ascii_alphanumeric() || b"+-.".contains(b);
                let length = rest.iter().take_while(is_word).count();
                let word = &self.text[start..start + length];
                serde_json::from_str::<serde_json::Value>(word)
                    .map_err(|_| self.broken("this is no value"))?;
                self.at += length;
                Value::Plain
            }
            Some(_) => return Err(self.broken("a value is expected")),
            None => return Err(self.broken("it ends too early")),
        };
        Ok(Node { span: start..self.at, value })
    }

    fn object(&mut self, depth: usize) -> Result<Vec<Member>, Broken> {
        let mut members = Vec::new();
        self.at += 1;
        while !self.closes(b'}')? {
            let start = self.at;
            if self.bytes.get(start) != Some(&b'"') {
                return Err(self.broken("a key in quotes is expected"));
            }
            let key = self.string()?;
            self.gap()?;
            if self.bytes.get(self.at) != Some(&b':') {
                return Err(self.broken("`:` is expected"));
            }
            self.at += 1;
            let node = self.value(depth + 1)?;
            members.push(Member { span: start..self.at, key, node });
            self.separates(b'}')?;
        }
        Ok(members)
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Node>, Broken> {
        let mut nodes = Vec::new();
        self.at += 1;
        while !self.closes(b']')? {
            nodes.push(self.value(depth + 1)?);
            self.separates(b']')?;
        }
        Ok(nodes)
    }

    /// Steps over the end, if it is next.
    fn closes(&mut self, closing: u8) -> Result<bool, Broken> {
        self.gap()?;
        let closes = self.bytes.get(self.at) == Some(&closing);
        self.at += usize::from(closes);
        Ok(closes)
    }

    /// Steps over a comma; without one the end must be next.
    fn separates(&mut self, closing: u8) -> Result<(), Broken> {
        self.gap()?;
        match self.bytes.get(self.at) {
            Some(b',') => self.at += 1,
            Some(byte) if *byte == closing => {}
            Some(_) => return Err(self.broken("`,` is expected")),
            None => return Err(self.broken("it ends too early")),
        }
        Ok(())
    }

    fn string(&mut self) -> Result<String, Broken> {
        let start = self.at;
        let mut end = start + 1;
        loop {
            match self.bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
                None => return Err(self.broken("a text has no end")),
            }
        }
        let quoted = self.text.get(start..=end).ok_or(self.broken("a text has no end"))?;
        let text =
            serde_json::from_str(quoted).map_err(|_| self.broken("a text is not written as JSON has it"))?;
        self.at = end + 1;
        Ok(text)
    }
}
