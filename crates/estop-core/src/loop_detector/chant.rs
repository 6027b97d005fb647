//! Chanting (LD-6e): the same words over and over inside one streamed answer.
//!
//! The text arrives in pieces of any size; the finding does not depend on where it was cut. It is read as
//! *symbols*: a run of whitespace is one symbol, a run of digits is one symbol that remembers its number,
//! every other char is itself. Text chants with period `p` when each symbol equals the one `p` before it.
//!
//! ```
//! let mut detector = estop_core::loop_detector::chant::ChantDetector::default();
//! let finding = (0..200).find_map(|_| detector.push("yes agree\n"));
//! assert_eq!(finding.map(|chant| chant.period_chars), Some(10));
//! ```
//!
//! How a period is found. Every `SEARCH_EVERY` symbols, `search` takes the period that explains the
//! longest stretch back from the newest symbol. From then on each symbol costs one comparison, until one
//! differs. This cannot settle on a wrong period: a text with smallest period `p` that also matched with
//! `d < p` over `p` symbols would, by Fine and Wilf, have the smaller period gcd(d, p). So a wrong `d`
//! breaks within `p` symbols, and once two copies have been seen `p` itself explains more than any `d`.
//!
//! How much is too much depends on what repeats, see `Unit`: prose is judged early, data, rules and code
//! fences late, numbers that differ never (except a counter in prose). It never judges meaning: the same
//! thought in other words is not found here.

use serde::{Deserialize, Serialize};

use crate::steps;

/// The longest unit that is recognised. Chosen: a paragraph. Double it and the memory doubles.
const PERIOD_MAX: usize = 1_000;
/// Symbols remembered. Two copies of the longest unit, so that it wins over any shorter false period.
const RECENT_MAX: usize = 2_048;
/// Symbols between two searches. Chosen: half doubles the cost of healthy text, double cuts a second later.
const SEARCH_EVERY: u64 = 256;
/// A match this long is followed. Chosen: below [`CHANT_MIN`], so that following is never what delays.
const MATCH_MIN: usize = 256;
/// The shortest chant, in symbols. Half would hit song lyrics and lists, double wastes 130 tokens.
const CHANT_MIN: u64 = 512;
/// Copies of a short unit that make a chant.
const REPEATS_SHORT: u64 = 10;
/// From this many symbols on, fewer copies are enough …
const CHANT_LONG: u64 = 2_500;
/// … but at least this many.
const REPEATS_LONG: u64 = 5;
/// Inside a code fence repetition is often wanted (fixtures, tables of bytes), so it takes this much more.
const FENCE_FACTOR: u64 = 4;

/// Evidence of a chant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chant {
    /// Length of what repeats; a run of whitespace or digits counts as one char.
    pub period_chars: u32,
    /// How often it had been said, back to back.
    pub repeats: u32,
    /// How many chars of the answer had been read.
    pub at_char: u64,
}

/// Reads one streamed answer. At most about 4 kB, all of it allocated as text arrives.
#[derive(Clone, Debug, Default)]
pub struct ChantDetector {
    chars: u64,
    reader: Reader,
    fence: Fence,
    recent: Recent,
    followed: Option<Followed>,
    fired: bool,
}

impl ChantDetector {
    /// Reads the next piece. A chant is told once; after that the answer is `None` and nothing is read.
    pub fn push(&mut self, text: &str) -> Option<Chant> {
        if self.fired {
            return None;
        }
        for c in text.chars() {
            steps::add(1);
            self.chars += 1;
            self.fence.read(c);
            let (number, symbol) = self.reader.read(c);
            let chant = number.and_then(|n| self.take(n)).or_else(|| symbol.and_then(|s| self.take(s)));
            if chant.is_some() {
                *self = ChantDetector { fired: true, ..ChantDetector::default() };
                return chant;
            }
        }
        None
    }

    fn take(&mut self, symbol: u16) -> Option<Chant> {
        self.recent.push(symbol);
        if let Some(followed) = &mut self.followed {
            if !followed.extend(&self.recent) {
                self.followed = None;
            }
        } else if self.recent.total.is_multiple_of(SEARCH_EVERY) {
            self.followed = search(&self.recent);
        }
        let followed = self.followed.as_ref()?;
        let factor = if self.fence.is_open() { FENCE_FACTOR } else { 1 };
        let repeats = followed.repeats_if_chanting(factor)?;
        let period_chars = u32::try_from(followed.period).ok()?;
        Some(Chant { period_chars, repeats, at_char: self.chars })
    }
}

/// Turns chars into symbols.
#[derive(Clone, Debug, Default)]
struct Reader {
    /// The digit run being read, mixed into one number.
    number: Option<u16>,
    after_space: bool,
}

const SPACE: u16 = b' ' as u16;
/// Numbers use the 2,048 codes of the surrogates, which are no chars.
const NUMBERS: std::ops::RangeInclusive<u16> = 0xD800..=0xDFFF;

