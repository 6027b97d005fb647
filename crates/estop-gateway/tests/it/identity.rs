//! Who asks, and whom: agents by URL, key and header, keys that never leave, providers nobody can choose, and no path
//! beside the gates (ID-1..5, AN-2, AN-4).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common;
use crate::common::http::{Reply, Wire, post, post_with};
use crate::common::{DIALECTS, House, what};
use estop_core::event::EventKind;
use estop_fake_model::script::Reply as Said;
use estop_gateway::Recorded;
use estop_gateway::settings::{AgentKey, Settings, UnknownAgents};

/// The key of the agent `keyed`.
const KEY: &str = "estop-canary-of-keyed";
/// The key of the agent `second`.
const SECOND: &str = "estop-canary-of-second";
/// What the provider wants, known to estop alone.
const INJECTED: &str = "sk-canary-injected";
/// What a client sends as the provider's key.
const CLIENTS: &str = "sk-canary-of-the-client";

fn keys(settings: &mut Settings) {
    let key = |agent: &str, key: &str| AgentKey { agent: agent.into(), key: key.to_owned().into() };
    settings.keys = vec![key("keyed", KEY), key("second", SECOND)];
}

fn house_with_keys(require: bool) -> House {
    House::build("{}", |settings| {
        keys(settings);
        settings.require_keys = require;
        settings.unknown_agents = UnknownAgents::Allow;
    })
}

fn chat(model: &str) -> String {
    format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hello"}}]}}"#)
}

/// Agent and run of the request that named this model.
fn judged_as(house: &House, model: &str) -> (String, Option<String>) {
    let found = house.find(|record| match (record, what(record)) {
        (Recorded::Agent { agent, event, .. }, Some(EventKind::RequestReceived(received)))
            if received.model.as_deref() == Some(model) =>
        {
            Some((agent.to_string(), event.run.as_deref().map(str::to_owned)))
        }
        (Recorded::Agent { .. } | Recorded::System { .. }, _) => None,
    });
    found.unwrap()
}

#[test]
fn id_1_the_agent_is_named_by_url_key_header_or_default() {
    let house = house_with_keys(false);
    let own = format!("authorization: Bearer {KEY}\r\n");
    let cases: [(&str, &str, &str, Option<&str>); 11] = [
        ("/agents/by-url/openai", "", "by-url", None),
        ("/agents/by-url/openai", "x-estop-agent: by-header\r\n", "by-url", None),
        ("/openai", "x-estop-agent: by-header\r\n", "by-header", None),
        ("/openai", "X-Estop-Agent: by-header\r\n", "by-header", None),
        ("/openai", "", "default", None),
        ("/openai", "authorization: Bearer sk-somebody\r\n", "default", None),
        ("/openai", &own, "keyed", None),
        ("/agents/keyed/openai", &own, "keyed", None),
        ("/openai", "x-estop-run: r-1\r\n", "default", Some("r-1")),
        ("/agents/a.b_c-9/openai", "x-estop-run: R.2_x\r\n", "a.b_c-9", Some("R.2_x")),
        ("/agents/openai/openai", "", "openai", None),
    ];
    for (at, (base, extra, agent, run)) in cases.into_iter().enumerate() {
        let model = format!("case-{at}");
        let path = format!("{base}/v1/chat/completions");
        assert_eq!(post_with(house.address(), &path, extra, &chat(&model)).status, 200, "{base} {extra}");
        let expected = (agent.to_owned(), run.map(str::to_owned));
        assert_eq!(judged_as(&house, &model), expected, "{base} {extra}");
    }
}

#[test]
fn se_5_names_that_differ_in_case_alone_are_one_agent() {
    let house = House::new();
    for (at, name) in ["Coder", "coder", "CODER"].into_iter().enumerate() {
        let model = format!("case-{at}");
        let path = format!("/agents/{name}/openai/v1/chat/completions");
        assert_eq!(post(house.address(), &path, &chat(&model)).status, 200);
        assert_eq!(judged_as(&house, &model).0, "Coder", "the first spelling stays");
    }
    let agent = house.engine().agent("coder").unwrap();
    house.engine().apply(&agent, None, EventKind::AgentDeactivated { by: "ann".into() });
    for name in ["Coder", "coder", "cODER"] {
        let reply = post(house.address(), &format!("/agents/{name}/openai/v1/chat/completions"), &chat("m"));
        assert_ne!(reply.status, 200, "{name} goes on though it is stopped");
    }
    for name in ["System", "SYSTEM", "Estop-Canary"] {
        let reply = post(house.address(), &format!("/agents/{name}/openai/v1/chat/completions"), &chat("m"));
        assert_eq!(reply.status, 400, "{name}");
    }
    assert_eq!(house.model.requests(), 3);
}

