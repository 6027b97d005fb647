//! Changing single rules: what is left out stays, null takes away (as in a JSON merge patch, RFC 7396).

use serde_json::{Map, Value};

/// Rules with a change in them. A section without any rule is left out.
pub(super) fn changed(mut rules: Map<String, Value>, change: Map<String, Value>) -> Map<String, Value> {
    one_switch(&mut rules, &change);
    for (key, value) in change {
        match value {
            Value::Null => drop(rules.remove(&key)),
            Value::Object(section) => {
                let before = match rules.remove(&key) {
                    Some(Value::Object(before)) => before,
                    Some(_) | None => Map::new(),
                };
                let section = changed(before, section);
                if !section.is_empty() {
                    rules.insert(key, Value::Object(section));
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                drop(rules.insert(key, value));
            }
        }
    }
    rules
}

/// The kill switch is `guards.loop` by another name (LD-2): whoever sets it by one name takes the other away.
fn one_switch(rules: &mut Map<String, Value>, change: &Map<String, Value>) {
    let by_name = change.get("kill_switch_enabled").is_some_and(|value| !value.is_null());
    let by_guard =
        change.get("guards").and_then(|guards| guards.get("loop")).is_some_and(|value| !value.is_null());
    if by_guard && !by_name {
        rules.remove("kill_switch_enabled");
    }
    if let (true, false, Some(Value::Object(guards))) = (by_name, by_guard, rules.get_mut("guards")) {
        guards.remove("loop");
        if guards.is_empty() {
            rules.remove("guards");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ui_5_a_change_keeps_what_it_does_not_name_and_null_takes_away() {
        let object = |value: Value| value.as_object().cloned().unwrap_or_default();
        for (rules, change, after) in [
            (json!({"a": 1, "b": {"c": 2}}), json!({"b": {"d": 3}}), json!({"a": 1, "b": {"c": 2, "d": 3}})),
            (json!({"a": 1, "b": {"c": 2}}), json!({"a": null, "b": {"c": null}}), json!({})),
            (json!({"b": 1}), json!({"b": {"c": 2}}), json!({"b": {"c": 2}})),
            (
                json!({"kill_switch_enabled": true}),
                json!({"guards": {"loop": "off"}}),
                json!({"guards": {"loop": "off"}}),
            ),
            (
                json!({"guards": {"loop": "off"}}),
                json!({"kill_switch_enabled": true}),
                json!({"kill_switch_enabled": true}),
            ),
            (
                json!({"guards": {"loop": "off"}}),
                json!({"kill_switch_enabled": null}),
                json!({"guards": {"loop": "off"}}),
            ),
        ] {
            assert_eq!(Value::Object(changed(object(rules), object(change))), after);
        }
    }
}
