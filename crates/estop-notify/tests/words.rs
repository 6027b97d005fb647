//! Each text word for word, as a person reads it (`words.txt`), and each payload as a service receives it
//! (`shapes.txt`). With ESTOP_WRITE=1 the files are written anew; look at the difference before you keep it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod house;

use std::sync::Arc;

use estop_core::money::NanoUsd;
use estop_notify::{
    AlertEvent, AlertRouter, AlertType, AlertsIn, ChannelKind, ChannelScope, Cost, Detail, Lookup, Message,
    Notifier, NotifierEnv, Phase, Rule, RuleBook, Words,
};
use house::{NIGHT, Receiver, Reply, budget, cleared, escalated, event, looped, open};
use secrecy::SecretString;

fn all() -> Vec<AlertEvent> {
    let of = |alert, cause: &str, evidence: &str| AlertEvent {
        cause: cause.to_owned(),
        evidence: evidence.to_owned(),
        ..event(alert, "coder", 1)
    };
    let system = |told: AlertEvent| AlertEvent { agent: None, ..told };
    let button = AlertEvent {
        by: Some("anna".into()),
        ..system(of(
            AlertType::SystemKill,
            "security_incident",
            "pressed in the dashboard: \"it deletes mail\"",
        ))
    };
    let checkpoint = Detail::Checkpoint { last_seq: 48_211, digest: "9f2c".repeat(16) };
    vec![
        looped("coder", 1),
        escalated("coder", 2),
        budget("coder", 80, 3),
        budget("coder", 100, 4),
        system(budget("x", 95, 5)),
        of(
            AlertType::Budget,
            "usd_per_day over",
            "Budget usd_per_day: $4.90 spent and $0.00 reserved of $10.00; this request may need $6.00.",
        ),
        system(of(
            AlertType::Budget,
            "fleet_usd_per_day waits",
            "Budget of all agents together, usd_per_day: $4.90 spent and $5.00 reserved of $10.00; this request may need $1.28, which requests in progress reserve until they end.",
        )),
        of(
            AlertType::ErrorRate,
            "37 % of its requests failed",
            "37 of 100 requests in 5 minutes, mostly 529 overloaded",
        ),
        of(AlertType::AgentDown, "no call for 2 hours", "its last call was at 01:12"),
        of(
            AlertType::Health,
            "tool_failures",
            "Health is 540 of 1000 (paused below 600, stopped below 300): 9 failed tool calls (-450).",
        ),
        button.clone(),
        AlertEvent {
            incident: None,
            cost: Cost { run: None, today: Some(NanoUsd(94_000_000_000)) },
            ..of(
                AlertType::Watchdog,
                "131 calls in 60 s",
                "more than 100 forwarded calls in a minute, all to gpt-x",
            )
        },
        system(of(AlertType::ProoftestOverdue, "the last one is 40 days ago", "30 days are allowed")),
        system(of(
            AlertType::StuckWorker,
            "the journal writer does not run",
            "It has not moved for 30 s; requests are refused.",
        )),
        system(of(AlertType::AdminToken, "", "Created with `estop token reset` by uid 1000.")),
        system(AlertEvent { detail: checkpoint, ..event(AlertType::Checkpoint, "x", 9) }),
        cleared(AlertType::KillSwitch, "coder", 10),
        AlertEvent { phase: Phase::Cleared, id: "11.0".into(), ..button },
    ]
}

/// What a router makes of everything.
fn messages(events: &[AlertEvent], words: &Words) -> Vec<Message> {
    let rule = Rule { types: AlertType::ALL.to_vec(), ..Rule::default() };
    let book =
        RuleBook::new([("all".into(), rule)].into(), [("ops".into(), ChannelScope::All)].into()).unwrap();
    let mut router = AlertRouter::default();
    events.iter().for_each(|event| router.handle(NIGHT, event, &book, words));
    let commit = router.take(NIGHT).unwrap();
    commit.alerts.iter().map(|alert| serde_json::from_str(&alert.payload).unwrap()).collect()
}

