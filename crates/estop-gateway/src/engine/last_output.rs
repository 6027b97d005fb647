//! The last words of runs (CB-6): what an agent said latest, so that whoever is called for help reads how far it came.
//! Kept in memory only, and stored once its run is escalated. Never in the journal. With them, where a run works, if only
//! its hooks know it (CB-8).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use estop_core::fingerprint::signature;
use estop_core::ids::Name;

use crate::engine::shards::Shards;

/// Bytes of a run's last words that are kept. Chosen: two pages; of a longer text the end, where people sum up.
const TEXT_MAX: usize = 4_096;
/// Runs of one part whose words are kept: 2,048 runs and 8 MB in all. Past it the one of that part that spoke longest ago
/// is forgotten, tripped ones last.
const RUNS_MAX: usize = 32;

/// The last words of runs.
#[derive(Default)]
pub struct LastOutput(Shards<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    runs: BTreeMap<Name, RunOutput>,
    /// Counts what was said, to tell which is older.
    spoken: u64,
    /// The key that is looked for: made here, so that an answer costs no memory.
    key: String,
}

#[derive(Default)]
struct RunOutput {
    /// Empty if it said nothing yet.
    text: String,
    spoken: u64,
    tripped: bool,
    /// The run is over: what comes now is an error's text or another's.
    closed: bool,
    place: RunLocation,
}

/// Where a run works, as its hooks say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunLocation {
    /// The client's session.
    pub session: Option<Name>,
    /// The branch its work is on.
    pub branch: Option<Name>,
}

impl LastOutput {
    /// A run said something.
    pub fn record(&self, agent: &str, run: Option<&str>, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let mut kept = self.kept(agent, run);
        kept.spoken += 1;
        let spoken = kept.spoken;
        kept.enter(agent, run, |said| {
            if !said.closed {
                said.spoken = spoken;
                put_ending(&mut said.text, text);
            }
        });
    }

    /// What a run said last.
    pub fn of(&self, agent: &str, run: Option<&str>) -> Option<String> {
        let mut kept = self.kept(agent, run);
        let said = kept.get(agent, run)?;
        (!said.text.is_empty()).then(|| said.text.clone())
    }

    /// A hook says where a run works. The first one that knows counts.
    pub(crate) fn locate(&self, agent: &str, run: Option<&Name>, place: RunLocation) {
        if place == RunLocation::default() {
            return;
        }
        let run = run.map(AsRef::as_ref);
        self.kept(agent, run).enter(agent, run, |said| {
            let RunLocation { session, branch } = &mut said.place;
            *session = session.take().or(place.session);
            *branch = branch.take().or(place.branch);
        });
    }

    /// Where a run works, if its hooks said it.
    pub fn place_of(&self, agent: &str, run: Option<&str>) -> RunLocation {
        self.kept(agent, run).get(agent, run).map(|said| said.place.clone()).unwrap_or_default()
    }

    /// A run reached a limit: its words are wanted soon.
    pub(crate) fn trip(&self, agent: &str, run: Option<&Name>) {
        self.change(agent, run, |said| said.tripped = true);
    }

    /// A run was escalated: this was its last output.
    pub(crate) fn close(&self, agent: &str, run: Option<&Name>) {
        self.change(agent, run, |said| said.closed = true);
    }

    /// A person lets it go on.
    pub(crate) fn reopen(&self, agent: &str, run: Option<&Name>) {
        self.change(agent, run, |said| (said.tripped, said.closed) = (false, false));
    }

    /// A run of this name begins anew.
    pub(crate) fn forget(&self, agent: &str, run: Option<&Name>) {
        let run = run.map(AsRef::as_ref);
        let mut kept = self.kept(agent, run);
        kept.look_for(agent, run);
        let Kept { runs, key, .. } = &mut *kept;
        runs.remove(key.as_str());
    }

    fn change(&self, agent: &str, run: Option<&Name>, change: impl FnOnce(&mut RunOutput)) {
        let run = run.map(AsRef::as_ref);
        if let Some(said) = self.kept(agent, run).get(agent, run) {
            change(said);
        }
    }

    fn kept(&self, agent: &str, run: Option<&str>) -> MutexGuard<'_, Kept> {
        let key = signature::mix(&[signature::text(agent), signature::text(run.unwrap_or_default())]);
        self.0.of(key).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Makes the key of a run. No name has a zero in it: the implicit run's key is the agent's name alone.
    fn look_for(&mut self, agent: &str, run: Option<&str>) {
        self.key.clear();
        self.key.push_str(agent);
        if let Some(run) = run {
            self.key.push('\0');
            self.key.push_str(run);
        }
    }