#[test]
fn se_5_an_agent_with_a_key_is_only_reached_by_it_though_keys_are_not_required() {
    let house = house_with_keys(false);
    for name in ["keyed", "Keyed"] {
        let path = format!("/agents/{name}/openai/v1/chat/completions");
        for extra in
            ["", "authorization: Bearer sk-somebody\r\n", "authorization: Bearer estop_key_wrong\r\n"]
        {
            let reply = post_with(house.address(), &path, extra, &chat("m"));
            assert_eq!(reply.status, 401, "{name} {extra}: {reply:?}");
        }
        let own = format!("authorization: Bearer {KEY}\r\n");
        assert_eq!(post_with(house.address(), &path, &own, &chat("m")).status, 200);
    }
    assert_eq!(house.model.requests(), 2);
}

#[test]
fn se_5_once_an_agent_has_a_key_others_must_be_named_by_a_person() {
    let named = r#"{"agents": {"filed": {}}}"#;
    let status = |house: &House, agent: &str| {
        let reply = post(house.address(), &format!("/agents/{agent}/openai/v1/chat/completions"), &chat("m"));
        (reply.status, reply.header("x-estop-reason").map(str::to_owned))
    };
    let refused = (403, Some("agent_unknown".to_owned()));
    let house = House::build(named, keys);
    assert_eq!(status(&house, "anything"), refused);
    assert_eq!(status(&house, "default"), refused, "a stopped agent does not go on as nobody");
    assert_eq!((status(&house, "filed").0, status(&house, "Filed").0), (200, 200));
    house.engine().rulebook.set_added("Added", true);
    assert_eq!(status(&house, "added").0, 200, "by the API");
    assert_eq!(house.model.requests(), 3);

    let house = House::build(named, |settings| settings.unknown_agents = UnknownAgents::Deny);
    assert_eq!((status(&house, "filed").0, status(&house, "anything")), (200, refused));
    let house = House::build(named, |_| {});
    assert_eq!(status(&house, "anything").0, 200, "nobody has a key");
}

#[test]
fn id_2_guesses_of_keys_are_slowed_and_a_key_that_estop_made_never_is() {
    let made = format!("estop_key_{}", "0f".repeat(32));
    let key = |key: &str| AgentKey { agent: "keyed".into(), key: key.to_owned().into() };
    let house = House::build("{}", |settings| settings.keys = vec![key(KEY), key(&made)]);
    let ask = |key: &str| {
        let path = "/agents/keyed/openai/v1/chat/completions";
        post_with(house.address(), path, &format!("x-estop-key: {key}\r\n"), &chat("m")).status
    };
    assert_eq!(ask(KEY), 200);
    let guesses: Vec<u16> = (0..61).map(|guess| ask(&format!("guess-{guess}"))).collect();
    assert!(guesses.iter().take(60).all(|status| *status == 401), "{guesses:?}");
    assert_eq!(guesses.last(), Some(&429));
    assert_eq!(ask(KEY), 429, "a right guess among the wrong ones does not help");
    assert_eq!(ask(&made), 200);
}

