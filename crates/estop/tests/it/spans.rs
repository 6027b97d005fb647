//! Spans of requests at a collector (OB-2): what they say, and that nobody waits for it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::house::{Estop, House, ask_with, until, wait_for};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";
const SECRET: &str = "Bearer a-secret-of-the-collector";

/// The status of an answer that says one span was not taken.
const SOME_REJECTED: u16 = 202;

/// Takes what is posted to it.
struct Collector {
    address: SocketAddr,
    posts: Arc<Mutex<Vec<(String, Value)>>>,
    /// What it answers.
    status: Arc<AtomicU16>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let collector = Collector { address, posts: Arc::default(), status: Arc::new(AtomicU16::new(200)) };
        let (posts, status) = (Arc::clone(&collector.posts), Arc::clone(&collector.status));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut read = BufReader::new(stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") && read.read_line(&mut head).unwrap() > 0 {}
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.unwrap().parse().unwrap()];
                read.read_exact(&mut body).unwrap();
                let body = serde_json::from_slice(&body).unwrap();
                posts.lock().unwrap().push((head, body));
                let status = status.load(Ordering::Relaxed);
                let rejects = r#"{"partialSuccess":{"rejectedSpans":"1"}}"#;
                let body = if status == SOME_REJECTED { rejects } else { "{}" };
                let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                read.into_inner().write_all(answer.as_bytes()).unwrap();
            }
        });
        collector
    }

    fn section(&self, more: &str) -> String {
        format!(
            "opentelemetry: {{endpoint: \"http://{}/otlp\", headers_env: {{Authorization: OTLP_AUTHORIZATION}}{more}}}",
            self.address
        )
    }

    /// All spans so far.
    fn spans(&self) -> Vec<Value> {
        let posts = self.posts.lock().unwrap();
        posts.iter().flat_map(|(_, body)| spans_of(body)).collect()
    }

    fn span(&self, agent: &str) -> Value {
        wait_for("a span", || {
            self.spans().into_iter().find(|span| attribute(span, "gen_ai.agent.name") == agent)
        })
    }
}

fn spans_of(body: &Value) -> Vec<Value> {
    body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
}

fn start(house: &House) -> Estop {
    house.start_with(&[("OTLP_AUTHORIZATION", SECRET)])
}

/// Its value, whatever its type; null if there is none.
fn attribute(span: &Value, key: &str) -> Value {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == key);
    found.map_or(Value::Null, |found| found["value"].as_object().unwrap().values().next().unwrap().clone())
}

