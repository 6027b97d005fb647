//! What a configuration says and where: each value of the file and of the environment, as `estop config show` lists them.

use serde::Serialize;

use super::origin::SourceText;
use super::overrides::Override;
use super::problem::printable;
use super::redact;
use super::tree::{Node, Step, Value, ValueSource, path_text};

/// One value that is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GivenValue {
    /// As people write it: `agents.coder.policy.exempt_tools[0]`.
    pub key: String,
    /// As it is written. What may be a secret is hidden.
    pub value: String,
    /// `FILE:LINE`, or `environment variable NAME`.
    pub origin: String,
}

/// Every value of a tree, in its order.
pub(super) fn values(tree: &Node, texts: &[SourceText<'_>], overrides: &[Override]) -> Vec<GivenValue> {
    let mut listed = List { texts, overrides, path: Vec::new(), values: Vec::new() };
    listed.add(tree);
    listed.values
}

struct List<'t> {
    texts: &'t [SourceText<'t>],
    overrides: &'t [Override],
    path: Vec<Step>,
    values: Vec<GivenValue>,
}

impl List<'_> {
    fn add(&mut self, node: &Node) {
        match &node.value {
            Value::Mapping(entries) => {
                for (key, node) in entries {
                    self.below(Step::Key(key.name.clone()), node);
                }
            }
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.below(Step::Item(index), item);
                }
            }
            Value::Variable(inner) if !matches!(inner.value, Value::Nothing | Value::Scalar(_)) => {
                self.add(inner);
            }
            Value::Variable(_) | Value::Scalar(_) => self.take(node),
            // A section that is left empty says nothing.
            Value::Nothing => {}
        }
    }

    fn below(&mut self, step: Step, node: &Node) {
        self.path.push(step);
        self.add(node);
        self.path.pop();
    }

    fn take(&mut self, node: &Node) {
        let key = path_text(&self.path);
        let last = key.rsplit('.').next().unwrap_or_default();
        let name = last.split('[').next().unwrap_or_default();
        // As a line of a file, so that the same is hidden as in messages about it.
        let line = redact::line(&printable(&format!("{name}: {}", node.written.trim())));
        let value = line.split_once(": ").map_or("", |(_, value)| value).to_owned();
        self.values.push(GivenValue { value, origin: self.origin(node.place), key });
    }

    fn origin(&self, place: ValueSource) -> String {
        match place {
            ValueSource::Text(..) => place.in_words(self.texts).unwrap_or_default(),
            ValueSource::Variable(number) | ValueSource::SectionFor(number) => {
                let variable = self.overrides.get(number).map_or("", |variable| &variable.variable);
                format!("environment variable {variable}")
            }
        }
    }
}
