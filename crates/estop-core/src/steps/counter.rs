//! The count itself, and what tests of every crate share: patterns that are repeated, and the growth that is allowed.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
    static LIMIT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// So many steps were done. Panics above the limit of [`counted`], so that an input that is slow is found out early.
#[inline]
pub fn add(steps: usize) {
    let all = STEPS.get() + steps as u64;
    STEPS.set(all);
    assert!(all <= LIMIT.get(), "more than {} steps on this input", LIMIT.get());
}

/// The steps that this thread has done since it began to count.
pub fn taken() -> u64 {
    STEPS.get()
}

/// The steps that `run` takes on this thread; panics as soon as they are more than `limit`.
pub fn counted(limit: u64, run: impl FnOnce()) -> u64 {
    STEPS.set(0);
    LIMIT.set(limit);
    run();
    LIMIT.set(u64::MAX);
    STEPS.take()
}

/// The first of the lengths at which steps are counted, each ten times the one before, and the last.
const LENGTH_FIRST: usize = 10_000;
const LENGTH_LAST: usize = 1_000_000;
/// How many patterns are also tried at the last length: those with the most steps at the one before.
const LONG_PATTERNS: usize = 3;
/// Steps that are always allowed: what a call costs whatever its input is.
const BASE_STEPS: u64 = 4_000;

/// A reader took more steps on an input than it may, or panicked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{pattern:?} repeated to {length} bytes: more than {limit} steps, or a panic")]
pub struct NotLinear {
    /// The beginning of the pattern.
    pub pattern: String,
    /// Bytes of the input, about.
    pub length: usize,
    /// The steps it was allowed.
    pub limit: u64,
}

/// Runs `read` on every pattern, repeated to each length: steps may grow at most 1.1 times as fast as the input, and be at
/// most `per_byte` for a byte. Gives the first pattern that takes more. The costliest are also tried at the last length.
pub fn growth(patterns: &[String], per_byte: u64, read: impl Fn(&str)) -> Result<(), NotLinear> {
    growth_from(LENGTH_FIRST, patterns, per_byte, read)
}

/// The same from another first length, for readers that cost less until they have seen some of a text.
pub fn growth_from(
    first: usize,
    patterns: &[String],
    per_byte: u64,
    read: impl Fn(&str),
) -> Result<(), NotLinear> {
    let run = |pattern: &str, length: usize, limit: u64| {
        let text = pattern.repeat(length / pattern.len().max(1) + 1);
        let limit = limit.min(per_byte * text.len() as u64 + BASE_STEPS);
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| counted(limit, || read(&text))));
        LIMIT.set(u64::MAX);
        ran.map_err(|_| NotLinear { pattern: pattern.chars().take(80).collect(), length, limit })
    };
    let mut costs: Vec<(u64, &String)> = Vec::new();
    for pattern in patterns {
        let short = run(pattern, first, u64::MAX)?;
        costs.push((run(pattern, 10 * first, short * 11 + BASE_STEPS)?, pattern));
    }
    costs.sort_unstable_by(|a, b| b.cmp(a));
    let long = if 10 * first < LENGTH_LAST { LONG_PATTERNS } else { 0 };
    for (steps, pattern) in costs.into_iter().take(long) {
        run(pattern, LENGTH_LAST, steps * 11 + BASE_STEPS)?;
    }
    Ok(())
}

/// Patterns made of these pieces: each piece, and each two of them.
pub fn patterns(pieces: &[&str]) -> Vec<String> {
    let alone = pieces.iter().map(ToString::to_string);
    let pairs =
        pieces.iter().flat_map(|a| pieces.iter().filter(move |b| *b != a).map(move |b| format!("{a}{b}")));
    alone.chain(pairs).filter(|pattern| !pattern.is_empty()).collect()
}