impl Reader {
    /// The number that `c` ended, and the symbol `c` is.
    fn read(&mut self, c: char) -> (Option<u16>, Option<u16>) {
        if let Some(digit) = c.to_digit(10) {
            // Odd factor and low bits kept: two numbers that differ in their last digit differ here.
            let mixed = self.number.unwrap_or(7).wrapping_mul(31).wrapping_add(digit as u16);
            self.number = Some(mixed);
            self.after_space = false;
            return (None, None);
        }
        let number = self.number.take().map(|mixed| NUMBERS.start() | (mixed & 0x7FF));
        if c.is_whitespace() {
            let first = !std::mem::replace(&mut self.after_space, true);
            return (number, first.then_some(SPACE));
        }
        self.after_space = false;
        // Beyond the BMP (emoji, rare scripts) a char is folded into private use: no letter, rarely equal.
        let symbol = u16::try_from(u32::from(c)).unwrap_or(0xE000 | (u32::from(c) & 0xFFF) as u16);
        (number, Some(symbol))
    }
}

/// A symbol without its number: what must be equal for two places to match.
fn shape(symbol: u16) -> u16 {
    if NUMBERS.contains(&symbol) { *NUMBERS.start() } else { symbol }
}

/// The newest [`RECENT_MAX`] symbols, as a ring.
#[derive(Clone, Debug, Default)]
struct Recent {
    ring: Vec<u16>,
    total: u64,
}

impl Recent {
    fn push(&mut self, symbol: u16) {
        match self.ring.get_mut(self.total as usize % RECENT_MAX) {
            Some(oldest) => *oldest = symbol,
            None => self.ring.push(symbol),
        }
        self.total += 1;
    }

    /// The symbol `distance` before the newest; `distance` must be below the number remembered.
    fn back(&self, distance: usize) -> u16 {
        self.ring[(self.total as usize - 1 - distance) % RECENT_MAX]
    }

    /// All of them as [`shape`]s, the newest first.
    fn shapes_newest_first<'a>(&self, buffer: &'a mut [u16; RECENT_MAX]) -> &'a [u16] {
        let (newer, older) = self.ring.split_at(self.total as usize % RECENT_MAX);
        let (first, second) = buffer.split_at_mut(newer.len());
        for (slot, symbol) in first.iter_mut().zip(newer.iter().rev()) {
            *slot = shape(*symbol);
        }
        for (slot, symbol) in second.iter_mut().zip(older.iter().rev()) {
            *slot = shape(*symbol);
        }
        &buffer[..self.ring.len()]
    }
}

/// The period with the longest match that ends at the newest symbol, if that is worth following.
///
/// The Z-function of the recent text read backwards: `z[d]` is how many of the newest symbols equal the one
/// `d` before them. Each round either copies a known value or moves `end` forward, so it is linear.
fn search(recent: &Recent) -> Option<Followed> {
    let mut buffer = [0; RECENT_MAX];
    steps::add(recent.ring.len());
    let backwards = recent.shapes_newest_first(&mut buffer);
    let mut z = [0; PERIOD_MAX + 1];
    let (mut start, mut end) = (0, 0);
    let (mut best_run, mut best_period) = (0, 0);
    for d in 1..backwards.len().min(PERIOD_MAX + 1) {
        let known = if d < end { z[d - start].min(end - d) } else { 0 };
        let later = backwards[known..].iter().zip(&backwards[d + known..]);
        let run = known + later.take_while(|(new, old)| new == old).count();
        steps::add(1 + run - known);
        if d + run > end {
            (start, end) = (d, d + run);
        }
        z[d] = run;
        if run > best_run {
            (best_run, best_period) = (run, d);
        }
    }
    (best_run >= MATCH_MIN).then(|| Followed::new(recent, best_period, best_run))
}

/// A period that has held so far. Runs count symbols that equal the one `period` before them.
#[derive(Clone, Copy, Debug)]
struct Followed {
    period: usize,
    /// Equal, numbers aside.
    run: u64,
    /// Equal, numbers included.
    exact_run: u64,
    /// Numbers in `run` that were not equal.
    changes: u64,
    limits: Limits,
}

impl Followed {
    fn new(recent: &Recent, period: usize, run: usize) -> Self {
        steps::add(2 * run + period);
        let changed = |&distance: &usize| recent.back(distance) != recent.back(distance + period);
        Followed {
            period,
            run: run as u64,
            exact_run: (0..run).find(changed).unwrap_or(run) as u64,
            changes: (0..run).filter(changed).count() as u64,
            limits: Unit::of(recent, period).limits(period),
        }
    }

    /// Takes the newest symbol. False if it breaks the period.
    fn extend(&mut self, recent: &Recent) -> bool {
        let (new, old) = (recent.back(0), recent.back(self.period));
        self.run += 1;
        self.exact_run += 1;
        if new != old {
            self.exact_run = 0;
            self.changes += 1;
        }
        shape(new) == shape(old)
    }

