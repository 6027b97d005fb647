//! Requests that a browser sends for a web page: refused on the whole data plane, whoever's key they would spend.
//!
//! Agents are programs. A page that reaches this port comes from somewhere else, and what it posts would be judged as the
//! agent's doing: a hundred requests would switch an agent off. Browsers say where a request comes from, in headers that
//! no page can set (`Sec-Fetch-Site`, `Origin`); other clients send neither. A web app that is meant to use estop is
//! named in `listen.allowed_origins`.

use std::net::IpAddr;

use http::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use http::request::Parts;

use crate::auth::http_checks::BadHead;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

const REFUSED: BadHead = BadHead {
    status: 403,
    code: "cross_site",
    message: "A web page of another site may not use estop. If this is an app of yours, add the origin it sends (the \
        header Origin) to listen.allowed_origins and start estop again.",
};

/// The origins whose pages may use the data plane. Shared by all workers.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllowedOrigins(std::sync::Arc<[Box<str>]>);

impl From<Vec<Box<str>>> for AllowedOrigins {
    fn from(origins: Vec<Box<str>>) -> AllowedOrigins {
        AllowedOrigins(origins.into())
    }
}

impl AllowedOrigins {
    fn contains(&self, origin: &str) -> bool {
        self.0.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
    }

    /// Refuses what a browser sends for a page of another origin. Looks at the head alone: nothing is counted, and no
    /// agent is made.
    pub(crate) fn check(&self, head: &Parts) -> Result<(), BadHead> {
        if self.is_foreign(head) { Err(REFUSED) } else { Ok(()) }
    }

    /// The same for what comes in by a relay, where a browser may be sent to the app at the end of a sign-in: a
    /// navigation that changes nothing passes.
    pub(crate) fn check_webhook(&self, head: &Parts) -> Result<(), BadHead> {
        let navigates = head.headers.get(SEC_FETCH_MODE).is_some_and(|mode| mode == "navigate");
        if head.method.is_safe() && navigates { Ok(()) } else { self.check(head) }
    }

    fn is_foreign(&self, head: &Parts) -> bool {
        let mut origins = head.headers.get_all(ORIGIN).iter().peekable();
        let names_origin = origins.peek().is_some();
        let mut is_listed = names_origin;
        for origin in origins {
            let origin = origin.to_str().unwrap_or_default();
            let listed = self.contains(origin);
            if !listed && !is_ours(origin, head) {
                return true;
            }
            is_listed &= listed;
        }
        // A request without an origin (an image, a link) and one from here still say from what kind of site they come.
        let says_foreign = |site: &HeaderValue| site != "same-origin" && site != "none";
        !is_listed && head.headers.get_all(SEC_FETCH_SITE).iter().any(says_foreign)
    }
}

/// Whether an origin is this listener itself, as the client wrote it. Only an address or a name of this machine counts:
/// any other name could have been pointed here by whoever owns it.
fn is_ours(origin: &str, head: &Parts) -> bool {
    let named = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    let Some(host) = named.or_else(|| head.uri.authority().map(http::uri::Authority::as_str)) else {
        return false;
    };
    let here = origin.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"));
    here.is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host)) && is_fixed(host)
}

/// Whether nobody else can point this host somewhere: an address, or a name of this machine.
fn is_fixed(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let last = name.rsplit('.').next().unwrap_or(name);
    name.parse::<IpAddr>().is_ok() || last.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(allowed: &[&str], host: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = http::Request::post("/openai/v1/chat/completions").header(HOST, host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        let allowed: Vec<Box<str>> = allowed.iter().map(|origin| Box::from(*origin)).collect();
        AllowedOrigins::from(allowed).check(&head).is_err()
    }

    #[test]
    fn se_2_only_what_no_page_sent_passes() {
        let host = "127.0.0.1:4100";
        for headers in [
            &[][..],
            &[("sec-fetch-site", "none")],
            &[("sec-fetch-site", "same-origin")],
            &[("sec-fetch-mode", "cors")],
            &[("origin", "http://127.0.0.1:4100"), ("sec-fetch-site", "same-origin")],
        ] {
            assert!(!is_refused(&[], host, headers), "{headers:?}");
        }
        for headers in [
            &[("sec-fetch-site", "cross-site")][..],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "Cross-Site")],
            &[("sec-fetch-site", "")],
            &[("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")],
            &[("origin", "https://evil.example")],
            &[("origin", "null")],
            &[("origin", "")],
            &[("origin", "http://127.0.0.1:3000")],
            &[("origin", "http://localhost:4100")],
            &[("origin", "http://127.0.0.1:4100"), ("origin", "https://evil.example")],
            &[("origin", "http://127.0.0.1:4100"), ("sec-fetch-site", "cross-site")],
            &[("origin", "file://127.0.0.1:4100")],
        ] {
            assert!(is_refused(&[], host, headers), "{headers:?}");
        }
    }

    #[test]
    fn se_2_a_listed_origin_passes_and_no_other() {
        let allowed = ["http://localhost:3000", "app://notes"];
        let host = "127.0.0.1:4100";
        let from = |origin| [("origin", origin), ("sec-fetch-site", "cross-site")];
        assert!(!is_refused(&allowed, host, &from("http://localhost:3000")));
        assert!(!is_refused(&allowed, host, &from("app://notes")));
        assert!(is_refused(&allowed, host, &from("http://localhost:3001")));
        assert!(is_refused(&allowed, host, &from("http://localhost:3000.evil.example")));
        let both = [("origin", "app://notes"), ("origin", "https://evil.example")];
        assert!(is_refused(&allowed, host, &both));
        // Without an origin nobody knows which page it is.
        assert!(is_refused(&allowed, host, &[("sec-fetch-site", "cross-site")]));
    }

    #[test]
    fn se_2_a_name_pointed_here_is_not_here() {
        let own = [("origin", "http://evil.example:4100"), ("sec-fetch-site", "same-origin")];
        assert!(is_refused(&[], "evil.example:4100", &own));
        for host in ["10.1.2.3:4100", "[::1]:4100", "estop.localhost:4100"] {
            let origin = format!("http://{host}");
            let headers = [("origin", origin.as_str()), ("sec-fetch-site", "same-origin")];
            assert!(!is_refused(&[], host, &headers), "{host}");
        }
    }
}
