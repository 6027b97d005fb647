//! What passes at the edges of the data plane: web pages, versions in base URLs, lengths of answers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common::http::{Wire, post_with};
use crate::common::raw::Raw;
use crate::common::{House, aim};

const CHAT: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;

#[test]
fn se_2_a_web_page_reaches_nothing_and_counts_as_nobody() {
    // A watchdog that a hundred requests would trip, and a budget of names that made-up ones would use up.
    let house = House::build(r#"{"preset":"strict"}"#, |settings| settings.limits.agent_names = 8);
    let pages = [
        "sec-fetch-site: cross-site\r\n",
        "sec-fetch-site: same-site\r\n",
        "origin: https://evil.example\r\n",
    ];
    for turn in 0..120 {
        let extra = format!("{}content-type: text/plain\r\n", pages[turn % pages.len()]);
        for path in [
            "/agents/coder/ollama/api/chat".to_owned(),
            format!("/agents/made-up-{turn}/openai/v1/chat/completions"),
            "/agents/coder/openai/v1/files".to_owned(),
        ] {
            let reply = post_with(house.address(), &path, &extra, CHAT);
            assert_eq!(
                (reply.status, reply.header("x-estop-reason")),
                (403, Some("cross_site")),
                "{path} {extra}"
            );
        }
    }
    assert_eq!(house.model.requests(), 0);
    assert!(house.engine().known_agent("coder").is_none(), "no agent is made");
    assert!(house.records().iter().all(|record| record.starts_with("default ")), "nothing is counted");
    let own = post_with(house.address(), "/agents/coder/openai/v1/chat/completions", "", CHAT);
    assert_eq!(own.status, 200, "its own program works: {}", own.text());
}

#[test]
fn se_2_a_listed_web_app_may_come() {
    let house =
        House::build("{}", |settings| settings.allowed_origins = vec!["http://localhost:3000".into()]);
    let ask = |extra: &str| post_with(house.address(), "/openai/v1/chat/completions", extra, CHAT).status;
    assert_eq!(ask("origin: http://localhost:3000\r\nsec-fetch-site: same-site\r\n"), 200);
    assert_eq!(ask("origin: http://localhost:3001\r\nsec-fetch-site: same-site\r\n"), 403);
}

#[test]
fn id_4_a_base_url_with_a_version_is_not_sent_twice() {
    for (base, client, sent) in [
        ("", "/v1/chat/completions", "/v1/chat/completions"),
        ("/v1", "/v1/chat/completions", "/v1/chat/completions"),
        ("/v1", "/chat/completions", "/v1/chat/completions"),
        ("/openai/v1", "/v1/chat/completions", "/openai/v1/chat/completions"),
        ("/openai/v1", "/openai/v1/chat/completions", "/openai/v1/chat/completions"),
        ("/v1", "/v1//chat/completions", "/v1//chat/completions"),
        ("/v1beta", "/v1beta/models?key=a&pageSize=3", "/v1beta/models?key=a&pageSize=3"),
    ] {
        let upstream = Raw::saying("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
        let house = House::build("{}", |settings| {
            aim(settings, upstream.port());
            settings.providers.get_mut("openai").unwrap().base_path = base.into();
        });
        let reply = post_with(house.address(), &format!("/openai{client}"), "", CHAT);
        assert_eq!(reply.status, 200, "{base} {client}: {}", reply.text());
        let log = upstream.log();
        assert_eq!(log.requests.last().unwrap().line(), format!("POST {sent} HTTP/1.1"), "{base} {client}");
    }
}

#[test]
fn st_3_one_value_of_content_length_is_passed_on() {
    for (said, passed) in [
        ("content-length: 5, 5\r\n", Some("5")),
        ("content-length: 0005\r\n", Some("5")),
        ("content-length: 5\r\ncontent-length: 5\r\n", Some("5")),
        ("content-length: 5, 6\r\n", None),
        ("content-length: 5\r\ncontent-length: 6\r\n", None),
    ] {
        let upstream = Raw::saying(format!("HTTP/1.1 200 OK\r\n{said}\r\nhello"));
        let house = House::build("{}", |settings| aim(settings, upstream.port()));
        // A POST is read by the fast path, a GET by hyper.
        for method in ["POST", "GET"] {
            let mut wire = Wire::open(house.address());
            let head =
                format!("{method} /openai/v1/files HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n");
            wire.send(head.as_bytes());
            let reply = wire.reply();
            let lengths: Vec<&str> = reply
                .headers
                .iter()
                .filter(|(name, _)| name == "content-length")
                .map(|(_, v)| v.as_str())
                .collect();
            match passed {
                Some(passed) => assert_eq!((reply.status, lengths), (200, vec![passed]), "{method} {said}"),
                None => assert_eq!(reply.status, 502, "{method} {said}"),
            }
        }
    }
}