    fn repeats_if_chanting(&self, factor: u64) -> Option<u32> {
        // The first copy has nothing before it to be equal to.
        let period = self.period as u64;
        let (exact, loose) = (self.exact_run + period, self.run + period);
        let one_number_counts = || self.changes <= loose / period;
        let symbols = if exact >= self.limits.exact * factor {
            exact
        } else if loose >= self.limits.counting? * factor && one_number_counts() {
            loose
        } else {
            return None;
        };
        u32::try_from(symbols / period).ok()
    }
}

/// How many symbols of repetition make a chant.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// When nothing differs.
    exact: u64,
    /// When one number differs from copy to copy; `None` = never.
    counting: Option<u64>,
}

/// What repeats. Decides how much of it is healthy.
#[derive(Clone, Copy, Debug, Default)]
struct Unit {
    letters: usize,
    two_different_letters: bool,
    /// Chars that prose has few of: brackets, quotes, pipes, commas, box drawing, emoji.
    marks: usize,
    /// A space, or letters of a script that may do without.
    word_break: bool,
}

impl Unit {
    fn of(recent: &Recent, period: usize) -> Self {
        let mut unit = Unit::default();
        let mut first_letter = None;
        for symbol in (0..period).map(|distance| recent.back(distance)) {
            let c = char::from_u32(u32::from(symbol)).unwrap_or('0');
            if c.is_alphabetic() {
                unit.letters += 1;
                unit.two_different_letters |= *first_letter.get_or_insert(c) != c;
                unit.word_break |= !c.is_ascii();
            } else if c == ' ' {
                unit.word_break = true;
            } else if c != '0' && !".!?:;'-’…–—。！？：；，、".contains(c) {
                unit.marks += 1;
            }
        }
        unit
    }

    /// The factors are chosen against healthy text; each names what would be cut without it.
    fn limits(self, period: usize) -> Limits {
        let len = period as u64;
        let enough = (len * REPEATS_SHORT).min(CHANT_LONG).max(len * REPEATS_LONG).max(CHANT_MIN);
        let data = self.marks * 8 > period || !self.word_break;
        let (exact, counting) = match self {
            // Rules, padding, base64 of zeros, arrays of the same number: 4 kB of it is no layout.
            Unit { two_different_letters: false, .. } => (8, None),
            // `null, null, …`, `{"label":"O"},`, ACGTACGT: sparse data and labels of long batches.
            Unit { .. } if data => (4, None),
            // `Line 1`, `Test case 2: passed`: short enumerations.
            Unit { letters: ..16, .. } => (1, Some(8)),
            Unit { .. } => (1, Some(2)),
        };
        Limits { exact: enough * exact, counting: counting.map(|factor: u64| enough * factor) }
    }
}

/// Whether the text is inside a Markdown code fence. Decided at each end of line.
#[derive(Clone, Copy, Debug, Default)]
struct Fence {
    /// The marker that opened it, and how many of them.
    open: Option<(char, u32)>,
    line: Line,
}

/// What the current line has been so far.
#[derive(Clone, Copy, Debug, Default)]
enum Line {
    /// Nothing but indentation or quote marks.
    #[default]
    Blank,
    /// A run of fence markers, and what came after it.
    Marker { mark: char, count: u32, rest: Rest },
    /// Anything else.
    Text,
}

/// What came after the markers of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Nothing,
    Space,
    /// An info string such as `rust`.
    Info,
    /// A backtick: "```code```" within a line opens nothing.
    Backtick,
}

impl Fence {
    fn is_open(self) -> bool {
        self.open.is_some()
    }

    fn read(&mut self, c: char) {
        if c == '\n' {
            self.end_line();
            return;
        }
        self.line = match self.line {
            Line::Blank if c == '`' || c == '~' => Line::Marker { mark: c, count: 1, rest: Rest::Nothing },
            Line::Blank if c.is_whitespace() || c == '>' => Line::Blank,
            Line::Blank | Line::Text => Line::Text,
            Line::Marker { mark, count, rest: Rest::Nothing } if c == mark => {
                Line::Marker { mark, count: count.saturating_add(1), rest: Rest::Nothing }
            }
            Line::Marker { count: ..3, .. } => Line::Text,
            Line::Marker { mark, count, rest } => Line::Marker { mark, count, rest: rest.and(c) },
        };
    }

    fn end_line(&mut self) {
        let Line::Marker { mark, count: count @ 3.., rest } = std::mem::take(&mut self.line) else { return };
        let bare = matches!(rest, Rest::Nothing | Rest::Space);
        self.open = match self.open {
            None if rest != Rest::Backtick => Some((mark, count)),
            Some((open_mark, open_count)) if bare && mark == open_mark && count >= open_count => None,
            unchanged => unchanged,
        };
    }
}

impl Rest {
    fn and(self, c: char) -> Rest {
        match self {
            Rest::Backtick => Rest::Backtick,
            _ if c == '`' => Rest::Backtick,
            Rest::Nothing | Rest::Space if c.is_whitespace() => Rest::Space,
            Rest::Nothing | Rest::Space | Rest::Info => Rest::Info,
        }
    }
}
