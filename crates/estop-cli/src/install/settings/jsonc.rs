//! Edits JSON that people write, with comments and trailing commas, and leaves every other byte as it is.
//!
//! [`parse`] gives a tree of places in the text; an edit cuts or inserts text at such a place. After each edit the text
//! is parsed again: settings are small, and places move.

use std::borrow::Cow;
use std::ops::Range;

use jsonc_parser::common::Ranged;
use jsonc_parser::tokens::Token;
use jsonc_parser::{CollectOptions, ParseOptions, Scanner, ScannerOptions, ast, parse_to_ast};

/// JSON with comments and trailing commas, and nothing else that some readers take and others refuse.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) at: usize,
    pub(super) what: String,
}

/// Reads a whole text.
pub(super) fn parse(text: &str) -> Result<Node, Broken> {
    // Some editors put a byte order mark at the beginning. As many spaces leave every place where it is.
    let text = match text.strip_prefix('\u{feff}') {
        Some(rest) => Cow::Owned(format!("   {rest}")),
        None => Cow::Borrowed(text),
    };
    let collect = CollectOptions { tokens: true, ..CollectOptions::default() };
    let parsed = parse_to_ast(&text, &collect, &OPTIONS)
        .map_err(|error| Broken { at: error.range().start, what: error.kind().to_string() })?;
    // The parser takes a text that goes on in the next line; the clients' do not.
    let is_torn = |text: &str| text.starts_with('"') && text.contains(|c: char| c < ' ');
    let mut tokens = parsed.tokens.into_iter().flatten();
    if let Some(torn) = tokens.find(|token| is_torn(&text[span(token)])) {
        return Err(Broken { at: torn.start(), what: "a text is not written as JSON has it".to_owned() });
    }
    let missing = || Broken { at: text.len(), what: "it ends too early".to_owned() };
    parsed.value.map(node).ok_or_else(missing)
}

/// The parser refuses what is nested more than 512 levels deep.
fn node(value: ast::Value<'_>) -> Node {
    let span = span(&value);
    let value = match value {
        ast::Value::Object(object) => Value::Object(object.properties.into_iter().map(member).collect()),
        ast::Value::Array(array) => Value::Array(array.elements.into_iter().map(node).collect()),
        ast::Value::StringLit(text) => Value::Text(text.value.into_owned()),
        ast::Value::NumberLit(_) | ast::Value::BooleanLit(_) | ast::Value::NullKeyword(_) => Value::Plain,
    };
    Node { span, value }
}

fn member(property: ast::ObjectProp<'_>) -> Member {
    Member { span: span(&property), key: property.name.into_string(), node: node(property.value) }
}

fn span(part: &impl Ranged) -> Range<usize> {
    part.start()..part.end()
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
    let between = &text[from..to];
    let mut scanner = Scanner::new(between, &ScannerOptions::default());
    let mut line_comment = None;
    while let Ok(Some(token)) = scanner.scan() {
        line_comment = matches!(token, Token::CommentLine(_)).then(|| scanner.token_end());
    }
    line_comment.is_some_and(|end| !between[end..].contains('\n'))
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
    let mut scanner = Scanner::new(&text[from..to], &ScannerOptions::default());
    let mut token = scanner.scan().ok()??;
    while matches!(token, Token::CommentLine(_) | Token::CommentBlock(_)) {
        token = scanner.scan().ok()??;
    }
    (token == Token::Comma).then(|| from + scanner.token_start())
}
