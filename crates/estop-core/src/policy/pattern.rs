//! Patterns of names in a policy: `*` stands for any run of characters.

/// Whether a name fits a pattern, in steps of at most the product of their lengths; the gateway keeps 256 bytes of a name.
/// Letters count without their case, as providers take them.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut in_pattern) = (0, 0);
    // Where the latest `*` stands, and how far it reaches so far.
    let mut star: Option<(usize, usize)> = None;
    while at < name.len() {
        crate::steps::add(1);
        match pattern.get(in_pattern) {
            Some(b'*') => {
                star = Some((in_pattern, at));
                in_pattern += 1;
            }
            Some(byte) if byte.eq_ignore_ascii_case(&name[at]) => {
                at += 1;
                in_pattern += 1;
            }
            Some(_) | None => {
                let Some((star_at, reached)) = star else { return false };
                star = Some((star_at, reached + 1));
                at = reached + 1;
                in_pattern = star_at + 1;
            }
        }
    }
    pattern[in_pattern..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn po_7_a_star_stands_for_any_run_of_characters() {
        for (pattern, name) in [
            ("gpt-5*", "gpt-5"),
            ("gpt-5*", "GPT-5-mini"),
            ("*", "anything"),
            ("*", ""),
            ("claude-*-4-*", "claude-sonnet-4-20250514"),
            ("*mini", "gpt-4o-mini"),
            ("a*b*c", "a-b-b-c"),
            ("gpt-4o", "gpt-4o"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("gpt-5*", "gpt-4o"),
            ("gpt-5*", "my-gpt-5"),
            ("gpt-4o", "gpt-4o-mini"),
            ("*mini", "minimax"),
            ("a*b*c", "a-c-b"),
            ("gpt-4o", ""),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn po_7_a_long_name_and_many_stars_take_no_time() {
        let pattern = "*a".repeat(60) + "b";
        assert!(!matches(&pattern, &"a".repeat(256)));
    }
}