#[test]
fn id_1_names_that_cannot_be_one_are_refused() {
    let house = House::new();
    let long = "x".repeat(65);
    let headers = [
        "x-estop-agent: a b\r\n".to_owned(),
        "x-estop-agent: a/b\r\n".to_owned(),
        "x-estop-agent:\r\n".to_owned(),
        "x-estop-agent: .a\r\n".to_owned(),
        "x-estop-agent: --force\r\n".to_owned(),
        "x-estop-agent: \u{e4}\r\n".to_owned(),
        format!("x-estop-agent: {long}\r\n"),
        "x-estop-agent: a\r\nx-estop-agent: b\r\n".to_owned(),
        "x-estop-run: a b\r\n".to_owned(),
        format!("x-estop-run: {long}\r\n"),
        "x-estop-run: a\r\nx-estop-run: a\r\n".to_owned(),
    ];
    for extra in &headers {
        let reply = post_with(house.address(), "/openai/v1/chat/completions", extra, &chat("m"));
        assert_eq!((reply.status, reply.header("x-estop-reason")), (400, Some("bad_name")), "{extra}");
    }
    for agent in ["%61", "a%20b", "a\u{e4}", ".a", "-a", &long, "a:b", "a@b"] {
        let reply = post(house.address(), &format!("/agents/{agent}/openai/v1/chat/completions"), &chat("m"));
        assert_eq!(reply.status, 400, "{agent}: {reply:?}");
    }
    assert_eq!(house.model.requests(), 0);
}

