//! What each guard may do (PO-4): enforce, shadow or off.

use std::fmt;
use std::ops::{Index, IndexMut};

use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use super::Preset;
use crate::guard::{Guard, Mode, Recorded};

/// The mode of every guard: `modes[Guard::Rate]`. The system kill switch, a person's stop and the end of a run have none; they
/// always hold, whatever stands here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// By place. That of the breakers is for attended or implicit runs, and limits that nobody set.
    by_guard: [Mode; Guard::ALL.len()],
    /// Circuit breakers of attended or implicit runs that somebody set.
    pub breaker_set: Mode,
    /// Circuit breakers of unattended named runs.
    pub breaker_unattended: Mode,
}

impl Modes {
    /// The modes a preset starts with.
    pub fn of(preset: Preset) -> Modes {
        let mut modes = Modes::all(Mode::Enforce);
        if preset == Preset::Watch {
            for (guard, switch) in
                Guard::ALL.into_iter().filter_map(|guard| Some((guard, guard.info().switch?)))
            {
                modes[guard] = switch.in_watch;
            }
        }
        modes
    }

    /// One mode for all that have one.
    pub fn all(mode: Mode) -> Modes {
        let by_guard = [Mode::Enforce; Guard::ALL.len()];
        let mut modes = Modes { by_guard, breaker_set: mode, breaker_unattended: mode };
        Guard::snoozable().for_each(|guard| modes[guard] = mode);
        modes
    }

    /// Has a guard that is enforced work as in shadow. The breakers have three switches; what always holds has none.
    pub(crate) fn snooze(&mut self, guard: Guard) {
        let is_breaker = guard == Guard::Breaker;
        let more = is_breaker.then_some([&mut self.breaker_set, &mut self.breaker_unattended]);
        let own = guard.can_be_snoozed().then_some(&mut self.by_guard[guard.place()]);
        for mode in own.into_iter().chain(more.into_iter().flatten()).filter(|mode| **mode == Mode::Enforce) {
            *mode = Mode::Shadow;
        }
    }
}

impl Default for Modes {
    fn default() -> Self {
        Modes::of(Preset::Watch)
    }
}

impl Index<Guard> for Modes {
    type Output = Mode;

    fn index(&self, guard: Guard) -> &Mode {
        &self.by_guard[guard.place()]
    }
}

impl IndexMut<Guard> for Modes {
    fn index_mut(&mut self, guard: Guard) -> &mut Mode {
        &mut self.by_guard[guard.place()]
    }
}

const BREAKER_SET: &str = "breaker_set";
const BREAKER_UNATTENDED: &str = "breaker_unattended";

/// The guards whose mode is recorded in this way, in order.
fn recorded(how: Recorded) -> impl Iterator<Item = Guard> {
    Guard::ALL
        .into_iter()
        .filter(move |guard| guard.info().switch.is_some_and(|switch| switch.recorded == how))
}

/// By the names of the guards, see [`Recorded`].
impl Serialize for Modes {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        for guard in recorded(Recorded::Always) {
            map.serialize_entry(guard.name(), &self[guard])?;
            if guard == Guard::Breaker {
                // Later than the others, see `Recorded::UnlessEnforced`.
                if self.breaker_set != Mode::Enforce {
                    map.serialize_entry(BREAKER_SET, &self.breaker_set)?;
                }
                map.serialize_entry(BREAKER_UNATTENDED, &self.breaker_unattended)?;
            }
        }
        for guard in recorded(Recorded::UnlessEnforced).filter(|guard| self[*guard] != Mode::Enforce) {
            map.serialize_entry(guard.name(), &self[guard])?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Modes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_map(ModesVisitor)
    }
}

struct ModesVisitor;

impl<'de> Visitor<'de> for ModesVisitor {
    type Value = Modes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the modes of the guards")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Modes, A::Error> {
        let mut given: Vec<(String, Mode)> = Vec::new();
        while let Some((key, mode)) = map.next_entry::<String, Mode>()? {
            if given.iter().any(|(known, _)| *known == key) {
                return Err(A::Error::custom(format_args!("duplicate field `{key}`")));
            }
            given.push((key, mode));
        }
        let mut take = |name: &str| {
            let at = given.iter().position(|(key, _)| key == name)?;
            Some(given.swap_remove(at).1)
        };
        let mut modes = Modes::all(Mode::Enforce);
        for guard in recorded(Recorded::Always) {
            modes[guard] = take(guard.name()).ok_or_else(|| A::Error::missing_field(guard.name()))?;
        }
        for guard in recorded(Recorded::UnlessEnforced) {
            modes[guard] = take(guard.name()).unwrap_or(Mode::Enforce);
        }
        modes.breaker_set = take(BREAKER_SET).unwrap_or(Mode::Enforce);
        modes.breaker_unattended =
            take(BREAKER_UNATTENDED).ok_or_else(|| A::Error::missing_field(BREAKER_UNATTENDED))?;
        match given.first() {
            Some((key, _)) => Err(A::Error::custom(format_args!("unknown field `{key}`"))),
            None => Ok(modes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCH: &str = r#"{"hours":"enforce","rate":"enforce","budget":"enforce","loop":"shadow","churn":"shadow","chanting":"shadow","breaker":"shadow","breaker_unattended":"enforce","gate":"shadow","health":"shadow","watchdog":"enforce"}"#;
    const OFF: &str = r#"{"hours":"off","rate":"off","budget":"off","loop":"off","churn":"off","chanting":"off","breaker":"off","breaker_set":"off","breaker_unattended":"off","gate":"off","health":"off","watchdog":"off","models":"off"}"#;

    fn read(json: &str) -> Result<Modes, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn po_4_modes_are_recorded_as_ever() {
        for (modes, json) in [(Modes::default(), WATCH), (Modes::all(Mode::Off), OFF)] {
            assert_eq!(serde_json::to_string(&modes).expect("they are written"), json);
            assert_eq!(read(json).expect("they are read"), modes);
        }
    }

    #[test]
    fn po_4_recorded_modes_are_read_strictly() {
        let of =
            |from: &str, to: &str| read(&WATCH.replace(from, to)).expect_err("it is refused").to_string();
        assert!(of(r#""gate":"shadow","#, "").contains("missing field `gate`"));
        assert!(of(r#""breaker_unattended":"enforce","#, "").contains("missing field `breaker_unattended`"));
        assert!(of(r#""gate""#, r#""gait""#).contains("`ga"));
        assert!(of(r#"{"#, r#"{"gait":"off","#).contains("unknown field `gait`"));
        assert!(of(r#"{"#, r#"{"gate":"off","#).contains("duplicate field `gate`"));
        assert!(of(r#""rate":"enforce""#, r#""rate":"maybe""#).contains("unknown variant `maybe`"));
    }
}