    fn get(&mut self, agent: &str, run: Option<&str>) -> Option<&mut RunOutput> {
        self.look_for(agent, run);
        self.runs.get_mut(self.key.as_str())
    }

    /// Changes it, made if it is not there.
    fn enter(&mut self, agent: &str, run: Option<&str>, change: impl FnOnce(&mut RunOutput)) {
        if let Some(said) = self.get(agent, run) {
            return change(said);
        }
        self.make_room();
        self.spoken += 1;
        let mut said = RunOutput { spoken: self.spoken, ..RunOutput::default() };
        change(&mut said);
        self.runs.insert(self.key.as_str().into(), said);
    }

    fn make_room(&mut self) {
        while self.runs.len() >= RUNS_MAX {
            let oldest = self.runs.iter().min_by_key(|(_, said)| (said.tripped, said.spoken));
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { return };
            self.runs.remove(&key);
        }
    }
}

/// Puts the end of a text in the place of what was there.
fn put_ending(kept: &mut String, text: &str) {
    kept.clear();
    let fits = text.len() <= TEXT_MAX;
    let from = if fits { 0 } else { text.ceil_char_boundary(text.len() - TEXT_MAX + '…'.len_utf8()) };
    kept.reserve_exact(text.len().min(TEXT_MAX));
    if !fits {
        kept.push('…');
    }
    kept.push_str(&text[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::shards::SHARDS;

    #[test]
    fn cb_6_the_latest_words_of_a_run_are_kept_until_it_is_closed() {
        let output = LastOutput::default();
        let run = Name::from("r1");
        output.record("a", Some("r1"), "first");
        output.record("a", Some("r1"), "  second \n");
        output.record("a", Some("r1"), " ");
        output.record("a", None, "implicit");
        assert_eq!(output.of("a", Some("r1")).as_deref(), Some("second"));
        assert_eq!(output.of("a", None).as_deref(), Some("implicit"));
        assert_eq!(output.of("b", Some("r1")), None);
        output.close("a", Some(&run));
        output.record("a", Some("r1"), "API Error: 400");
        assert_eq!(output.of("a", Some("r1")).as_deref(), Some("second"));
        output.reopen("a", Some(&run));
        output.record("a", Some("r1"), "third");
        assert_eq!(output.of("a", Some("r1")).as_deref(), Some("third"));
        output.forget("a", Some(&run));
        assert_eq!(output.of("a", Some("r1")), None);
    }

    #[test]
    fn cb_8_where_a_run_works_is_kept_beside_its_words() {
        let output = LastOutput::default();
        let run = Name::from("r1");
        let place = |session: Option<&str>, branch: Option<&str>| RunLocation {
            session: session.map(Name::from),
            branch: branch.map(Name::from),
        };
        output.locate("a", Some(&run), place(Some("s1"), None));
        assert_eq!(output.of("a", Some("r1")), None, "it said nothing");
        output.record("a", Some("r1"), "first");
        output.locate("a", Some(&run), place(Some("s2"), Some("main")));
        assert_eq!(output.place_of("a", Some("r1")), place(Some("s1"), Some("main")));
        assert_eq!(output.of("a", Some("r1")).as_deref(), Some("first"));
        assert_eq!(output.place_of("a", None), RunLocation::default());
        output.forget("a", Some(&run));
        assert_eq!(
            output.place_of("a", Some("r1")),
            RunLocation::default(),
            "begun anew, it may be elsewhere"
        );
    }

    #[test]
    fn cb_6_words_are_bounded_in_length_and_number() {
        let output = LastOutput::default();
        output.record("a", Some("long"), &"ü".repeat(10_000));
        let kept = output.of("a", Some("long")).expect("it was said");
        assert!(kept.len() <= TEXT_MAX && kept.starts_with('…') && kept.ends_with('ü'), "{}", kept.len());
        output.trip("a", Some(&"long".into()));
        for n in 0..3 * RUNS_MAX * SHARDS {
            output.record("a", Some(&format!("r{n}")), "x");
        }
        assert_eq!(output.0.iter().map(|part| part.lock().expect("a part").runs.len()).max(), Some(RUNS_MAX));
        assert!(output.of("a", Some("long")).is_some(), "a tripped run's words are wanted");
        assert_eq!(output.of("a", Some("r0")), None);
    }
}
