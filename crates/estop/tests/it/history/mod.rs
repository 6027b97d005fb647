//! What many people did to the red button at the same time, and whether there is one order of it that explains every
//! answer (linearizability, KS-1).
//!
//! Every accepted kill, restart and clear counts the epoch up by one, so the epochs of the answers are the order; what is
//! left to check is that the state follows the rules in this order, and that it fits to real time. A refusal names no
//! epoch: there must be a moment at which it was right.

#![allow(unreachable_pub, reason = "a test takes what it needs")]

use std::collections::BTreeMap;

/// What a client asked for. An unlock may name the epoch that its author saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Status,
    Kill,
    /// Of the channel of the models alone.
    KillLlm,
    Restart(Option<u64>),
    Clear(Option<u64>),
}

/// What it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// Done, or looked at: what it says of the system afterwards.
    Stands(Standing),
    /// The state was not the one it starts from.
    Illegal,
    /// Another epoch than the one that was seen.
    Stale,
}

/// How the system stands, as an answer says. Only a status says whether models may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub epoch: u64,
    pub state: State,
    pub llm_enabled: Option<bool>,
}

/// KS-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Running,
    Shutdown,
    SafeMode,
}

/// One question with its answer; the times are of one clock.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub asked: Asked,
    pub answered: Answered,
    pub start: u128,
    pub end: u128,
}

/// The system as the rules have it: written down once more, to hold the answers against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Model {
    state: State,
    /// The channel of the models was killed by itself, and stays shut when the system is cleared.
    llm_killed: bool,
}

impl Model {
    /// What this does at this epoch: the system afterwards, or the refusal.
    fn after(self, epoch: u64, asked: Asked) -> Result<Model, Answered> {
        let unlock = |from: State, to: Model, seen: Option<u64>| {
            if self.state != from {
                return Err(Answered::Illegal);
            }
            if seen.is_some_and(|seen| seen != epoch) { Err(Answered::Stale) } else { Ok(to) }
        };
        match asked {
            Asked::Status => Ok(self),
            Asked::Kill => Ok(Model { state: State::Shutdown, llm_killed: false }),
            Asked::KillLlm => Ok(Model { llm_killed: true, ..self }),
            Asked::Restart(seen) => unlock(State::Shutdown, Model { state: State::SafeMode, ..self }, seen),
            // While it runs, a clear opens what was killed by itself.
            Asked::Clear(seen) if self.state == State::Running && self.llm_killed => {
                unlock(State::Running, Model { llm_killed: false, ..self }, seen)
            }
            Asked::Clear(seen) => unlock(State::SafeMode, Model { state: State::Running, ..self }, seen),
        }
    }

    fn lets_models_pass(self) -> bool {
        self.state == State::Running && !self.llm_killed
    }
}

/// Whether one order explains the history of a system that was running at `first`, the epoch before it; else why not.
pub fn explained(first: u64, history: &[Done]) -> Result<(), String> {
    let stands = stands(first, history)?;
    in_real_time(&stands, history)
}

/// The system at each epoch, by the accepted changes in the order of their epochs.
fn stands(first: u64, history: &[Done]) -> Result<BTreeMap<u64, Model>, String> {
    let mut changes: BTreeMap<u64, &Done> = BTreeMap::new();
    for done in history.iter().filter(|done| done.asked != Asked::Status) {
        let Answered::Stands(standing) = done.answered else { continue };
        if let Some(other) = changes.insert(standing.epoch, done) {
            return Err(format!("two changes have the epoch {}: {done:?} and {other:?}", standing.epoch));
        }
    }
    let mut now = Model { state: State::Running, llm_killed: false };
    let mut all = BTreeMap::from([(first, now)]);
    for (before, (&epoch, done)) in (first..).zip(&changes) {
        if epoch != before + 1 {
            return Err(format!("after the epoch {before} comes {epoch}: {done:?}"));
        }
        now = now
            .after(before, done.asked)
            .map_err(|refusal| format!("must be refused ({refusal:?}): {done:?}"))?;
        all.insert(epoch, now);
    }
    Ok(all)
}

/// Gives every question the earliest place it can have after all that ended before it began.
fn in_real_time(stands: &BTreeMap<u64, Model>, history: &[Done]) -> Result<(), String> {
    let mut by_end: Vec<&Done> = history.iter().collect();
    by_end.sort_by_key(|done| done.end);
    let mut placed: Vec<(u128, Place)> = Vec::new();
    for done in by_end {
        let begin = Place { epoch: *stands.keys().next().unwrap_or(&0), is_look: false };
        let ended_before = placed.iter().filter(|(end, _)| *end < done.start).map(|(_, place)| *place);
        let earliest = ended_before.max().unwrap_or(begin);
        let place = place(stands, done, earliest)?;
        if place < earliest {
            return Err(format!(
                "something later was over before it began: {done:?} is at {place:?}, not {earliest:?}"
            ));
        }
        placed.push((done.end, place));
    }
    Ok(())
}

/// A place in the order: the change to an epoch, then what found it so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    epoch: u64,
    /// Not the change itself, which comes first.
    is_look: bool,
}

fn place(stands: &BTreeMap<u64, Model>, done: &Done, earliest: Place) -> Result<Place, String> {
    match done.answered {
        Answered::Stands(standing) => {
            let model =
                stands.get(&standing.epoch).ok_or_else(|| format!("no change led to it: {done:?}"))?;
            let says_models = standing.llm_enabled.is_none_or(|enabled| enabled == model.lets_models_pass());
            if model.state != standing.state || !says_models {
                return Err(format!("at this epoch it was {model:?}: {done:?}"));
            }
            Ok(Place { epoch: standing.epoch, is_look: done.asked == Asked::Status })
        }
        refusal @ (Answered::Illegal | Answered::Stale) => {
            let is_right = |(&epoch, model): (&u64, &Model)| {
                let right = match done.asked {
                    // It took the epoch of a moment and was refused a moment later.
                    Asked::Restart(None) | Asked::Clear(None) if refusal == Answered::Stale => {
                        epoch > earliest.epoch && model.after(epoch, done.asked).is_ok()
                    }
                    Asked::Status | Asked::Kill | Asked::KillLlm | Asked::Restart(_) | Asked::Clear(_) => {
                        model.after(epoch, done.asked) == Err(refusal)
                    }
                };
                right.then_some(Place { epoch, is_look: true })
            };
            let found = stands.range(earliest.epoch..).find_map(is_right);
            found.ok_or_else(|| format!("never right from {earliest:?} on: {done:?}"))
        }
    }
}