fn is_as_written(file: &str, found: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
    if std::env::var_os("ESTOP_WRITE").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    for (at, (written, found)) in written.lines().zip(found.lines()).enumerate() {
        assert_eq!(found, written, "{file}:{}", at + 1);
    }
    assert_eq!(found.len(), written.len(), "{file}");
}

#[test]
fn al_1_each_text_is_word_for_word() {
    let zone = jiff::tz::TimeZone::get("Europe/Berlin").unwrap();
    let dashboard = Some("https://estop.example.com".to_owned());
    let words = Words { dashboard, zone, ..Words::default() };
    let texts: Vec<String> = messages(&all(), &words).iter().map(Message::text).collect();
    is_as_written("words.txt", &texts.join("\n========\n\n"));
}

#[test]
fn al_1_a_stop_is_titled_by_its_cause() {
    for (cause, title) in [
        ("tool_failures", "Agent coder was stopped: too many of its tool calls failed"),
        ("request_failures", "Agent coder was stopped: too many of its requests failed"),
        ("looping", "Agent coder was stopped: it kept looping or running away"),
        ("churn", "Agent coder was stopped: its tool calls keep failing in the same way"),
    ] {
        let told = AlertEvent { cause: cause.to_owned(), ..event(AlertType::KillSwitch, "coder", 1) };
        assert_eq!(messages(&[told], &Words::default())[0].title, title);
    }
}

#[test]
fn al_1_nothing_foreign_leaves_its_line() {
    let evil = "x\r\nBcc: evil@example.com\u{2028}<script>alert(1)</script> @everyone <!channel> [a](http://evil) `rm -rf ~`\u{202e}";
    let mut told = escalated(evil, 1);
    (told.cause, told.evidence) = (evil.to_owned(), evil.to_owned());
    told.run = Some(evil.into());
    for message in messages(&[told, looped(evil, 2), budget(evil, 80, 3)], &Words::default()) {
        let mut lines = vec![message.title.clone(), message.when.clone()];
        lines.extend(message.facts.iter().flat_map(|fact| [fact.label.clone(), fact.text.clone()]));
        lines.extend(message.steps.iter().flat_map(|step| [step.say.clone(), step.command.clone()]));
        for line in lines {
            assert!(!line.chars().any(|c| c.is_control() || c == '\u{2028}' || c == '\u{202e}'), "{line:?}");
        }
    }
}

/// Every kind of channel, pointed at one receiver.
fn channels(url: &str) -> serde_json::Value {
    let at = |path: &str| format!("{url}{path}");
    let mut all = serde_json::json!({
        "discord": {"type": "discord", "url": at("/api/webhooks/1/token")},
        "generic": {"type": "webhook", "url": at("/hook?x=1"), "secret_env": ["WHSEC"]},
        "ntfy": {"type": "ntfy", "url": url, "topic": "estop-alerts", "token_env": "NTFY"},
        "pagerduty": {"type": "pagerduty", "url": at("/v2/enqueue"), "token_env": "PAGERDUTY"},
        "slack": {"type": "slack", "url_env": "SLACK"},
        "teams": {"type": "teams", "url": at("/workflows/1")},
        "telegram": {"type": "telegram", "url": url, "token_env": "TELEGRAM", "chat": "-100123"},
    });
    for (_, channel) in all.as_object_mut().unwrap() {
        channel["allow_loopback"] = true.into();
    }
    all
}

