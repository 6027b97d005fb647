//! What is refused at sight: hosts that are not this machine, pages of other sites, too many headers.
//!
//! The rule for hosts is the data plane's; the two planes share no code, so each has its own.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use http::request::Parts;

use crate::problem::{Kind, Problem};

/// Browsers send some twenty.
const HEADERS_MAX: usize = 64;

/// Looks at the head alone. `loopback`: the listener is reachable from this machine only.
pub(crate) fn screen(request: &Parts, loopback: bool) -> Result<(), Problem> {
    if request.headers.len() > HEADERS_MAX {
        let detail = format!("A request may have at most {HEADERS_MAX} headers.");
        return Err(Problem::new(Kind::TooManyHeaders, detail));
    }
    let host = host_of(request)?;
    if loopback && !is_loopback_name(&host) {
        let detail = "The Host header does not name this machine. estop listens on loopback only: use \
            http://127.0.0.1 or http://localhost.";
        return Err(Problem::new(Kind::WrongHost, detail));
    }
    Ok(())
}

/// A browser says which page a request comes from. Another site's page has no business here.
pub(crate) fn same_site(headers: &HeaderMap) -> Result<(), Problem> {
    let site = headers.get("sec-fetch-site").map(|value| value.to_str().unwrap_or_default());
    let from_here = site.is_none_or(|site| matches!(site, "same-origin" | "none"));
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let origin_fits = headers.get(ORIGIN).is_none_or(|origin| {
        let origin = origin.to_str().unwrap_or_default();
        origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
    });
    if from_here && origin_fits {
        return Ok(());
    }
    Err(Problem::new(Kind::Forbidden, "This request comes from a page of another site."))
}

/// The host the client asked for, without its port. Exactly one, and nothing in it that is not a host.
fn host_of(request: &Parts) -> Result<String, Problem> {
    let bad = |detail: &str| Problem::new(Kind::BadRequest, detail);
    let mut hosts = request.headers.get_all(HOST).iter();
    let named = match (hosts.next(), hosts.next()) {
        (Some(host), None) => {
            Some(host.to_str().map_err(|_| bad("The Host header has characters that no host has."))?)
        }
        (None, _) => None,
        (Some(_), Some(_)) => return Err(bad("There is more than one Host header: send one.")),
    };
    let authority = request.uri.authority().map(http::uri::Authority::as_str);
    let host = match (named, authority) {
        (Some(named), Some(authority)) if !named.eq_ignore_ascii_case(authority) => {
            return Err(bad("The Host header and :authority differ: send the same in both, or only one."));
        }
        (Some(host), _) | (None, Some(host)) => host,
        (None, None) => return Err(bad("The Host header is missing.")),
    };
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']');
    if host.is_empty() || !host.bytes().all(fits) {
        return Err(bad("The Host header has characters that no host has."));
    }
    let authority: http::uri::Authority =
        host.parse().map_err(|_| bad("The Host header is not a host with an optional port."))?;
    Ok(authority.host().trim_matches(['[', ']']).to_owned())
}

fn is_loopback_name(host: &str) -> bool {
    let lower = host.to_ascii_lowercase();
    let name = lower.strip_suffix('.').unwrap_or(&lower);
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}
