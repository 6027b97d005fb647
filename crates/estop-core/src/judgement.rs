//! A detector's judgement, before the guard's mode is applied. Detectors know nothing of modes or decisions.

/// How bad it is, and what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement<T> {
    /// How bad it is.
    pub level: Level,
    /// What was seen.
    pub seen: T,
}

/// How bad a judgement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing to say.
    Pass,
    /// Worth a word.
    Warn,
    /// Reason to stop.
    Stop,
}

impl<T> Judgement<T> {
    pub(crate) fn pass(seen: T) -> Judgement<T> {
        Judgement { level: Level::Pass, seen }
    }

    pub(crate) fn warn(seen: T) -> Judgement<T> {
        Judgement { level: Level::Warn, seen }
    }

    pub(crate) fn stop(seen: T) -> Judgement<T> {
        Judgement { level: Level::Stop, seen }
    }

    pub(crate) fn stop_if(stop: bool, seen: T) -> Judgement<T> {
        Judgement { level: if stop { Level::Stop } else { Level::Pass }, seen }
    }

    /// The same where there might have been nothing to see.
    pub(crate) fn some(self) -> Judgement<Option<T>> {
        Judgement { level: self.level, seen: Some(self.seen) }
    }
}

impl<T> Judgement<Option<T>> {
    /// Nothing to say, nothing to see.
    pub(crate) const CLEAR: Self = Judgement { level: Level::Pass, seen: None };
}
