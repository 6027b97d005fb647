//! Reads the journal twice: first who is in it and by which rules each was judged last, then every record through all settings at
//! once. Only agents' states are in memory, and of so many agents at most.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use estop_core::engine::Snapshot;
use estop_core::event::EventKind;
use estop_core::ids::Name;
use estop_core::policy::{LoopPolicy, Policy};
use estop_core::system::proof_test::CANARY;
use estop_journal::{Base, Checker, Head, Record, SYSTEM, Tuning, lines_of};
use estop_store::segments::JournalReader;

use super::setting::settings_around;
use crate::lines::Lines;
use crate::refused;

/// Agents that are judged, those with the most records. Each may take some megabytes: a state for each setting.
const AGENTS_MAX: usize = 50;
/// What happened before the first moment that counts only fills the windows.
const WARM_UP_MS: i64 = 86_400_000;
/// How a record begins to say that rules were changed; quotes inside texts are escaped.
const RULES_CHANGED: &str = r#""event":{"type":"policy_changed""#;

/// Where the journal is.
pub(super) enum Source {
    /// In the data directory.
    Stored(JournalReader),
    /// In a file, exported.
    File(PathBuf),
}

type EachLine<'a> = &'a mut dyn FnMut(&[u8]) -> anyhow::Result<()>;

impl Source {
    /// Gives every whole line, without its end.
    fn lines(&self, what: &'static str, each: EachLine<'_>) -> anyhow::Result<()> {
        match self {
            Source::Stored(journal) => {
                let mut problem = None;
                let mut take = |lines: &[u8]| {
                    let mut all = lines_of(lines);
                    problem = all.find_map(|line| each(line).err());
                    problem.is_none()
                };
                journal.export(&mut take).context("the journal cannot be read")?;
                problem.map_or(Ok(()), Err)
            }
            Source::File(file) => {
                let mut lines = Lines::open(file, what)?;
                while let Some((_, line)) = lines.next_line()? {
                    // What has no end is still being written.
                    let Some(line) = line.strip_suffix(b"\n") else { break };
                    each(line)?;
                }
                Ok(())
            }
        }
    }
}

/// Who is in a journal.
#[derive(Default)]
pub(super) struct Survey {
    agents: BTreeMap<Name, Known>,
    /// When the newest record was written.
    pub(super) newest: i64,
}

#[derive(Default)]
struct Known {
    records: u64,
    /// The rules in force.
    policy: Box<Policy>,
}

/// Looks who is in it. An exported journal that was changed is refused; the stored one is checked by its reader.
pub(super) fn survey(source: &Source) -> anyhow::Result<Survey> {
    let (mut survey, mut newest) = (Survey::default(), Vec::new());
    let mut checker = matches!(source, Source::File(_)).then(Checker::default);
    source.lines("looking", &mut |line| {
        if let Some(Err(error)) = checker.as_mut().map(|checker| checker.take(line)) {
            return refused(format!("this is no journal that can be judged: {error}"));
        }
        let Some(head) = Head::read(line) else { return survey.take_base(line) };
        newest.clear();
        newest.extend_from_slice(line);
        if head.agent == SYSTEM || head.agent == CANARY {
            return Ok(());
        }
        match survey.agents.get_mut(head.agent) {
            Some(known) => known.records += 1,
            None => drop(survey.agents.insert(head.agent.into(), Known { records: 1, ..Known::default() })),
        }
        survey.take_rules(head.agent, line)
    })?;
    if !newest.is_empty() {
        survey.newest = Record::parse(&newest)?.now.wall;
    }
    Ok(survey)
}

impl Survey {
    /// The state of an agent whose first records are gone.
    fn take_base(&mut self, line: &[u8]) -> anyhow::Result<()> {
        // Lines of segments are none.
        if let Ok(base) = Base::parse(line) {
            let policy = Box::new(Snapshot::read(base.state.get().as_bytes())?.policy);
            self.agents.insert(base.agent.as_ref().into(), Known { records: 0, policy });
        }
        Ok(())
    }

    fn take_rules(&mut self, agent: &str, line: &[u8]) -> anyhow::Result<()> {
        if !std::str::from_utf8(line)?.contains(RULES_CHANGED) {
            return Ok(());
        }
        let changed = Record::parse(line)?.event.map(|event| event.what);
        if let (Some(EventKind::PolicyChanged { policy, .. }), Some(known)) =
            (changed, self.agents.get_mut(agent))
        {
            known.policy = policy;
        }
        Ok(())
    }

    /// The name of an agent, as it stands in the journal.
    pub(super) fn name_of(&self, agent: &str) -> Option<Name> {
        self.agents.keys().find(|name| name.eq_ignore_ascii_case(agent)).cloned()
    }
}

/// An agent that was judged.
pub(super) struct Judged {
    pub(super) name: Name,
    pub(super) policy: Box<Policy>,
    pub(super) settings: Vec<LoopPolicy>,
    pub(super) tuning: Tuning,
}

/// Everything that was judged.
pub(super) struct Reading {
    /// In order of name.
    pub(super) agents: Vec<Judged>,
    /// Agents with fewer records, which were not, with how many they have.
    pub(super) left_out: Vec<(Name, u64)>,
}

/// Judges the records of `only`, or of everybody, by every setting. What is older than `since` only fills the windows.
pub(super) fn judge(
    source: &Source,
    survey: Survey,
    only: Option<&str>,
    since: i64,
) -> anyhow::Result<Reading> {
    let mut known: Vec<(Name, Known)> = survey.agents.into_iter().collect();
    known.retain(|(name, _)| only.is_none_or(|only| **name == *only));
    known.sort_by(|(a, x), (b, y)| y.records.cmp(&x.records).then_with(|| a.cmp(b)));
    let left_out = known.split_off(known.len().min(AGENTS_MAX));
    let left_out = left_out.into_iter().map(|(name, known)| (name, known.records)).collect();
    let judged = |(name, Known { policy, .. }): (Name, Known)| {
        let settings = settings_around(&policy.loops);
        let tuning = Tuning::new(&policy, settings.iter().cloned(), since);
        (name.clone(), Judged { name, policy, settings, tuning })
    };
    let mut agents: BTreeMap<Name, Judged> = known.into_iter().map(judged).collect();
    source.lines("judging", &mut |line| {
        let Some(judged) = Head::read(line).and_then(|head| agents.get_mut(head.agent)) else {
            return Ok(());
        };
        let record = Record::parse(line)?;
        if record.now.wall >= since.saturating_sub(WARM_UP_MS) {
            judged.tuning.feed(&record);
        }
        Ok(())
    })?;
    Ok(Reading { agents: agents.into_values().collect(), left_out })
}
