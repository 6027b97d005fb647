//! Which share of the requests is looked at one by one: `off`, `all` or `1/100`.

use serde::Deserialize;
use serde::de::Deserializer;

use super::values::{Reading, from_text};

/// Which requests have a line in the log, or a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestShare {
    /// None.
    #[default]
    Off,
    /// One in so many; those that were refused or failed in any case.
    OneIn(u32),
}

impl<'de> Deserialize<'de> for RequestShare {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<RequestShare, D::Error> {
        from_text(d)
    }
}

/// More is as good as none.
const ONE_IN_MAX: u32 = 1_000_000;

impl Reading for RequestShare {
    fn read(text: &str) -> Result<RequestShare, &'static str> {
        const EXPECTED: &str = "off, all, or a share such as 1/100";
        match text {
            "off" => Ok(RequestShare::Off),
            "all" => Ok(RequestShare::OneIn(1)),
            _ => {
                let number = text.strip_prefix("1/").filter(|n| n.bytes().all(|byte| byte.is_ascii_digit()));
                let number = number.and_then(|number| number.parse().ok());
                let number = number.filter(|number| (1..=ONE_IN_MAX).contains(number));
                number.map(RequestShare::OneIn).ok_or(EXPECTED)
            }
        }
    }
}
