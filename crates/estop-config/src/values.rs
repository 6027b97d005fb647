//! Single values of the configuration file. Each type accepts exactly what its key allows, so a wrong value is
//! refused where it stands.

use std::fmt;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, SocketAddr};

use estop_core::policy_file::Number;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// A value that stands in the file. A key without one could mean "none" as well as "not filled in yet".
pub(super) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    let value: Option<T> = Option::deserialize(d)?;
    value.map(Some).ok_or_else(|| D::Error::invalid_type(Unexpected::Unit, &"a value"))
}

/// Connections, streams, agents. A million is beyond one machine, so more is a typing error.
pub(super) type Count = Number<usize, 0, 1, 1_000_000>;
/// Headers of one request; the HTTP library holds no more than 32768.
pub(super) type HeaderCount = Number<usize, 0, 1, 32_768>;
/// Seconds in thousandths, up to a day.
pub(super) type Seconds = Number<u64, 3, 1, 86_400_000>;
/// The same, or not at all.
pub(super) type DrainSeconds = Number<u64, 3, 0, 86_400_000>;
/// US dollars for a million tokens, in billionths.
pub(super) type Rate = Number<u64, 9, 0, { estop_core::prices::RATE_MAX }>;
/// Tokens of one request or answer.
pub(super) type ModelTokens = Number<u32, 0, 1, { estop_core::prices::MODEL_TOKENS_MAX as u64 }>;
/// A body, or all bodies together: up to a tebibyte.
pub(super) type Bytes = Size<1, { 1 << 40 }>;
/// All headers of a request. The HTTP library reads at least 8 KiB at a time.
pub(super) type HeaderBytes = Size<{ 8 << 10 }, { 16 << 20 }>;

/// A number of bytes from `MIN` to `MAX`: `16777216`, `16MiB`, `64 KiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Size<MIN, MAX> {
    pub(super) fn get(self) -> u64 {
        self.0
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Size<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(SizeVisitor)
    }
}

struct SizeVisitor<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Visitor<'_> for SizeVisitor<MIN, MAX> {
    type Value = Size<MIN, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a size from {} to {}, in bytes or with KiB, MiB or GiB", size_text(MIN), size_text(MAX))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Size<MIN, MAX>, E> {
        self.within(Some(value)).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(value), &self))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Size<MIN, MAX>, E> {
        self.within(u64::try_from(value).ok())
            .ok_or_else(|| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Size<MIN, MAX>, E> {
        Err(E::invalid_value(Unexpected::Float(value), &self))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Size<MIN, MAX>, E> {
        self.within(bytes(value)).ok_or_else(|| E::invalid_value(Unexpected::Str(value), &self))
    }
}

impl<const MIN: u64, const MAX: u64> SizeVisitor<MIN, MAX> {
    fn within(&self, bytes: Option<u64>) -> Option<Size<MIN, MAX>> {
        bytes.filter(|bytes| (MIN..=MAX).contains(bytes)).map(Size)
    }
}

const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// `16MiB` in bytes. MB is left out: half of its readers mean MiB.
fn bytes(text: &str) -> Option<u64> {
    let (unit, shift) = UNITS.into_iter().find(|(unit, _)| text.ends_with(unit))?;
    let number = text.strip_suffix(unit)?.trim_end();
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// In the largest unit that leaves no fraction.
pub(super) fn size_text(bytes: u64) -> String {
    match UNITS.into_iter().find(|(_, shift)| bytes >= 1 << shift && bytes.is_multiple_of(1 << shift)) {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// What a text must be, and how it is read.
pub(super) trait Reading: Sized {
    /// The value, or what it must be instead.
    fn read(text: &str) -> Result<Self, &'static str>;
}

/// For `#[derive]`-free deserialization of every [`Reading`].
pub(super) fn from_text<'de, D: Deserializer<'de>, T: Reading>(d: D) -> Result<T, D::Error> {
    d.deserialize_str(TextVisitor(PhantomData))
}

struct TextVisitor<T>(PhantomData<T>);

impl<T: Reading> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a single value")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<T, E> {
        T::read(value).map_err(|expected| E::invalid_value(Unexpected::Str(value), &expected))
    }
}

/// An address to listen on. `localhost` is 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address(pub(super) SocketAddr);

impl Reading for Address {
    fn read(text: &str) -> Result<Address, &'static str> {
        let on_localhost = || {
            let port = text.strip_prefix("localhost:")?;
            let port = port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok())??;
            Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        };
        let address = on_localhost().or_else(|| text.parse().ok());
        address
            .map(Address)
            .ok_or("an IP address with a port, such as 127.0.0.1:4100, \"[::1]:4100\" or localhost:4100")
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Address, D::Error> {
        from_text(d)
    }
}

/// An origin as browsers send it: `http://localhost:3000`, `app://notes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin(pub(super) String);

impl Reading for Origin {
    fn read(text: &str) -> Result<Origin, &'static str> {
        const AN_ORIGIN: &str =
            "an origin: scheme, host and port of a web app, such as http://localhost:3000, without a path";
        // Any page can be made to send it, by a frame that is sandboxed.
        if text.eq_ignore_ascii_case("null") {
            return Err("an origin that belongs to one app: every site can send `null`");
        }
        if text.contains('*') {
            return Err("one origin, written out: `*` would let every site use estop");
        }
        let (scheme, host) = text.split_once("://").ok_or(AN_ORIGIN)?;
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let is_host = (1..=255).contains(&host.len())
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
        (is_scheme && is_host).then(|| Origin(text.to_owned())).ok_or(AN_ORIGIN)
    }
}

impl<'de> Deserialize<'de> for Origin {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Origin, D::Error> {
        from_text(d)
    }
}

/// A path as it is written; `~/` is still to be expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FilePath(pub(super) String);

impl Reading for FilePath {
    fn read(text: &str) -> Result<FilePath, &'static str> {
        let is_path = !text.is_empty() && !text.contains('\0');
        is_path.then(|| FilePath(text.to_owned())).ok_or("a path")
    }
}