#[test]
fn ob_2_requests_become_spans_of_their_clients_trace() {
    let collector = Collector::start();
    let house = House::new(&collector.section(""));
    let estop = start(&house);
    let parent = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\n");
    assert_eq!(ask_with(estop.address, "traced", "Hello", &parent).unwrap().0, 200);
    assert_eq!(estop.ask("alone", "Hello").unwrap().0, 200);
    assert_eq!(house.owner("POST", "/api/agents/alone/deactivate", "{}").0, 200);

    let span = collector.span("traced");
    assert_eq!((&span["traceId"], &span["parentSpanId"]), (&TRACE.into(), &SPAN.into()));
    assert_eq!((&span["name"], &span["kind"]), (&"chat gpt-4o-mini".into(), &3.into()));
    let said = ["gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "estop.outcome"];
    let said = said.map(|key| attribute(&span, key));
    assert_eq!(said, ["chat", "openai", "gpt-4o-mini", "answered"].map(Value::from));
    let tokens = attribute(&span, "gen_ai.usage.output_tokens");
    assert!(tokens.as_str().unwrap().parse::<u64>().unwrap() > 0, "{tokens}");
    let time = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
    assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"));
    assert!(span["status"].is_null());

    let span = collector.span("alone");
    assert!(span["parentSpanId"].is_null() && span["traceId"] != TRACE, "{span}");
    assert_eq!(estop.ask("alone", "Hello").unwrap().0, 400);
    let refused = wait_for("the span of a refusal", || {
        collector.spans().into_iter().find(|span| attribute(span, "estop.outcome") == "refused")
    });
    assert_eq!((attribute(&refused, "estop.guard"), &refused["status"]["code"]), ("agent".into(), &2.into()));

    let posts = collector.posts.lock().unwrap().clone();
    let (head, body) = &posts[0];
    assert!(head.starts_with("POST /otlp/v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(head.to_lowercase().contains(&format!("authorization: {}\r\n", SECRET.to_lowercase())), "{head}");
    assert_eq!(body["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"], "estop");
    let all = format!("{posts:?}");
    assert!(!all.contains("Hello"), "no prompt is in a span: {all}");

    let scrape = || house.owner("GET", "/metrics", "").1;
    until("they are counted", || scrape().contains("estop_spans_total{result=\"sent\"} 3"));
    // The trace is in the journal, too.
    estop.end();
    assert!(house.run(&["journal", "export", "--data-dir", "data", "--output", "journal.jsonl"]).0);
    let journal = std::fs::read_to_string(house.folder.path().join("journal.jsonl")).unwrap();
    assert!(journal.contains(&format!("00-{TRACE}-{SPAN}-01")) && !journal.contains("a-secret-of-the"));
    house.verified();
}

#[test]
fn ob_2_clients_say_what_is_sampled_and_failures_always_are() {
    let collector = Collector::start();
    let house = House::new(&collector.section(", spans: 1/1000"));
    let estop = start(&house);
    let parent = |flags: &str| format!("traceparent: 00-{TRACE}-{SPAN}-{flags}\r\n");
    let ask = |agent: &str, header: &str| ask_with(estop.address, agent, "Hello", header).unwrap().0;
    // The first of a thousand.
    assert_eq!(ask("first", ""), 200);
    for agent in ["second", "third"] {
        assert_eq!(ask(agent, ""), 200);
    }
    assert_eq!((ask("unsampled", &parent("00")), ask("sampled", &parent("01"))), (200, 200));
    assert_eq!(ask("broken", "traceparent: 00-nothing\r\n"), 200);
    assert_eq!(house.owner("POST", "/api/agents/third/deactivate", "{}").0, 200);
    assert_eq!(ask("third", ""), 400);
    // Nobody hides a refusal by saying that its trace is not recorded.
    assert_eq!(ask("third", &parent("00")), 400);
    // What waits is sent at the end.
    estop.end();
    let spans = collector.spans();
    let sent: Vec<Value> = spans.iter().map(|span| attribute(span, "gen_ai.agent.name")).collect();
    assert_eq!(sent, ["first", "sampled", "third", "third"]);
    assert_eq!(attribute(&spans[2], "estop.outcome"), "refused");
    assert!(spans[3]["parentSpanId"].is_null() && spans[3]["traceId"] != TRACE, "{}", spans[3]);
}

#[test]
fn ob_2_a_collector_that_fails_delays_nobody() {
    let collector = Collector::start();
    collector.status.store(503, Ordering::Relaxed);
    let house = House::new(&collector.section(""));
    let (logs, told) = std::io::pipe().unwrap();
    let heard = std::thread::spawn(move || std::io::read_to_string(logs).unwrap());
    let estop = house.start_logging_with(told, &[("OTLP_AUTHORIZATION", SECRET)]);
    assert_eq!(estop.ask("coder", "Hello").unwrap().0, 200);
    until("it is sent once more", || collector.posts.lock().unwrap().len() >= 2);
    collector.status.store(200, Ordering::Relaxed);
    let scrape = || house.owner("GET", "/metrics", "").1;
    until("it is taken at last", || scrape().contains("estop_spans_total{result=\"sent\"} 1"));
    collector.status.store(SOME_REJECTED, Ordering::Relaxed);
    assert_eq!(estop.ask("coder", "Hello").unwrap().0, 200);
    until("one is not taken", || scrape().contains("estop_spans_total{result=\"dropped\"} 1"));

    // Nobody listens there any more.
    house.configure("opentelemetry: {endpoint: \"http://127.0.0.1:1\"}");
    estop.signal("-HUP");
    let happened = |event: &str| {
        let (_, said) = house.owner("GET", &format!("/api/events?type={event}"), "");
        !serde_json::from_str::<Value>(&said).unwrap()["events"].as_array().unwrap().is_empty()
    };
    until("a port of another protocol is refused", || happened("configuration_refused"));
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    house.configure(&format!("opentelemetry: {{endpoint: \"http://{gone}\"}}"));
    estop.signal("-HUP");
    until("the file is taken up", || happened("configuration_read"));
    for _ in 0..5 {
        assert_eq!(estop.ask("coder", "Hello").unwrap().0, 200);
    }
    until("they are dropped", || scrape().contains("estop_spans_total{result=\"dropped\"} 6"));
    estop.end();
    let said = heard.join().unwrap();
    assert_eq!(said.matches("spans are dropped").count(), 1, "{said}");
    assert!(!said.contains("a-secret-of-the"), "{said}");
}

#[test]
fn ob_2_what_names_no_collector_is_refused_by_its_key() {
    let refused = |section: &str| {
        let text = format!("opentelemetry: {section}");
        let env = [("HOME", "/home/me"), ("H", "x\ny")].into_iter().collect();
        estop_config::parse_serve(&text, "estop.yaml", &env).expect_err(section).to_string()
    };
    for (section, said) in [
        ("{spans: all}", "opentelemetry.spans is set, and opentelemetry.endpoint is missing"),
        ("{endpoint: collector}", "endpoint must be an http or https URL"),
        (
            "{endpoint: \"http://127.0.0.1:25\"}",
            "opentelemetry.endpoint: another protocol than HTTP lives at its port",
        ),
        ("{endpoint: \"http://127.0.0.1\", spans: some}", "spans must be off, all, or a share such as 1/100"),
        ("{endpoint: \"http://127.0.0.1\", headers_env: {host: H}}", "a name is no header that can be added"),
        (
            "{endpoint: \"http://127.0.0.1\", headers_env: {a: MISSING}}",
            "environment variable MISSING is not set",
        ),
        ("{endpoint: \"http://127.0.0.1\", headers_env: {a: H}}", "holds more than the value of a header"),
        ("{endpoint: \"http://127.0.0.1\", ca_file: /nowhere.pem}", "opentelemetry.ca_file: "),
        (
            "{endpoint: \"http://127.0.0.1\", ca_file: /dev/zero}",
            "opentelemetry.ca_file: /dev/zero cannot be read",
        ),
    ] {
        let problem = refused(section);
        assert!(problem.contains(said), "{section}: {problem}");
    }
    for headers in [
        "{authorization: Bearer a-secret}",
        "{dd: Bearer a-secret}",
        "\"authorization=Bearer a-secret\"",
        "[a-secret]",
    ] {
        let problem = refused(&format!("{{endpoint: \"http://127.0.0.1\", headers_env: {headers}}}"));
        assert!(problem.contains("must be ") && !problem.contains("a-secret"), "{problem}");
    }
}
