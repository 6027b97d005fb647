//! Relays of messages as `estop serve` reads them, and where they lead (KS-10). What is refused is in
//! `config/serve_relays.txt`.

use estop_config::{Env, ServeConfig};
use secrecy::ExposeSecret;

#[track_caller]
fn with_env(yaml: &str, variables: &[(&str, &str)]) -> ServeConfig {
    let env: Env = [("HOME", "/home/me")].iter().chain(variables).copied().collect();
    estop_config::parse_serve(yaml, "estop.yaml", &env).expect("the configuration is accepted")
}

#[test]
fn ks_10_a_platform_is_known_by_its_kind() {
    let yaml = "relays: {t: {kind: telegram}, s: {kind: slack}, d: {kind: discord}, g: {out: 'https://x/y'}}";
    let config = with_env(yaml, &[]);
    let out = |name: &str| config.relays[name].out.as_ref().map(ToString::to_string).unwrap_or_default();
    assert_eq!(out("t"), "https://api.telegram.org");
    assert_eq!(out("s"), "https://slack.com/api");
    assert_eq!(out("d"), "https://discord.com/api");
    assert_eq!(out("g"), "https://x/y");
    for (name, relay) in &config.relays {
        assert_eq!(*relay.agent, **name, "messages are its own agent's");
        assert_eq!((relay.concurrency, relay.into.is_none(), relay.secret.is_none()), (100, true, true));
    }
    assert!(with_env("", &[]).relays.is_empty());
}

#[test]
fn ks_10_a_relay_says_what_differs() {
    let yaml = "
relays:
  hooks: {kind: slack, out: 'https://hooks.slack.com', in: 'http://127.0.0.1:8080/slack', agent: coder,
          secret_path_env: SLACK_PATH, concurrency: 7}
agents: {coder: {}}";
    let secret = "0123456789abcdef_-ABCDEF";
    let over = [("SLACK_PATH", secret), ("ESTOP_RELAYS__HOOKS__CONCURRENCY", "9")];
    let config = with_env(yaml, &over);
    let relay = &config.relays["hooks"];
    let shown =
        |url: &Option<estop_config::BaseUrl>| url.as_ref().map(ToString::to_string).unwrap_or_default();
    assert_eq!(shown(&relay.out), "https://hooks.slack.com");
    assert_eq!(shown(&relay.into), "http://127.0.0.1:8080/slack");
    assert_eq!((&*relay.agent, relay.concurrency), ("coder", 9));
    assert_eq!(relay.secret.as_ref().map(ExposeSecret::expose_secret), Some(secret));
    assert!(!format!("{config:?}").contains(secret), "a secret shows itself nowhere");
    let settings = estop_daemon::wiring::settings(&config).expect("it can be wired");
    let wired = &settings.relays["hooks"];
    let out = wired.out.as_ref().expect("it has one");
    assert_eq!((&*out.host, out.port, out.tls, &*out.base_path), ("hooks.slack.com", 443, true, ""));
    let into = wired.into.as_ref().expect("it has one");
    assert_eq!((&*into.host, into.port, into.tls, &*into.base_path), ("127.0.0.1", 8080, false, "/slack"));
    assert!(into.key.is_none() && out.key.is_none());
}
