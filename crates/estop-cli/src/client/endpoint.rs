//! Where the running estop is: its owner's socket, or its admin port.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use estop_config::data_dir::socket;

/// An address of the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// The owner's socket, where only unlocking the button asks for a token.
    Socket(PathBuf),
    /// The admin port, in plain HTTP.
    Tcp { host: String, port: u16, authority: String },
}

/// What cannot be used to reach estop.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadTarget(pub(super) String);

impl Endpoint {
    /// The socket in a data directory.
    pub(crate) fn in_folder(folder: &Path) -> Endpoint {
        Endpoint::Socket(socket(folder))
    }

    /// From `http://host:port`.
    pub(crate) fn from_url(url: &str) -> Result<Endpoint, BadTarget> {
        let bad = |why: &str| BadTarget(format!("the URL `{url}` cannot be used: {why}"));
        let uri: http::Uri = url.parse().map_err(|_| bad("write it as http://127.0.0.1:4101"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(bad(
                    "this command speaks plain http only. On another machine, forward its admin port: \
                     ssh -L 4101:127.0.0.1:4101 HOST, then use http://127.0.0.1:4101",
                ));
            }
            Some(_) | None => return Err(bad("it must begin with http://")),
        }
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
        let authority = authority.ok_or_else(|| bad("write host and port, and nothing before them"))?;
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(bad("leave out what follows the port"));
        }
        Ok(Endpoint::Tcp {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(80),
            authority: authority.to_string(),
        })
    }

    /// The same, with the port written out: a hook's URL was written by hand, and port 80 is never meant.
    pub(super) fn from_url_with_port(url: &str) -> Result<Endpoint, BadTarget> {
        let endpoint = Endpoint::from_url(url.trim_end_matches('/')).ok();
        let has_port = |endpoint: &Endpoint| matches!(endpoint, Endpoint::Tcp { port, authority, .. } if authority.ends_with(&format!(":{port}")));
        endpoint.filter(has_port).ok_or_else(|| {
            BadTarget(format!(
                "the URL {url:?} cannot be used: write it as http://127.0.0.1:4101, the admin port"
            ))
        })
    }

    /// The data directory, if estop is on this machine.
    pub(crate) fn data_dir(&self) -> Option<&Path> {
        match self {
            Endpoint::Socket(path) => path.parent(),
            Endpoint::Tcp { .. } => None,
        }
    }

    /// What the header `host` says. Nobody looks at it behind the socket, but HTTP/1.1 has one.
    pub(super) fn host(&self) -> &str {
        match self {
            Endpoint::Socket(_) => "localhost",
            Endpoint::Tcp { authority, .. } => authority,
        }
    }

    /// Whether somebody listens there. It may still be starting; then it answers a little later.
    pub(crate) fn listens(&self) -> bool {
        match self {
            Endpoint::Socket(path) => UnixStream::connect(path).is_ok(),
            Endpoint::Tcp { host, port, .. } => std::net::TcpStream::connect((host.as_str(), *port)).is_ok(),
        }
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Endpoint::Socket(path) => path.display().fmt(f),
            Endpoint::Tcp { authority, .. } => write!(f, "http://{authority}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_cannot_be_used_are_refused_with_the_fix() {
        for (url, why) in [
            ("127.0.0.1:4101", "http://"),
            ("https://estop.example", "ssh -L"),
            ("http://me:secret@host:1", "nothing before"),
            ("http://host:1/api", "leave out"),
            ("ftp://host", "begin with http://"),
        ] {
            let error = Endpoint::from_url(url).expect_err(url).to_string();
            assert!(error.contains(why), "{url}: {error}");
        }
        let expected =
            Endpoint::Tcp { host: "::1".to_owned(), port: 4101, authority: "[::1]:4101".to_owned() };
        assert_eq!(Endpoint::from_url("http://[::1]:4101/").expect("it is a good URL"), expected);
    }

    #[test]
    fn tl_1_an_admin_port_is_named_by_host_and_port_and_nothing_else() {
        for (url, expected) in [
            ("http://127.0.0.1:4101", Some("http://127.0.0.1:4101")),
            ("http://[::1]:4101/", Some("http://[::1]:4101")),
            ("http://localhost", None),
            ("http://localhost:", None),
            ("http://localhost:99999", None),
            ("https://localhost:4101", None),
            ("http://me@localhost:4101", None),
            ("http://localhost:4101/api", None),
            ("http://localhost:4101?x", None),
            ("http://local host:4101", None),
            ("http://localhost:4101\r\nx: y", None),
            ("localhost:4101", None),
        ] {
            let found = Endpoint::from_url_with_port(url).ok().map(|endpoint| endpoint.to_string());
            assert_eq!(found.as_deref(), expected, "{url:?}");
        }
    }
}
