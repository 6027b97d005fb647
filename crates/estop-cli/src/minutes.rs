//! Times on the command line.

/// Minutes in `90m`, `2h` or `3d`.
pub(crate) fn minutes(text: &str) -> Result<u64, String> {
    let wrong = || "a time is a whole number of minutes, hours or days, as 90m, 2h or 3d".to_owned();
    let unit = match text.as_bytes().last() {
        Some(b'm') => 1,
        Some(b'h') => 60,
        Some(b'd') => 1440,
        Some(_) | None => return Err(wrong()),
    };
    let count: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    count.checked_mul(unit).filter(|minutes| *minutes > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn po_7_times_are_minutes_hours_or_days() {
        assert_eq!(minutes("90m"), Ok(90));
        assert_eq!(minutes("2h"), Ok(120));
        assert_eq!(minutes("7d"), Ok(10_080));
        for wrong in ["", "h", "2", "0h", "-1h", "2 h", "1.5h", "18446744073709551615d", "zwei\u{fc}"] {
            assert!(minutes(wrong).is_err(), "{wrong}");
        }
    }
}
