//! "Did you mean …?"

/// The candidate that is probably meant by `word`: a typing error away, or the only one that begins alike.
pub fn closest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str> + Clone) -> Option<&'c str> {
    /// Nobody mistypes a longer word, and comparing costs the product of both lengths.
    const WORD_BYTES_MAX: usize = 64;
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let word = plain(word);
    mistyped(&word, candidates.clone()).or_else(|| abbreviated(&word, candidates))
}

fn mistyped<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // One error in four letters: at half, `strct` finds nothing; at double, `usd_per_week` finds `usd_per_day`.
    let errors_max = (word.chars().count() / 4).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, &plain(candidate)), candidate))
        .filter(|(errors, _)| *errors <= errors_max)
        .min_by_key(|(errors, _)| *errors)
        .map(|(_, candidate)| candidate)
}

/// `monday` for `mon`, `loop_window` for `loop_window_size`.
fn abbreviated<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    const LETTERS_MIN: usize = 3;
    let mut alike = candidates.into_iter().filter(|candidate| {
        let candidate = plain(candidate);
        word.len().min(candidate.len()) >= LETTERS_MIN
            && (word.starts_with(&candidate) || candidate.starts_with(word))
    });
    alike.next().filter(|_| alike.next().is_none())
}

/// Case and kind of dash are the most common errors, and cost nothing here.
fn plain(word: &str) -> String {
    word.to_lowercase().replace(['-', ' '], "_")
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn finds_typing_errors_and_nothing_else() {
        let keys = ["max_tool_calls", "max_turns", "usd_per_day", "strict", "watch", "mon"];
        let found = |word| closest(word, keys);
        assert_eq!(found("max_tool_call"), Some("max_tool_calls"));
        assert_eq!(found("Max-Tool-Calls"), Some("max_tool_calls"));
        assert_eq!(found("mxa_turns"), Some("max_turns"));
        assert_eq!(found("strct"), Some("strict"));
        assert_eq!(found("monday"), Some("mon"));
        assert_eq!(found("usd"), Some("usd_per_day"));
        assert_eq!(found("max_"), None, "two begin so");
        assert_eq!(found("usd_per_week"), None);
        assert_eq!(found(""), None);
        assert_eq!(found(&"x".repeat(1000)), None);
    }
}
