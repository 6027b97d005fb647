//! From a script to its lines: blocks unrolled, counters and sentences filled in, words split.

/// One line to play.
pub(super) struct Line {
    /// In the file.
    pub(super) number: usize,
    /// With counters filled in.
    pub(super) text: String,
}

/// One word; quotes keep spaces together.
#[derive(Clone, Debug, Default)]
pub(super) struct Word {
    pub(super) text: String,
    /// It began with a quote.
    pub(super) quoted: bool,
}

/// A counter of a `repeat`: its name and its round, from 1.
type Counter = (String, u64);

/// Unrolls the blocks of a script.
pub(super) fn expand(script: &str) -> Result<Vec<Line>, String> {
    let lines: Vec<(usize, &str)> = (1..).zip(script.lines()).collect();
    let mut out = Vec::new();
    let used = unroll(&lines, &mut Vec::new(), &mut out)?;
    if used < lines.len() {
        return Err(format!("line {}: `end` without `repeat`", lines[used].0));
    }
    Ok(out)
}

/// Plays lines until the `end` of their block; says how many it took.
fn unroll(
    lines: &[(usize, &str)],
    counters: &mut Vec<Counter>,
    out: &mut Vec<Line>,
) -> Result<usize, String> {
    let mut at = 0;
    while let Some(&(number, raw)) = lines.get(at) {
        let text = raw.trim();
        if text == "end" {
            return Ok(at);
        }
        at += 1;
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let Some(header) = text.strip_prefix("repeat ") else {
            out.push(Line { number, text: fill(text, number, counters) });
            continue;
        };
        let (times, name) = header.split_once(" as ").unwrap_or((header, "i"));
        let times: u64 = times.trim().parse().map_err(|_| format!("line {number}: repeat how often?"))?;
        let mut body = 0;
        for round in 1..=times {
            counters.push((name.trim().to_owned(), round));
            body = unroll(&lines[at..], counters, out)?;
            counters.pop();
        }
        at += body + 1;
        if at > lines.len() {
            return Err(format!("line {number}: `repeat` without `end`"));
        }
    }
    Ok(at)
}

/// Fills in `{i}`, `{i+3}`, `{i*2}`, `{i%2}` and `{words}`; other braces stay.
fn fill(text: &str, number: usize, counters: &[Counter]) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let filled =
            after.split_once('}').and_then(|(name, tail)| Some((value(name, number, counters)?, tail)));
        match filled {
            Some((value, tail)) => {
                out.push_str(&value);
                rest = tail;
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out + rest
}

fn value(name: &str, number: usize, counters: &[Counter]) -> Option<String> {
    if name == "words" {
        let seed = counters.iter().fold(number as u64, |seed, (_, round)| scrambled(seed ^ round << 20));
        return Some(sentence(seed));
    }
    let at = name.find(['+', '*', '%']).unwrap_or(name.len());
    let (name, operation) = name.split_at(at);
    let (_, round) = counters.iter().rev().find(|(counter, _)| counter == name)?;
    let operand = operation.get(1..).and_then(|digits| digits.parse::<u64>().ok());
    let result = match (operation.chars().next(), operand) {
        (None, _) => *round,
        (Some('+'), Some(operand)) => round + operand,
        (Some('*'), Some(operand)) => round * operand,
        (Some('%'), Some(operand)) => round % operand,
        (Some(_), _) => return None,
    };
    Some(result.to_string())
}

/// A number that looks random.
pub(super) fn scrambled(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^ (x >> 32)
}

/// Fourteen words that have nothing to do with those of another seed.
fn sentence(seed: u64) -> String {
    const WORDS: [&str; 48] = [
        "anchor", "basket", "copper", "desert", "engine", "forest", "garden", "harbor", "island", "jacket",
        "kettle", "ladder", "magnet", "needle", "orange", "pepper", "quartz", "ribbon", "saddle", "temple",
        "umpire", "velvet", "window", "yellow", "zipper", "bishop", "candle", "dragon", "effort", "falcon",
        "gravel", "helmet", "insect", "jungle", "kidney", "lumber", "meadow", "nephew", "oyster", "parrot",
        "rocket", "silver", "timber", "urchin", "violin", "walnut", "export", "zenith",
    ];
    let pick = |n: u64| WORDS[(scrambled(seed.wrapping_mul(31).wrapping_add(n)) % 48) as usize];
    (0..14).map(pick).collect::<Vec<_>>().join(" ")
}

/// Splits a line at spaces, quotes kept together; `\"` and `\n` inside quotes are what they are elsewhere.
pub(super) fn words(text: &str) -> Result<Vec<Word>, String> {
    let mut out: Vec<Word> = Vec::new();
    let mut word: Option<Word> = None;
    let mut in_quotes = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                word.get_or_insert_with(|| Word { quoted: true, ..Word::default() });
                in_quotes = !in_quotes;
            }
            '\\' if in_quotes => {
                let escaped = match chars.next() {
                    Some('n') => Some('\n'),
                    Some('r') => Some('\r'),
                    other => other,
                };
                word.get_or_insert_default().text.extend(escaped);
            }
            c if c.is_whitespace() && !in_quotes => out.extend(word.take()),
            c => word.get_or_insert_default().text.push(c),
        }
    }
    if in_quotes {
        return Err("a quote is not closed".to_owned());
    }
    out.extend(word);
    Ok(out)
}

/// Expectations are separated by commas outside quotes.
pub(super) fn split_expectations(text: &str) -> Vec<&str> {
    let mut in_quotes = false;
    let parts = text.split(|c| {
        in_quotes ^= c == '"';
        c == ',' && !in_quotes
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// `1h30m`, `5s`, `500ms` in milliseconds.
pub(super) fn duration_ms(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no time");
    let mut rest = text;
    let mut total = 0u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit_on) = rest.split_at(digits);
        let unit_len = unit_on.find(|c: char| c.is_ascii_digit()).unwrap_or(unit_on.len());
        let (unit, after) = unit_on.split_at(unit_len);
        let ms = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        total = total.saturating_add(number.saturating_mul(ms));
        rest = after;
    }
    Ok(total)
}

/// `2025-11-14T09:30` or `2025-11-14T09:30:15`, UTC, in milliseconds since 1970.
pub(super) fn wall_ms(text: &str) -> Result<i64, String> {
    let parts: Vec<i64> = text.split(['-', 'T', ':']).filter_map(|part| part.parse().ok()).collect();
    let [year, month, day, hour, minute, ref seconds @ ..] = parts[..] else {
        return Err(format!("`{text}` is no date"));
    };
    // Howard Hinnant's days-from-civil.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Ok(((days * 24 + hour) * 60 + minute) * 60_000 + seconds.first().unwrap_or(&0) * 1000)
}
