//! A YAML text as a tree. Everything else reads the tree: types, variables that are laid over it, and whoever asks where a
//! key stands.

use std::cell::RefCell;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Error, Location, Spanned};

use super::problem::printable;
use super::yaml_options::options;

/// One step of the way from the top of a document to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Item(usize),
    /// A key that cannot be read.
    Unknown,
}

/// The path as people write it: `agents.coder.policy.exempt_tools[0]`. Ends before an unknown step.
pub(super) fn path_text(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text = printable(key),
            Step::Key(key) => text = format!("{text}.{}", printable(key)),
            Step::Item(index) => text = format!("{text}[{index}]"),
            Step::Unknown => break,
        }
    }
    text
}

/// A value, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) place: ValueSource,
    /// Where it is written, if an alias stands in its place.
    defined: Option<Location>,
    /// A scalar as it is written, with its quotes.
    pub(super) written: String,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ValueSource {
    /// In the text of this number: 0 is the file itself, the others are included.
    Text(usize, Location),
    /// The variable of this number says it.
    Variable(usize),
    /// It is there because this variable sets something in it.
    SectionFor(usize),
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Nothing,
    Scalar(Scalar),
    List(Vec<Node>),
    Mapping(Vec<(Key, Node)>),
    /// What a variable says: as it is where a text is asked for, else as YAML. So `[::1]:4100` needs no quotes.
    Variable(Box<Node>),
}

#[derive(Clone, Debug)]
pub(super) enum Scalar {
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
}

/// A key of a mapping.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) place: ValueSource,
}

/// Why a text is not one YAML document, and how far it was read.
pub(super) struct NotYaml {
    pub(super) error: Error,
    pub(super) path: Vec<Step>,
}

thread_local! {
    /// The way to what is being read. [`Spanned`] takes nothing along, and errors do not say.
    static PATH: RefCell<Vec<Step>> = const { RefCell::new(Vec::new()) };
}

/// Reads one YAML document. An empty text is an empty mapping.
pub(super) fn read(text: &str) -> Result<Node, Box<NotYaml>> {
    PATH.take();
    let read = serde_saphyr::from_str_with_options::<Node>(text, options());
    let mut node = read.map_err(|error| Box::new(NotYaml { error, path: PATH.take() }))?;
    node.write_down(text);
    Ok(node)
}

/// Reads what is below a step. If it fails, the step stays in the path.
fn below<T, E>(step: Step, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    PATH.with_borrow_mut(|path| path.push(step));
    let read = read()?;
    PATH.with_borrow_mut(Vec::pop);
    Ok(read)
}

impl Node {
    /// A value that stands in no text.
    pub(super) fn made(value: Value, place: ValueSource, written: &str) -> Node {
        Node { value, place, defined: None, written: written.to_owned() }
    }

    /// An empty document.
    pub(super) fn nothing() -> Node {
        Node::made(Value::Nothing, ValueSource::Text(0, Location::UNKNOWN), "")
    }

    /// The value at `path`.
    pub(super) fn at(&self, path: &[Step]) -> Option<&Node> {
        let Some((step, path)) = path.split_first() else { return Some(self) };
        let next = match (step, &self.value) {
            (Step::Key(wanted), Value::Mapping(entries)) => {
                entries.iter().find(|(key, _)| key.name == *wanted).map(|(_, node)| node)
            }
            (Step::Item(wanted), Value::List(items)) => items.get(*wanted),
            _ => None,
        };
        next?.at(path)
    }

    /// What stands here, for "found …"; `None` if nothing does.
    pub(super) fn found(&self) -> Option<String> {
        match &self.value {
            Value::Nothing => None,
            Value::List(items) if items.is_empty() => Some("an empty list".to_owned()),
            Value::List(_) => Some("a list".to_owned()),
            Value::Mapping(_) => Some("a mapping".to_owned()),
            Value::Scalar(_) => Some(printable(self.written.lines().next().unwrap_or("").trim())),
            Value::Variable(_) => Some(printable(&self.written)),
        }
    }

    /// Everything in it comes from this variable.
    pub(super) fn belongs_to(&mut self, variable: usize) {
        self.each_place(&|_| ValueSource::Variable(variable));
    }

    /// Everything in it stands in the text of this number.
    pub(super) fn stands_in(&mut self, text: usize) {
        self.each_place(&|place| match place {
            ValueSource::Text(_, location) => ValueSource::Text(text, location),
            ValueSource::Variable(_) | ValueSource::SectionFor(_) => place,
        });
    }

    fn each_place(&mut self, changed: &impl Fn(ValueSource) -> ValueSource) {
        self.place = changed(self.place);
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.each_place(changed)),
            Value::Mapping(entries) => {
                for (key, node) in entries {
                    key.place = changed(key.place);
                    node.each_place(changed);
                }
            }
            Value::Variable(node) => node.each_place(changed),
            Value::Nothing | Value::Scalar(_) => {}
        }
    }

    /// Notes how the scalars in it are written.
    fn write_down(&mut self, text: &str) {
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.write_down(text)),
            Value::Mapping(entries) => entries.iter_mut().for_each(|(_, node)| node.write_down(text)),
            Value::Nothing | Value::Scalar(_) | Value::Variable(_) => {
                let written = self.defined.and_then(|location| source(text, location));
                self.written = written.unwrap_or_default().to_owned();
            }
        }
    }
}

/// What stands at a location.
fn source(text: &str, location: Location) -> Option<&str> {
    let start = usize::try_from(location.span().byte_offset()?).ok()?;
    let len = usize::try_from(location.span().byte_len()?).ok()?;
    text.get(start..start.checked_add(len)?)
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Node, D::Error> {
        let here: Spanned<Value> = Spanned::deserialize(d)?;
        Ok(Node {
            value: here.value,
            place: ValueSource::Text(0, here.referenced),
            defined: Some(here.defined),
            written: String::new(),
        })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Value, D::Error> {
        d.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Nothing)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        Value::deserialize(d)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Scalar(Scalar::Bool(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Scalar(Scalar::Unsigned(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Scalar(Scalar::Signed(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Scalar(Scalar::Float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Scalar(Scalar::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = below(Step::Item(items.len()), || seq.next_element())? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = below(Step::Unknown, || map.next_key::<Spanned<String>>())? {
            let value = below(Step::Key(key.value.clone()), || map.next_value())?;
            entries.push((Key { name: key.value, place: ValueSource::Text(0, key.referenced) }, value));
        }
        Ok(Value::Mapping(entries))
    }
}