/// Every place a client may put a key.
fn places(key: &str) -> [(&'static str, String, String); 8] {
    let none = String::new;
    [
        ("bearer", none(), format!("authorization: Bearer {key}\r\n")),
        ("bearer in small letters", none(), format!("authorization: bearer {key}\r\n")),
        ("authorization alone", none(), format!("authorization: {key}\r\n")),
        ("x-api-key", none(), format!("x-api-key: {key}\r\n")),
        ("x-goog-api-key", none(), format!("x-goog-api-key: {key}\r\n")),
        ("api-key", none(), format!("api-key: {key}\r\n")),
        ("query", format!("?alt=sse&key={key}&x=y"), none()),
        ("x-estop-key", none(), format!("x-estop-key: {key}\r\n")),
    ]
}

fn mentions(house: &House, text: &str) -> bool {
    house.model.seen().iter().any(|seen| format!("{seen:?}").contains(text))
}

#[test]
fn id_2_a_key_is_taken_wherever_clients_put_it_and_never_travels_on() {
    for require in [false, true] {
        let house = house_with_keys(require);
        for (at, (name, query, extra)) in places(KEY).into_iter().enumerate() {
            let model = format!("case-{at}");
            let path = format!("/openai/v1/chat/completions{query}");
            let reply = post_with(house.address(), &path, &extra, &chat(&model));
            assert_eq!(reply.status, 200, "{name}: {reply:?}");
            assert_eq!(judged_as(&house, &model).0, "keyed", "{name}");
        }
        assert!(!mentions(&house, "estop-canary"), "the key reached the model");
        assert!(house.model.seen().iter().all(|seen| seen.query.is_empty() || seen.query == "alt=sse&x=y"));
    }
}

#[test]
fn id_2_a_key_that_is_sent_in_several_places_travels_on_in_none() {
    let house = house_with_keys(true);
    let all: Vec<_> = places(KEY).into();
    for (first, first_query, first_extra) in &all {
        for (second, second_query, second_extra) in &all {
            // Each header once, so that it is the places that differ.
            if first_extra.split(':').next() == second_extra.split(':').next() {
                continue;
            }
            let query = if first_query.is_empty() { second_query } else { first_query };
            let path = format!("/openai/v1/chat/completions{query}");
            let extra = format!("{first_extra}{second_extra}");
            let reply = post_with(house.address(), &path, &extra, &chat("m"));
            assert_eq!(reply.status, 200, "{first}, {second}: {reply:?}");
            assert!(!mentions(&house, "estop-canary"), "{first}, {second}: a key reached the model");
            house.model.reset();
        }
    }
    let twice = format!("/openai/v1/models?key=other&key={KEY}");
    let mut wire = Wire::open(house.address());
    wire.send(format!("GET {twice} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes());
    assert_eq!(wire.reply().status, 200);
    assert!(!mentions(&house, "estop-canary"), "the second of two reached the model");
}

#[test]
fn id_2_a_key_acts_only_as_its_agent() {
    for require in [false, true] {
        let house = house_with_keys(require);
        for (name, query, extra) in places(KEY) {
            for (base, more) in [("/agents/second/openai", ""), ("/openai", "x-estop-agent: second\r\n")] {
                let path = format!("{base}/v1/chat/completions{query}");
                let reply = post_with(house.address(), &path, &format!("{extra}{more}"), &chat("m"));
                assert_eq!(reply.status, 403, "{name}, {base}: {reply:?}");
                assert_eq!(reply.header("x-estop-reason"), Some("key_of_another"), "{name}");
                assert!(!reply.text().contains("canary"), "{name}: {}", reply.text());
            }
        }
        assert_eq!(house.model.requests(), 0);
    }
}

#[test]
fn id_2_without_a_valid_key_nothing_passes_where_keys_are_required() {
    let house = house_with_keys(true);
    let requests =
        ["POST /openai/v1/chat/completions", "GET /openai/v1/models", "POST /agents/keyed/openai/v1/files"];
    for request in requests {
        let ask = |extra: &str, query: &str| {
            let mut wire = Wire::open(house.address());
            let body = if request.starts_with("POST") { chat("m") } else { String::new() };
            let head = format!(
                "{request}{query} HTTP/1.1\r\nhost: 127.0.0.1\r\n{extra}content-length: {}\r\n\r\n",
                body.len()
            );
            wire.send((head + &body).as_bytes());
            wire.reply()
        };
        let missing = ask("", "");
        assert_eq!(
            (missing.status, missing.header("x-estop-reason")),
            (401, Some("key_missing")),
            "{request}"
        );
        for (name, query, extra) in places("sk-canary-unknown") {
            let reply = ask(&extra, &query);
            assert_eq!(reply.status, 401, "{request}, {name}: {reply:?}");
            assert!(!reply.text().contains("canary"), "{name}");
        }
        for (name, wrong) in [
            ("a part of it", &KEY[..KEY.len() - 1]),
            ("in other letters", "ESTOP-CANARY-OF-KEYED"),
            ("its hash", "0000"),
            ("empty", ""),
        ] {
            let reply = ask(&format!("x-estop-key: {wrong}\r\n"), "");
            assert_eq!(reply.status, 401, "{request}, {name}");
        }
        let header = ask("x-estop-agent: keyed\r\n", "");
        assert_eq!(header.status, 401, "{request}: a name is no key");
    }
    assert_eq!(house.model.connections().accepted, 0);
}

#[test]
fn id_2_a_wrong_estop_key_is_refused_even_where_keys_are_not_required() {
    let house = house_with_keys(false);
    let reply = post_with(house.address(), "/openai/v1/files", "x-estop-key: nobody\r\n", "{}");
    assert_eq!((reply.status, reply.header("x-estop-reason")), (401, Some("key_unknown")));
    assert_eq!(house.model.requests(), 0);
}

fn injecting(settings: &mut Settings) {
    for provider in settings.providers.values_mut() {
        provider.key = Some(INJECTED.to_owned().into());
    }
}

#[test]
fn id_3_the_injected_key_replaces_the_clients() {
    let house = House::build("{}", injecting);
    let wanted = [
        ("/openai/v1/chat/completions", Some(("authorization", format!("Bearer {INJECTED}")))),
        ("/anthropic/v1/messages", Some(("x-api-key", INJECTED.to_owned()))),
        ("/gemini/v1beta/models/m:generateContent", Some(("x-goog-api-key", INJECTED.to_owned()))),
        ("/openai/v1/files", Some(("authorization", format!("Bearer {INJECTED}")))),
    ];
    for (path, header) in &wanted {
        for (name, query, extra) in places(CLIENTS).into_iter().filter(|(name, ..)| *name != "x-estop-key") {
            house.model.reset();
            let body = r#"{"model":"m","max_tokens":5,"messages":[],"contents":[]}"#;
            let reply = post_with(house.address(), &format!("{path}{query}"), &extra, body);
            assert!(reply.header("x-estop-reason").is_none(), "{path}, {name}: {reply:?}");
            let seen = house.model.request(1).unwrap();
            let sent: Vec<(&str, &str)> = seen
                .headers
                .iter()
                .filter(|(n, _)| {
                    ["authorization", "x-api-key", "x-goog-api-key", "api-key"].contains(&n.as_str())
                })
                .map(|(n, v)| (n.as_str(), v.as_str()))
                .collect();
            let expected: Vec<(&str, &str)> = header.iter().map(|(n, v)| (*n, v.as_str())).collect();
            assert_eq!(sent, expected, "{path}, {name}");
            assert!(!mentions(&house, CLIENTS), "{path}, {name}: the client's key travelled on");
        }
    }
}

#[test]
fn id_3_without_an_injected_key_the_clients_passes_unchanged() {
    let house = house_with_keys(false);
    for (name, query, extra) in places(CLIENTS).into_iter().filter(|(name, ..)| *name != "x-estop-key") {
        house.model.reset();
        let path = format!("/openai/v1/chat/completions{query}");
        assert_eq!(post_with(house.address(), &path, &extra, &chat("m")).status, 200, "{name}");
        let seen = house.model.request(1).unwrap();
        assert_eq!(seen.query, query.trim_start_matches('?'), "{name}");
        if let Some((header, value)) = extra.trim_end().split_once(": ") {
            assert_eq!(seen.header(header), Some(value), "{name}");
        }
    }
}

#[test]
fn id_3_keys_appear_nowhere() {
    let house = House::build(
        r#"{"agents": {"limited": {"policy": {"rate_limit": {"requests_per_minute": 1}}}}}"#,
        |settings| {
            keys(settings);
            injecting(settings);
            settings.limits.body_bytes = 10_000;
            // Nobody listens there.
            settings.providers.get_mut("ollama").unwrap().port = 1;
        },
    );
    let secrets = [KEY, SECOND, INJECTED, CLIENTS];
    let all = format!("x-api-key: {CLIENTS}\r\nauthorization: Bearer {KEY}\r\n");
    let theirs = format!("x-api-key: {CLIENTS}\r\nauthorization: Bearer {CLIENTS}\r\n");
    let long = "x".repeat(20_000);
    let mut replies = Vec::new();
    for extra in [&all, &theirs] {
        for (path, body) in [
            ("/openai/v1/chat/completions", chat("m")),
            ("/openai/v1/chat/completions", long.clone()),
            ("/openai/v1/chat/completions", "{".to_owned()),
            ("/openai/v1/files?key=sk-canary-of-the-client", "x".to_owned()),
            ("/ollama/api/chat?key=sk-canary-of-the-client", chat("m")),
            ("/nobody/v1/x?key=sk-canary-of-the-client", chat("m")),
            ("/agents/second/openai/v1/chat/completions", chat("m")),
            ("/agents/limited/openai/v1/chat/completions", chat("m")),
            ("/agents/limited/openai/v1/chat/completions", chat("m")),
            ("/openai/../v1", chat("m")),
        ] {
            replies.push(post_with(house.address(), path, extra, &body));
        }
    }
    house.model.always(Said { status: Some(401), ..Said::default() });
    replies.push(post_with(house.address(), "/openai/v1/chat/completions", &all, &chat("m")));
    let statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
    for wanted in [200, 400, 401, 403, 404, 413, 429, 502] {
        assert!(statuses.contains(&wanted), "no {wanted} among {statuses:?}");
    }
    for secret in secrets {
        for reply in &replies {
            let said = format!("{:?} {}", reply.headers, reply.text());
            assert!(!said.contains(secret), "{secret} in an answer: {said}");
        }
        let records = house.records();
        assert!(
            records.len() >= replies.len() / 2,
            "{} records of {} requests",
            records.len(),
            replies.len()
        );
        for record in records {
            assert!(!record.contains(secret), "{secret} in the journal: {record}");
        }
    }
}

#[test]
fn id_4_an_unknown_provider_is_404_and_names_the_known_ones() {
    let house = House::new();
    for path in [
        "/nobody/v1/chat/completions",
        "/v1/chat/completions",
        "/agents/a/nobody/v1/x",
        "/",
        "/agents/a",
        "/OpenAI/v1/x",
    ] {
        let reply = post(house.address(), path, "{}");
        assert_eq!((reply.status, reply.header("x-estop-reason")), (404, Some("unknown_provider")), "{path}");
        for known in ["openai", "anthropic", "gemini", "ollama"] {
            assert!(reply.text().contains(known), "{path}: {}", reply.text());
        }
    }
    assert_eq!(house.model.connections().accepted, 0);
}

/// Requests that nothing is known of, in a provider's name.
const OTHERS: [(&str, &str, &str); 12] = [
    ("GET", "/openai/v1/models", ""),
    ("HEAD", "/openai/v1/models", ""),
    ("DELETE", "/openai/v1/files/f-1", ""),
    ("PUT", "/openai/v1/files/f-1", "x"),
    ("PATCH", "/openai/v1/files/f-1", "x"),
    ("OPTIONS", "/openai/v1/models", ""),
    ("PURGE", "/openai/v1/models", ""),
    (
        "POST",
        "/openai/v1/files",
        "--x\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\n\u{0}\u{1}\r\n--x--\r\n",
    ),
    ("POST", "/anthropic/v1/messages/batches", "{}"),
    ("GET", "/gemini/v1beta/models", ""),
    ("POST", "/ollama/api/pull", r#"{"name":"m"}"#),
    ("GET", "/openai", ""),
];

/// Spellings of a known path that a lenient server may take for it.
const SPELLINGS: [&str; 8] = [
    "/openai/v1/chat/completions/",
    "/openai//v1//chat//completions",
    "/openai/V1/Chat/Completions",
    "/openai/v1/chat%2fcompletions",
    "/openai/v1/chat/completion%73",
    "/openai/v1/chat/completions;x=y",
    "/openai/v1/chat\\completions",
    "/openai/v1/chat/completions?x=y",
];

fn request(house: &House, agent: &str, method: &str, path: &str, body: &str) -> Reply {
    let mut wire = Wire::open(house.address());
    let head = format!(
        "{method} /agents/{agent}{path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: x/y\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    wire.send((head + body).as_bytes());
    match wire.head() {
        Some(head) if method == "HEAD" => {
            Reply { status: head.status, headers: head.headers, ..Reply::default() }
        }
        Some(head) => wire.body_of(head),
        None => Reply::default(),
    }
}

#[test]
fn id_5_other_paths_are_forwarded() {
    let house = House::new();
    house.model.always(Said { body: Some("ok".into()), ..Said::default() });
    for (at, (method, path, body)) in OTHERS.into_iter().enumerate() {
        let reply = request(&house, "a", method, path, body);
        assert_eq!(reply.status, 200, "{method} {path}: {reply:?}");
        let seen = house.model.request(at as u64 + 1).unwrap();
        let (_, rest) = path[1..].split_once('/').unwrap_or_default();
        assert_eq!((seen.method.as_str(), seen.path.clone()), (method, format!("/{rest}")), "{path}");
        assert_eq!((seen.body.as_str(), seen.header("content-type")), (body, Some("x/y")), "{method} {path}");
    }
}

#[test]
fn id_5_there_are_no_side_doors() {
    let house = House::new();
    house.model.always(Said { body: Some("ok".into()), ..Said::default() });
    let agent = house.engine().agent("stopped").unwrap();
    house.engine().apply(&agent, None, EventKind::AgentDeactivated { by: "test".into() });
    let everything = OTHERS
        .into_iter()
        .chain(SPELLINGS.into_iter().map(|path| ("POST", path, r#"{"messages":[]}"#)))
        .chain([("POST", "/openai/v1/embeddings", r#"{"model":"m","input":"x"}"#)]);
    for (method, path, body) in everything.clone() {
        let reply = request(&house, "stopped", method, path, body);
        let told =
            [reply.header("x-estop-reason"), reply.header("x-should-retry"), reply.header("retry-after")];
        assert!((400..500).contains(&reply.status), "{method} {path}: {reply:?}");
        assert_eq!(told, [Some("agent_inactive"), Some("false"), None], "{method} {path}");
    }
    assert_eq!(house.model.connections().accepted, 0, "a side door");
    for (method, path, body) in everything {
        assert_eq!(request(&house, "active", method, path, body).status, 200, "{method} {path}");
    }
}

#[test]
fn id_5_other_paths_are_under_the_rate_limit() {
    let house = House::with_policy(r#"{"policy": {"rate_limit": {"requests_per_minute": 3}}}"#);
    house.model.always(Said { body: Some("ok".into()), ..Said::default() });
    let statuses: Vec<u16> =
        OTHERS.iter().map(|(method, path, body)| request(&house, "a", method, path, body).status).collect();
    assert_eq!(statuses[..3], [200; 3]);
    assert!(statuses[3..].iter().all(|status| *status == 429), "{statuses:?}");
    assert_eq!(house.model.requests(), 3);
}

#[test]
fn an_2_a_rate_limit_says_when_to_try_again() {
    for dialect in &DIALECTS {
        let house = House::with_policy(r#"{"policy": {"rate_limit": {"requests_per_minute": 1}}}"#);
        let ask = || post(house.address(), &dialect.path("a", true), &dialect.body("hello", true));
        assert_eq!(ask().status, 200, "{}", dialect.name);
        let refused = ask();
        assert_eq!(
            (refused.status, refused.header("x-estop-reason")),
            (429, Some("rate_limit")),
            "{}",
            dialect.name
        );
        let after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&after), "{}: {after}", dialect.name);
        assert_eq!(refused.header("x-should-retry"), None, "{}", dialect.name);
        assert_eq!(house.model.requests(), 1, "{}", dialect.name);
    }
}

#[test]
fn an_2_the_models_own_errors_are_its_own() {
    let house = House::new();
    for dialect in &DIALECTS {
        for status in [400, 401, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504, 529] {
            let headers = [
                ("x-estop-reason".to_owned(), "spoofed".to_owned()),
                ("retry-after".to_owned(), "9".to_owned()),
            ];
            house.model.always(Said { status: Some(status), headers: headers.into(), ..Said::default() });
            let reply = post(house.address(), &dialect.path("a", true), &dialect.body("hello", true));
            assert_eq!(reply.status, status, "{}", dialect.name);
            assert_eq!(reply.header("x-estop-reason"), None, "{} {status}", dialect.name);
            assert_eq!(reply.header("retry-after"), Some("9"), "{} {status}", dialect.name);
        }
    }
}

#[test]
fn an_2_what_is_wrong_with_a_request_is_said_in_its_protocols_words() {
    let house = House::build("{}", |settings| settings.limits.body_bytes = 10_000);
    for dialect in &DIALECTS {
        let long = dialect.body(&"x".repeat(20_000), true);
        for (body, status, reason) in [
            (long.as_str(), 413, "body_too_large"),
            ("{", 400, "unreadable_request"),
            ("", 400, "unreadable_request"),
        ] {
            let reply = post(house.address(), &dialect.path("a", true), body);
            assert_eq!(
                (reply.status, reply.header("x-estop-reason")),
                (status, Some(reason)),
                "{}",
                dialect.name
            );
            assert_eq!(reply.header("x-should-retry"), Some("false"), "{}", dialect.name);
            assert_eq!(reply.header("content-type"), Some("application/json"), "{}", dialect.name);
            let json: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
            let message = match dialect.name {
                "anthropic" => {
                    assert_eq!(json["type"], "error");
                    json["error"]["message"].clone()
                }
                name if name.starts_with("ollama") => json["error"].clone(),
                _ => json["error"]["message"].clone(),
            };
            assert!(message.as_str().is_some_and(|text| text.len() > 20), "{}: {json}", dialect.name);
        }
    }
    assert_eq!(house.model.connections().accepted, 0, "nothing was forwarded");
}

#[test]
fn an_4_a_websocket_is_answered_426_on_every_path() {
    let house = House::build("{}", injecting);
    let handshake = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                     sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let paths = DIALECTS
        .iter()
        .map(|d| d.path("a", true))
        .chain(["/openai/v1/realtime?model=m".to_owned(), "/nobody/x".to_owned()]);
    for path in paths {
        for upgrade in [
            handshake.to_owned(),
            handshake.replace("websocket\r\n", "WebSocket\r\n"),
            handshake.replace("Upgrade\r\nupgrade", "keep-alive\r\nupgrade"),
        ] {
            let mut wire = Wire::open(house.address());
            wire.send(format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{upgrade}\r\n").as_bytes());
            let reply = wire.reply();
            assert_eq!(reply.status, 426, "{path}: {reply:?}");
            assert_eq!(reply.header("x-estop-reason"), Some("websocket_not_supported"), "{path}");
        }
    }
    assert_eq!(house.model.connections().accepted, 0);
}

#[test]
fn an_4_a_model_that_switches_protocols_unasked_is_cut() {
    let raw = common::raw::Raw::saying(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nframes",
    );
    let house = House::build("{}", |settings| common::aim(settings, raw.port()));
    for path in ["/openai/v1/files", "/openai/v1/chat/completions"] {
        let reply = post(house.address(), path, r#"{"messages":[]}"#);
        assert_eq!(reply.status, 502, "{path}: {reply:?}");
        assert!(!reply.text().contains("frames"), "{path}");
    }
}
