//! `/metrics` of a running daemon (OB-2): counts what happened, names no more agents than it may, and asks who is there.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::house::{House, until};

/// The value of a series, by its beginning up to the space.
fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(line.parse().unwrap_or_else(|error| panic!("{error}: {line}")))
}

#[test]
fn ob_2_metrics_count_requests_stops_and_kills() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("coder", "Hello").unwrap().0, 200);
    assert_eq!(house.owner("POST", "/api/agents/coder/deactivate", "{}").0, 200);
    assert_eq!(estop.ask("coder", "Hello").unwrap().0, 400);
    assert_eq!(house.owner("POST", "/api/emergency/kill", r#"{"reason":"manual"}"#).0, 200);
    let scrape = || house.owner("GET", "/metrics", "").1;
    until("the kill is counted", || value(&scrape(), "estop_kills_total") == Some(1.0));
    let text = scrape();
    let is = |series: &str, wanted: f64| assert_eq!(value(&text, series), Some(wanted), "{series}\n{text}");
    is(r#"estop_requests_total{agent="coder",outcome="answered",guard=""}"#, 1.0);
    is(r#"estop_requests_total{agent="coder",outcome="refused",guard="agent"}"#, 1.0);
    is(r#"estop_gate_state{state="shutdown"}"#, 1.0);
    is(r#"estop_gate_state{state="running"}"#, 0.0);
    is(r#"estop_channel_open{channel="llm"}"#, 0.0);
    is(r#"estop_in_progress{kind="model_call"}"#, 0.0);
    is("estop_kill_duration_seconds_count", 1.0);
    is("estop_request_duration_seconds_count", 1.0);
    is("estop_first_byte_seconds_count", 1.0);
    is("estop_journal_works", 1.0);
    assert!(value(&text, r#"estop_tokens_total{agent="coder",direction="output"}"#).unwrap() > 0.0, "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    documented(&text);
    estop.end();
}

/// docs/metrics.md has each of them. What nothing has happened to yet is not in a scrape.
fn documented(text: &str) {
    let document = include_str!("../../../../docs/metrics.md");
    let told: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    assert!(told.len() >= 12, "{told:?}");
    for (name, kind) in told {
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        assert!(
            document.contains(&format!("| `{name}{suffix}` |")),
            "{name}{suffix} is not in docs/metrics.md"
        );
    }
}

#[test]
fn ob_2_invented_names_share_one_series() {
    let house = House::new("");
    let estop = house.start();
    for number in 0..120 {
        assert_eq!(estop.ask(&format!("invented-{number}"), "Hello").unwrap().0, 200);
    }
    let scrape = || house.owner("GET", "/metrics", "").1;
    let other = r#"estop_requests_total{agent="other",outcome="answered",guard=""}"#;
    until("all are counted", || value(&scrape(), other) == Some(20.0));
    let series = scrape().lines().filter(|line| line.starts_with("estop_requests_total{")).count();
    assert_eq!(series, 101);
    estop.end();
}

#[test]
fn ob_2_metrics_need_a_token() {
    let house = House::new("");
    let estop = house.start();
    let ask = |token: Option<&str>| house.owner_with(token, "GET", "/metrics", "").0;
    assert_eq!(ask(Some("wrong")), 401);
    assert_eq!(ask(Some(&estop.token())), 200);
    estop.end();
}
