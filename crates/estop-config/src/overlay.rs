//! Lays variables over the tree of a file, so that both have one shape and are checked by the same types.

use super::overrides::{Override, is_meant};
use super::tree::{Key, Node, Place, Scalar, Value, read};

/// Puts what variables say in place of what the file says.
pub(super) fn lay(tree: &mut Node, overrides: &[Override]) {
    for (number, variable) in overrides.iter().enumerate() {
        put(tree, &variable.keys, number, &variable.value);
    }
}

fn put(node: &mut Node, keys: &[String], number: usize, text: &str) {
    let Some((key, keys)) = keys.split_first() else {
        *node = value_of(number, text);
        return;
    };
    let node = match &mut node.value {
        Value::Variable(inner) => inner,
        Value::Nothing | Value::Scalar(_) | Value::List(_) | Value::Mapping(_) => node,
    };
    if !matches!(node.value, Value::Mapping(_)) {
        // An empty section; or a single value, which the type will say.
        *node = Node {
            value: Value::Mapping(Vec::new()),
            place: Place::SectionFor(number),
            written: String::new(),
        };
    }
    let Value::Mapping(entries) = &mut node.value else { return };
    if !entries.iter().any(|(there, _)| is_meant(key, &there.name)) {
        let place = Place::Variable(number);
        let nothing = Node { value: Value::Nothing, place, written: String::new() };
        entries.push((Key { name: key.clone(), place }, nothing));
    }
    for (_, node) in entries.iter_mut().filter(|(there, _)| is_meant(key, &there.name)) {
        put(node, keys, number, text);
    }
}

/// What a variable says. What is no YAML is a text.
fn value_of(number: usize, text: &str) -> Node {
    let (place, written) = (Place::Variable(number), text.to_owned());
    let mut node = read(text).unwrap_or_else(|_| Node {
        value: Value::Scalar(Scalar::Text(text.to_owned())),
        place,
        written: written.clone(),
    });
    node.belongs_to(number);
    Node { value: Value::Variable(Box::new(node)), place, written }
}
