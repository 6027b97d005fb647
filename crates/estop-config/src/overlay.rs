//! Lays variables over the tree of a file, so that both have one shape and are checked by the same types.

use super::overrides::{Override, is_meant};
use super::tree::{Key, Node, Scalar, Value, ValueSource, read};

/// Puts what variables say in place of what the file says.
pub(super) fn lay(tree: &mut Node, overrides: &[Override]) {
    let mut order: Vec<(usize, &Override)> = overrides.iter().enumerate().collect();
    // Sections before what is in them.
    order.sort_by_key(|(_, variable)| variable.keys.len());
    for (number, variable) in order {
        put(tree, &variable.keys, number, &variable.value);
    }
}

fn put(node: &mut Node, keys: &[String], number: usize, text: &str) {
    let Some((key, keys)) = keys.split_first() else {
        *node = value_of(number, text);
        return;
    };
    if let Value::Variable(inner) = &mut node.value {
        // What it says as YAML counts, once something is laid over it.
        *node =
            std::mem::replace(&mut **inner, Node::made(Value::Nothing, ValueSource::Variable(number), ""));
    }
    if !matches!(node.value, Value::Mapping(_)) {
        // An empty section; or a single value, which the type will say.
        *node = Node::made(Value::Mapping(Vec::new()), ValueSource::SectionFor(number), "");
    }
    let Value::Mapping(entries) = &mut node.value else { return };
    if !entries.iter().any(|(there, _)| is_meant(key, &there.name)) {
        let place = ValueSource::Variable(number);
        let nothing = Node::made(Value::Nothing, place, "");
        entries.push((Key { name: key.clone(), place }, nothing));
    }
    for (_, node) in entries.iter_mut().filter(|(there, _)| is_meant(key, &there.name)) {
        put(node, keys, number, text);
    }
}

/// What a variable says. What is no YAML is a text.
fn value_of(number: usize, text: &str) -> Node {
    let place = ValueSource::Variable(number);
    let as_text = |_| Node::made(Value::Scalar(Scalar::Text(text.to_owned())), place, text);
    let mut node = read(text).unwrap_or_else(as_text);
    node.belongs_to(number);
    Node::made(Value::Variable(Box::new(node)), place, text)
}
