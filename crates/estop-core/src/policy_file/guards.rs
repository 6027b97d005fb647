//! `guards:`, the mode of each guard by its name (PO-4). Which names there are says [`Guard::SWITCHES`].

use std::fmt;
use std::ops::Index;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::values::given;
use crate::guard::{Guard, Mode};
use crate::policy::Modes;

/// What each guard may do. `breaker` sets the breakers of attended and of unattended runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardsIn([Option<Mode>; Guard::ALL.len()]);

impl GuardsIn {
    /// Lays the modes that are given over others.
    pub(super) fn merge(&self, modes: &mut Modes) {
        for guard in Guard::SWITCHES {
            let Some(mode) = self[guard] else { continue };
            modes[guard] = mode;
            if guard == Guard::Breaker {
                modes.breaker_set = mode;
                modes.breaker_unattended = mode;
            }
        }
    }
}

impl Index<Guard> for GuardsIn {
    type Output = Option<Mode>;

    fn index(&self, guard: Guard) -> &Option<Mode> {
        &self.0[guard.place()]
    }
}

const KEYS: [&str; Guard::SWITCHES.len()] = {
    let mut keys = [""; Guard::SWITCHES.len()];
    let mut at = 0;
    while at < keys.len() {
        keys[at] = Guard::SWITCHES[at].name();
        at += 1;
    }
    keys
};

/// As a struct with one field for each guard would be read: the reader of a file asks for the keys of structs, and says where
/// a wrong one stands.
impl<'de> Deserialize<'de> for GuardsIn {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_struct("GuardsIn", &KEYS, GuardsVisitor)
    }
}

struct GuardsVisitor;

impl<'de> Visitor<'de> for GuardsVisitor {
    type Value = GuardsIn;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("struct GuardsIn")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<GuardsIn, A::Error> {
        let mut guards = GuardsIn::default();
        while let Some(Key(guard)) = map.next_key()? {
            if guards[guard].is_some() {
                return Err(A::Error::duplicate_field(guard.name()));
            }
            let Given(mode) = map.next_value()?;
            guards.0[guard.place()] = mode;
        }
        Ok(guards)
    }
}

/// The name of a guard with a switch.
struct Key(Guard);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_identifier(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("field identifier")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Key, E> {
        let guard = Guard::SWITCHES.into_iter().find(|guard| guard.name() == name);
        guard.map(Key).ok_or_else(|| E::unknown_field(name, &KEYS))
    }
}

/// A mode that stands in the file.
struct Given(Option<Mode>);

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        given(d).map(Given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<GuardsIn, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn po_4_modes_are_given_by_the_names_of_the_guards() {
        let guards = read(r#"{"breaker": "off", "loop": "enforce"}"#).expect("modes");
        let mut modes = Modes::default();
        guards.merge(&mut modes);
        assert_eq!((modes.breaker_set, modes.breaker_unattended), (Mode::Off, Mode::Off));
        assert_eq!((modes[Guard::Breaker], modes[Guard::Loop]), (Mode::Off, Mode::Enforce));
        assert_eq!(modes[Guard::Hours], Modes::default()[Guard::Hours], "what is not given stays");
    }

    #[test]
    fn po_4_wrong_names_and_modes_are_refused() {
        let refused = |json: &str| read(json).expect_err("it is refused").to_string();
        let unknown = refused(r#"{"system": "off"}"#);
        let known = "`loop`, `churn`, `chanting`, `breaker`, `gate`, `health`, `watchdog`, `hours`, `rate`, `budget`, `models`";
        assert!(
            unknown.starts_with(&format!("unknown field `system`, expected one of {known} at ")),
            "{unknown}"
        );
        assert!(refused(r#"{"gate": null}"#).contains("expected a value"));
        assert!(refused(r#"{"gate": "off", "gate": "off"}"#).contains("duplicate field `gate`"));
        assert!(refused(r#"{"gate": "no"}"#).contains("unknown variant `no`"));
    }
}
