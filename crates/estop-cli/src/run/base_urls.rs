//! The variables that SDKs and clients read for the base URL of their models.
//!
//! What the person set is not thrown away blindly: a URL of a provider we know goes to that provider through estop, one we do
//! not know stays, and it is said that estop does not see those calls. Sending them to another provider would hand it a
//! key that is not its.

use std::collections::BTreeMap;

use estop_config::Provider;

use super::environment::Environment;

/// Where the providers are under estop.
pub(super) struct BaseUrls<'a> {
    pub(super) data_url: &'a str,
    /// With the run's ticket.
    pub(super) base: &'a str,
    pub(super) providers: &'a BTreeMap<String, Provider>,
}

/// Variable, provider, and what its clients expect after the provider. Measured with the real clients.
const VARIABLES: &[(&str, &str, &str)] = &[
    ("OPENAI_BASE_URL", "openai", "/v1"),
    ("OPENAI_API_BASE", "openai", "/v1"),
    ("OPENAI_HOST", "openai", ""),
    ("ANTHROPIC_BASE_URL", "anthropic", ""),
    ("ANTHROPIC_HOST", "anthropic", ""),
    ("GOOGLE_GEMINI_BASE_URL", "gemini", ""),
    ("GOOGLE_HOST", "gemini", ""),
    ("OLLAMA_HOST", "ollama", ""),
];
/// Only where the person set it: it makes the client use another provider than its own.
const IF_SET: &[(&str, &str, &str)] = &[("COPILOT_PROVIDER_BASE_URL", "openai", "/v1")];
/// Proxies that would be asked for estop's own address.
const PROXIES: &[&str] = &["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
const NO_PROXY: &[&str] = &["NO_PROXY", "no_proxy"];
/// Claude Code asks elsewhere then.
const ELSEWHERE: &[&str] = &["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"];

impl BaseUrls<'_> {
    /// A provider under estop.
    pub(super) fn of(&self, provider: &str, rest: &str) -> String {
        format!("{}/{provider}{rest}", self.base)
    }

    /// The same URL through estop; `None` if its host is none of the providers.
    fn through(&self, url: &str) -> Option<String> {
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let uri: http::Uri = url.parse().ok()?;
        let is_https = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let host = uri.host()?.trim_matches(['[', ']']).to_ascii_lowercase();
        let same_machine = |a: &str, b: &str| a == b || (is_local(a) && is_local(b));
        let path = uri.path().trim_end_matches('/');
        self.providers.iter().find_map(|(name, provider)| {
            let at = &provider.base_url;
            let is_there = same_machine(at.host(), &host) && at.port() == port && at.is_https() == is_https;
            let rest =
                path.strip_prefix(at.path()).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
            is_there.then(|| self.of(name, rest))
        })
    }
}

fn is_local(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "::1" | "0.0.0.0")
}

/// Sets them.
pub(super) fn set(environment: &mut Environment, urls: &BaseUrls<'_>) {
    for (variable, provider, rest) in VARIABLES {
        match environment.variable(variable) {
            None => environment.set(variable, &urls.of(provider, rest)),
            Some(given) => replace(environment, urls, variable, &given),
        }
    }
    for (variable, ..) in IF_SET {
        if let Some(given) = environment.variable(variable) {
            replace(environment, urls, variable, &given);
        }
    }
    for variable in ELSEWHERE {
        if environment.variable(variable).is_some() {
            environment.say(format!("{variable} is set: model calls to that cloud do NOT go through estop."));
        }
    }
    leave_out_proxies(environment);
}

fn replace(environment: &mut Environment, urls: &BaseUrls<'_>, variable: &str, given: &str) {
    let under = given.strip_prefix(urls.data_url).filter(|rest| rest.starts_with('/'));
    match under {
        // Of the run around this one.
        Some(rest) if rest.starts_with("/runs/") => {
            let tail = rest.splitn(4, '/').nth(3).unwrap_or_default();
            environment.set(variable, &format!("{}/{tail}", urls.base));
        }
        Some(_) => environment.say(format!(
            "{variable} leads to estop already ({}) and stays: what it carries counts for that agent, not in this run.",
            shown(given)
        )),
        None => match urls.through(given) {
            Some(through) => environment.set(variable, &through),
            None => environment.say(format!(
                "{variable} ({}) stays: estop knows no provider there, so these model calls do NOT go through it. Add it \
                 under `providers:` of its configuration, or unset the variable.",
                shown(given)
            )),
        },
    }
}

/// Scheme and host of a URL. The rest may hold a password or a key.
fn shown(url: &str) -> String {
    let whole = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let uri: Option<http::Uri> = whole.parse().ok();
    match uri.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.host()?))) {
        Some((scheme, host)) => format!("{scheme}://{host}"),
        None => "no URL".to_owned(),
    }
}

/// estop's own address is asked directly.
fn leave_out_proxies(environment: &mut Environment) {
    if !PROXIES.iter().any(|proxy| environment.variable(proxy).is_some()) {
        return;
    }
    for variable in NO_PROXY {
        let given = environment.variable(variable).map(|given| format!("{given},")).unwrap_or_default();
        environment.set(variable, &format!("{given}127.0.0.1,localhost,::1"));
    }
}

#[cfg(test)]
mod tests {
    use estop_config::Env;

    use super::*;

    #[test]
    fn tl_2_a_known_providers_url_goes_to_that_provider_through_estop() {
        let config = estop_config::load_serve(None, &Env::of_process()).expect("the defaults are good");
        let base = "http://127.0.0.1:4100/runs/t";
        let urls = BaseUrls { data_url: "http://127.0.0.1:4100", base, providers: &config.providers };
        let through = |url: &str| urls.through(url).map(|url| url.replace(base, ""));
        assert_eq!(through("https://openrouter.ai/api/v1"), Some("/openrouter/v1".into()));
        assert_eq!(through("https://api.openai.com/v1/"), Some("/openai/v1".into()));
        assert_eq!(through("localhost:11434"), Some("/ollama".into()));
        assert_eq!(through("https://api.groq.com/openai/v1"), Some("/groq/v1".into()));
        assert_eq!(through("https://models.example/v1"), None, "its key is nobody else's");
        assert_eq!(through("http://api.openai.com/v1"), None, "in clear");
    }

    #[test]
    fn tl_2_what_is_said_of_a_url_has_no_password_and_no_key() {
        for (url, said) in [
            ("https://me:secret@models.example:8443/v1?key=secret", "https://models.example"),
            ("https://models.example?key=secret", "https://models.example"),
            ("me:secret@localhost:11434/secret", "http://localhost"),
            ("https://me:sec/ret@models.example", "https://me"),
            ("/secret", "no URL"),
        ] {
            assert_eq!(shown(url), said);
        }
    }
}
