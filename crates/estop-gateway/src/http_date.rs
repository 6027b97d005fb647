//! The date as answers tell it, written once a second.

use std::cell::RefCell;
use std::time::{Duration, UNIX_EPOCH};

/// The last second that has a date of this form.
const LAST_SECOND: u64 = 253_402_300_799;

thread_local! {
    /// The second, and its date.
    static LAST: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
}

/// The date of a moment, in milliseconds since 1970.
pub(crate) fn with(wall: i64, tell: impl FnOnce(&[u8])) {
    let second = u64::try_from(wall).unwrap_or(0) / 1000;
    let second = second.min(LAST_SECOND);
    LAST.with_borrow_mut(|(last, date)| {
        if *last != second {
            *date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
            *last = second;
        }
        tell(date.as_bytes());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(wall: i64) -> String {
        let mut told = String::new();
        with(wall, |date| told = String::from_utf8_lossy(date).into_owned());
        told
    }

    #[test]
    fn a_date_is_that_of_its_second() {
        assert_eq!(date(784_111_777_000), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date(784_111_777_999), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date(784_111_778_000), "Sun, 06 Nov 1994 08:49:38 GMT");
        assert_eq!(date(-1), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date(i64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