#[test]
fn al_1_each_service_gets_its_own_shape() {
    let receiver = Receiver::start(|_, _| Reply::Say(200, "", "{\"ok\":true}".to_owned()));
    let slack = receiver.url("/services/T0/B0/x");
    let secret = move |name: &str| -> Option<SecretString> {
        let value = match name {
            "WHSEC" => "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "NTFY" => "tk_0123456789",
            "PAGERDUTY" => "R0UT1NGKEY0123456789",
            "SLACK" => slack.as_str(),
            "TELEGRAM" => "123456:ABC-def",
            _ => return None,
        };
        Some(value.to_owned().into())
    };
    let config = serde_json::json!({
        "channels": channels(&format!("http://{}", receiver.address)),
        "dashboard": "https://estop.example.com/",
    });
    let config: AlertsIn = serde_json::from_value(config).unwrap();
    let lookup = Lookup { secret: &secret, certificates: &|_| Err("none".into()) };
    let settings = config.resolve(&lookup).unwrap();
    assert!(matches!(settings.channels["discord"].kind, ChannelKind::Discord(_)));
    let folder = tempfile::tempdir().unwrap();
    let outside = NotifierEnv { clock: Arc::new(|| NIGHT), ..NotifierEnv::system() };
    let notifier = Notifier::start(Arc::new(open(&folder)), settings, outside).unwrap();
    let mut evil = looped("a<b>&*_`@everyone", 1);
    evil.run = Some("<!channel> [x](http://y)".into());
    notifier.tell(evil);
    let mut seen = receiver.wait(7);
    seen.sort_by(|a, b| a.line.cmp(&b.line));
    let host = receiver.address.to_string();
    let mut out = String::new();
    for request in seen {
        out.push_str(&format!("{}\n", request.line));
        let headers = request.headers.iter().filter(|(name, _)| *name != "host" && *name != "content-length");
        headers.for_each(|(name, value)| out.push_str(&format!("{name}: {value}\n")));
        let body: serde_json::Value = serde_json::from_str(&request.body).unwrap();
        out.push_str(&format!("{body:#}\n\n"));
    }
    assert!(!out.contains(&host));
    is_as_written("shapes.txt", &out);
}

#[test]
fn al_1_a_wrong_section_is_refused_key_by_key() {
    let config = serde_json::json!({
        "dashboard": "nowhere", "timezone": "Mars/Base",
        "channels": {
            "a": {"type": "slack"},
            "b": {"type": "slack", "url": "ftp://x", "chat": "1"},
            "c": {"type": "webhook", "url": "https://example.com", "secret_env": ["SHORT"]},
            "d": {"type": "email", "host": "mail.example.com", "from": "a@example.com", "to": ["b@example.com\r\nBcc: c@example.com"]},
            "e": {"type": "email", "host": "127.0.0.1", "tls": "none", "user": "u", "password_env": "SHORT", "from": "a@example.com", "to": ["b@example.com"]},
            "f": {"type": "telegram", "token_env": "GONE", "chat": "1"},
            "g": {"type": "github", "repository": "../x", "token_env": "SHORT"},
            "h": {"type": "slack", "url": "https://example.com", "timeout_s": 0},
        },
        "rules": {"r": {"channels": ["nobody"]}, "s": {"repeat_every_s": 1}},
    });
    let config: AlertsIn = serde_json::from_value(config).unwrap();
    let secret = |name: &str| (name == "SHORT").then(|| "whsec_AAAA".to_owned().into());
    let problems =
        config.resolve(&Lookup { secret: &secret, certificates: &|_| Ok(Vec::new()) }).unwrap_err();
    let paths: Vec<String> = problems.iter().map(|problem| problem.keys.join(".")).collect();
    assert_eq!(
        paths,
        [
            "dashboard",
            "timezone",
            "channels.a.url",
            "channels.b.chat",
            "channels.c.secret_env",
            "channels.d.to",
            "channels.e.tls",
            "channels.f.token_env",
            "channels.g.repository",
            "channels.h.timeout_s",
            "rules.r.channels",
            "rules.s"
        ]
    );
    assert!(problems.iter().all(|problem| !problem.problem.contains("whsec_AAAA")), "no secret is shown");
}