impl<'de> Deserialize<'de> for FilePath {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<FilePath, D::Error> {
        from_text(d)
    }
}

/// The name of an environment variable that holds a key. A key itself is often put here by mistake, so what is
/// not plainly a name is refused, and never shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VariableName(pub(super) String);

impl VariableName {
    /// A key can look like a name in small letters (`gsk_…`); only one in capitals is shown.
    pub(super) fn shown(&self) -> String {
        if super::redact::is_plain_name(&self.0) {
            format!("environment variable {}", self.0)
        } else {
            "the environment variable it names".to_owned()
        }
    }
}

impl Reading for VariableName {
    fn read(text: &str) -> Result<VariableName, &'static str> {
        let is_word = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_name = !text.is_empty() && is_word && !text.starts_with(|c: char| c.is_ascii_digit());
        is_name
            .then(|| VariableName(text.to_owned()))
            .ok_or("the name of an environment variable, such as OPENAI_API_KEY, not the key itself")
    }
}

impl<'de> Deserialize<'de> for VariableName {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<VariableName, D::Error> {
        from_text(d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn se_2_an_origin_names_one_app() {
        for fits in ["http://localhost:3000", "https://app.example", "app://obsidian.md", "http://[::1]:3000"]
        {
            assert_eq!(Origin::read(fits), Ok(Origin(fits.to_owned())), "{fits}");
        }
        for refused in
            ["", "*", "null", "localhost:3000", "http://", "http://*.example", "http://a/", "http://a b"]
        {
            assert!(Origin::read(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, expected) in [
            ("16MiB", Some(16 << 20)),
            ("64 KiB", Some(64 << 10)),
            ("1GiB", Some(1 << 30)),
            ("16MB", None),
            ("1.5MiB", None),
            ("-1KiB", None),
            ("+1KiB", None),
            ("KiB", None),
            ("99999999999999999999MiB", None),
            ("99999999999TiB", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
        assert_eq!(size_text(1 << 40), "1TiB");
        assert_eq!(size_text(64 << 10), "64KiB");
        assert_eq!(size_text(1025), "1025");
    }
}
