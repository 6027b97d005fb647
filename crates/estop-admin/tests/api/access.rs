//! Who may come in: tokens, sessions, hosts, other sites, and those who guess.

use estop_admin::Options;
use estop_core::operator::ADMIN_TOKEN_BY_OWNER;
use estop_store::Access;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::{Answered, Plane, START, anonymous, from_peer, send, set};

fn with_token(method: &str, path: &str, token: &str) -> http::Request<axum::body::Body> {
    set(anonymous(method, path, None), "authorization", &format!("Bearer {token}"))
}

#[tokio::test]
async fn ks_5_the_first_start_makes_an_admin_token_once() {
    let plane = Plane::new();
    assert!(plane.token.starts_with("estop_admin_") && plane.token.len() == 76, "256 bits");
    assert!(plane.admin.first_start(None).unwrap().is_none(), "the second start makes none");
    plane.get("/api/tokens").await.expect(200);
    let kept = plane.store.tokens().unwrap();
    assert!(kept.iter().all(|token| token.hash != plane.token.as_bytes()), "only a hash is kept");
}

#[tokio::test]
async fn ks_5_a_chosen_token_works_and_stops_working_when_it_is_not_chosen_any_more() {
    let plane = Plane::new();
    plane.admin.first_start(Some(&"correct horse battery".into())).unwrap();
    plane.admin.first_start(Some(&"correct horse battery".into())).unwrap();
    let ask = async |token: &str| plane.send(with_token("GET", "/api/tokens", token)).await;
    let tokens = ask("correct horse battery").await.expect(200).json();
    assert_eq!(tokens["tokens"].as_array().map(Vec::len), Some(2), "it is kept once");
    ask("correct horse battery").await.expect(200);
    plane.admin.first_start(Some(&"battery staple correct".into())).unwrap();
    ask("correct horse battery").await.expect(401);
    ask("battery staple correct").await.expect(200);
    plane.admin.first_start(None).unwrap();
    ask("battery staple correct").await.expect(401);
}

#[tokio::test]
async fn ks_5_a_chosen_admin_token_has_at_least_16_characters() {
    let plane = Plane::new();
    for (length, is_good) in [(0, false), (1, false), (15, false), (16, true), (256, true), (257, false)] {
        let started = plane.admin.first_start(Some(&"x".repeat(length).into()));
        assert_eq!(started.is_ok(), is_good, "{length} characters: {started:?}");
        if let Err(error) = started {
            assert!(
                error.to_string().contains("ESTOP_ADMIN_TOKEN must have 16 to 256 characters"),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn ks_5_a_kill_never_waits_for_a_slow_hash() {
    let plane = Plane::new();
    plane.admin.first_start(Some(&"correct horse battery".into())).unwrap();
    let guess = |number: u8| {
        let mut request = with_token("GET", "/api/agents", "wrong");
        from_peer(&mut request, [10, 0, 0, number]);
        plane.send(request)
    };
    let slow = async {
        let (a, b, c, d) = tokio::join!(guess(1), guess(2), guess(3), guess(4));
        let (e, f, g, h) = tokio::join!(guess(5), guess(6), guess(7), guess(8));
        for answer in [a, b, c, d, e, f, g, h] {
            answer.expect(401);
        }
    };
    let kill = plane.send(plane.request("POST", "/api/emergency/kill", None));
    tokio::select! {
        biased;
        () = slow => unreachable!("eight slow hashes were done before one kill"),
        killed = kill => assert_eq!(killed.expect(200).json()["status"], "shutdown"),
    }
    assert_eq!(plane.operator.done(), ["Kill by admin"]);
}

#[tokio::test]
async fn ks_5_whoever_guesses_waits_and_a_made_token_never_does() {
    let plane = Plane::new();
    let guess = async || plane.send(with_token("GET", "/api/agents", "estop_admin_wrong")).await;
    for _ in 0..10 {
        assert_eq!(guess().await.expect(401).header("www-authenticate"), "Bearer realm=\"estop\"");
    }
    let slowed = guess().await.expect(429);
    assert_eq!(slowed.header("retry-after"), "60");
    plane.get("/api/agents").await.expect(200);
    let mut elsewhere = with_token("GET", "/api/agents", "estop_admin_wrong");
    from_peer(&mut elsewhere, [10, 0, 0, 9]);
    plane.send(elsewhere).await.expect(401);
    plane.post("/api/session", json!({"token": "guess"})).await.expect(429);
    plane.pass_ms(60_000);
    guess().await.expect(401);
}

#[tokio::test]
async fn ks_5_nobodys_guesses_keep_the_chosen_token_from_a_kill() {
    let plane = Plane::new();
    plane.admin.first_start(Some(&"correct horse battery".into())).unwrap();
    for _ in 0..12 {
        plane.send(with_token("GET", "/api/agents", "wrong")).await;
    }
    // A token is made in between: what was verified stays so.
    plane.token("viewer").await;
    plane.send(with_token("GET", "/api/agents", "wrong")).await.expect(429);
    plane.send(with_token("POST", "/api/emergency/kill", "correct horse battery")).await.expect(200);
}

#[tokio::test]
async fn ks_5_strange_authorization_headers_open_nothing() {
    let plane = Plane::new();
    let token = &plane.token;
    for value in
        ["", "Bearer", "Bearer ", "Basic YTpi", token.as_str(), "Bearer ' OR 1=1 --", "Bearer \u{fc}"]
    {
        let mut request = anonymous("GET", "/api/agents", None);
        request.headers_mut().insert(AUTHORIZATION, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        plane.send(request).await.expect(401);
    }
    let mut twice = plane.request("GET", "/api/agents", None);
    twice.headers_mut().append(AUTHORIZATION, "Bearer x".parse().unwrap());
    plane.send(twice).await.expect(401);
    for wrong in [&token[..75], &format!("{token}0"), &token.to_uppercase()] {
        plane.send(with_token("GET", "/api/agents", wrong)).await.expect(401);
    }
}

#[tokio::test]
async fn ks_5_tokens_are_made_listed_and_taken_back() {
    let plane = Plane::new();
    let viewer = plane.token("viewer").await;
    plane.send(with_token("GET", "/api/agents", &viewer)).await.expect(200);
    let listed = plane.get("/api/tokens").await.expect(200);
    assert!(!listed.text().contains(&viewer));
    let tokens = listed.json()["tokens"].as_array().cloned().unwrap();
    let id = |role: &str| {
        let token = tokens.iter().find(|token| token["role"] == role).unwrap();
        token["id"].as_str().unwrap().to_owned()
    };
    let delete =
        async |id: &str| plane.send(plane.request("DELETE", &format!("/api/tokens/{id}"), None)).await;
    delete(&id("viewer")).await.expect(204);
    plane.send(with_token("GET", "/api/agents", &viewer)).await.expect(401);
    let told = plane.operator.done();
    assert!(told.iter().any(|done| done.contains("made by admin")), "{told:?}");
    assert!(told.iter().any(|done| done.contains("taken back by admin")), "{told:?}");
    assert!(!told.iter().any(|done| done.contains(&viewer)), "a token is written down");
    delete(&id("viewer")).await.expect(404);
    delete(&id("admin")).await.expect(409);
    let brief = json!({"name": "brief", "role": "admin", "expires_in_days": 1});
    let brief = plane.post("/api/tokens", brief).await.expect(201).json();
    delete(&id("admin")).await.expect(409);
    plane.pass_ms(86_400_000);
    plane.send(with_token("GET", "/api/agents", brief["token"].as_str().unwrap())).await.expect(401);
    for bad in [
        json!({"name": "", "role": "admin"}),
        json!({"name": "x", "role": "root"}),
        json!({"name": "owner", "role": "admin"}),
    ] {
        plane.post("/api/tokens", bad).await.expect(400);
    }
}

/// The cookie and the csrf value of a new session.
async fn log_in(plane: &Plane) -> (String, String) {
    let login = anonymous("POST", "/api/session", Some(json!({"token": plane.token})));
    let answer = plane.send(login).await.expect(201);
    let cookie = answer.header("set-cookie");
    let pair = cookie.split(';').next().unwrap_or_default().to_owned();
    (pair, answer.json()["csrf"].as_str().unwrap_or_default().to_owned())
}

async fn by_cookie(
    plane: &Plane,
    method: &str,
    path: &str,
    cookie: &str,
    headers: &[(&'static str, &str)],
) -> Answered {
    let mut request = set(anonymous(method, path, None), "cookie", cookie);
    for (name, value) in headers {
        request = set(request, name, value);
    }
    plane.send(request).await
}

#[tokio::test]
async fn ui_1_unsafe_requests_of_a_session_need_its_csrf_value() {
    let plane = Plane::with_agents(1).await;
    let (cookie, csrf) = log_in(&plane).await;
    let stop = "/api/agents/a0/deactivate";
    by_cookie(&plane, "GET", "/api/agents", &cookie, &[]).await.expect(200);
    by_cookie(&plane, "POST", stop, &cookie, &[]).await.expect(403);
    by_cookie(&plane, "POST", stop, &cookie, &[("x-estop-csrf", "wrong")]).await.expect(403);
    let foreign = [("x-estop-csrf", csrf.as_str()), ("origin", "http://evil.example")];
    by_cookie(&plane, "POST", stop, &cookie, &foreign).await.expect(403);
    let cross = [("x-estop-csrf", csrf.as_str()), ("sec-fetch-site", "cross-site")];
    by_cookie(&plane, "POST", stop, &cookie, &cross).await.expect(403);
    let own = [
        ("x-estop-csrf", csrf.as_str()),
        ("origin", "http://127.0.0.1:4101"),
        ("sec-fetch-site", "same-origin"),
    ];
    by_cookie(&plane, "POST", stop, &cookie, &own).await.expect(200);
    let login = anonymous("POST", "/api/session", Some(json!({"token": plane.token})));
    plane.send(set(login, "origin", "http://evil.example")).await.expect(403);
}

/// Whoever has the cookie alone: another program of this machine behind another port, to which browsers send it too.
#[tokio::test]
async fn se_2_a_stolen_cookie_looks_and_changes_nothing() {
    let plane = Plane::with_agents(1).await;
    let (cookie, csrf) = log_in(&plane).await;
    let id = cookie.split_once('=').unwrap().1;
    let mut seen = String::new();
    for path in ["/api/session", "/api/sessions", "/", "/settings", "/agents/a0", "/api/agents", "/login"] {
        let answer = by_cookie(&plane, "GET", path, &cookie, &[]).await.expect(200);
        seen += &answer.text();
        seen += &format!("{:?}", answer.headers);
    }
    assert!(!seen.contains(&csrf), "the cookie alone is answered the second secret");
    // What the secret once was: it must not follow from the cookie in this way or a similar one.
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let derived = |prefix: &str| hex(&Sha256::digest(format!("{prefix}{id}").as_bytes()));
    let guesses = [derived(""), derived("estop csrf\n"), id.to_owned(), csrf[..63].to_owned(), String::new()];
    for guess in &guesses {
        for (method, path) in [
            ("POST", "/api/emergency/kill"),
            ("POST", "/api/emergency/restart"),
            ("POST", "/api/agents/a0/deactivate"),
            ("POST", "/api/tokens"),
            ("DELETE", "/api/session"),
        ] {
            by_cookie(&plane, method, path, &cookie, &[("x-estop-csrf", guess)]).await.expect(403);
        }
    }
    assert!(!plane.operator.done().iter().any(|done| done.contains("Kill") || done.contains("Deactivate")));
    let (_, other) = log_in(&plane).await;
    assert_ne!(csrf, other, "each login has its own");
    by_cookie(&plane, "POST", "/api/emergency/kill", &cookie, &[("x-estop-csrf", &other)]).await.expect(403);
    by_cookie(&plane, "POST", "/api/emergency/kill", &cookie, &[("x-estop-csrf", &csrf)]).await.expect(200);
}

#[tokio::test]
async fn se_2_sessions_are_listed_and_ended_by_admins() {
    let plane = Plane::new();
    let viewer = plane.token("viewer").await;
    let login = anonymous("POST", "/api/session", Some(json!({"token": viewer})));
    let begun = plane.send(set(login, "user-agent", "A browser/1.0")).await.expect(201);
    let stolen = begun.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
    let (own, csrf) = log_in(&plane).await;
    by_cookie(&plane, "GET", "/api/sessions", &stolen, &[]).await.expect(403);
    let listed = by_cookie(&plane, "GET", "/api/sessions", &own, &[]).await.expect(200);
    assert!(!listed.text().contains(stolen.split_once('=').unwrap().1), "{}", listed.text());
    let sessions = listed.json()["sessions"].as_array().cloned().unwrap();
    assert_eq!(sessions.len(), 2);
    let found = sessions.iter().find(|session| session["name"] == "viewer").unwrap();
    assert_eq!((&found["user_agent"], &found["current"]), (&json!("A browser/1.0"), &json!(false)));
    assert!(sessions.iter().any(|session| session["name"] == "admin" && session["current"] == true));
    let end = format!("/api/sessions/{}", found["id"].as_str().unwrap());
    by_cookie(&plane, "DELETE", &end, &own, &[("x-estop-csrf", &csrf)]).await.expect(204);
    by_cookie(&plane, "GET", "/api/agents", &stolen, &[]).await.expect(401);
    by_cookie(&plane, "DELETE", &end, &own, &[("x-estop-csrf", &csrf)]).await.expect(404);
    assert!(plane.operator.done().iter().any(|done| done.contains("ended by admin")), "it is written down");
}

/// A14: half an hour without use, whatever happens to the process meanwhile.
#[tokio::test]
async fn ui_1_a_sessions_idle_end_survives_a_restart() {
    let plane = Plane::new();
    let (cookie, _) = log_in(&plane).await;
    let (used, _) = log_in(&plane).await;
    plane.pass_ms(20 * 60_000);
    by_cookie(&plane, "GET", "/api/agents", &used, &[]).await.expect(200);
    // Its use is written down by a thread that nobody waits for.
    let is_kept = || plane.store.sessions(START).unwrap().iter().any(|session| session.used_at > START);
    while !is_kept() {
        tokio::task::yield_now().await;
    }
    let restarted = plane.restarted();
    plane.pass_ms(10 * 60_000);
    let ask = async |cookie: &str| {
        send(restarted.router(), set(anonymous("GET", "/api/agents", None), "cookie", cookie)).await
    };
    ask(&cookie).await.expect(401);
    ask(&used).await.expect(200);
    plane.pass_ms(30 * 60_000);
    ask(&used).await.expect(401);
}

#[tokio::test]
async fn ui_1_sessions_end_by_logging_out_by_time_and_with_their_token() {
    let plane = Plane::new();
    let (first, csrf) = log_in(&plane).await;
    by_cookie(&plane, "DELETE", "/api/session", &first, &[("x-estop-csrf", &csrf)]).await.expect(204);
    by_cookie(&plane, "GET", "/api/agents", &first, &[]).await.expect(401);

    let (idle, _) = log_in(&plane).await;
    plane.pass_ms(29 * 60_000);
    by_cookie(&plane, "GET", "/api/agents", &idle, &[]).await.expect(200);
    plane.pass_ms(30 * 60_000);
    by_cookie(&plane, "GET", "/api/agents", &idle, &[]).await.expect(401);

    let (used, _) = log_in(&plane).await;
    for _ in 0..(12 * 60 / 20 - 1) {
        plane.pass_ms(20 * 60_000);
        by_cookie(&plane, "GET", "/api/agents", &used, &[]).await.expect(200);
    }
    plane.pass_ms(20 * 60_000);
    by_cookie(&plane, "GET", "/api/agents", &used, &[]).await.expect(401);

    let (orphan, _) = log_in(&plane).await;
    let token = plane.store.tokens().unwrap().remove(0).id;
    plane.post("/api/tokens", json!({"name": "second", "role": "admin"})).await.expect(201);
    plane.send(plane.request("DELETE", &format!("/api/tokens/{token}"), None)).await.expect(204);
    by_cookie(&plane, "GET", "/api/agents", &orphan, &[]).await.expect(401);
}

#[tokio::test]
async fn ui_1_the_cookie_is_closed_to_scripts_and_other_sites() {
    for (https, name, secure) in [(true, "__Host-estop=", true), (false, "estop=", false)] {
        let plane = Plane::with(Options { loopback: true, https });
        let login = anonymous("POST", "/api/session", Some(json!({"token": plane.token})));
        let cookie = plane.send(login).await.expect(201).header("set-cookie");
        assert!(cookie.starts_with(name), "{cookie}");
        for part in ["HttpOnly", "SameSite=Strict", "Path=/;"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        assert!(!cookie.contains("Domain"));
        assert_eq!(cookie.contains("Secure"), secure);
    }
}

#[tokio::test]
async fn ks_5_a_loopback_port_refuses_foreign_hosts() {
    let plane = Plane::new();
    let ask = async |host: &str| plane.send(set(plane.request("GET", "/healthz", None), "host", host)).await;
    for good in ["localhost", "localhost:4101", "127.0.0.1", "[::1]:4101", "estop.localhost"] {
        ask(good).await.expect(200);
    }
    for foreign in ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil.example:4101"] {
        ask(foreign).await.expect(421);
    }
    ask("x/admin?#").await.expect(400);
    let mut none = plane.request("GET", "/healthz", None);
    none.headers_mut().remove("host");
    plane.send(none).await.expect(400);
    let open = Plane::with(Options { loopback: false, https: true });
    open.send(set(open.request("GET", "/healthz", None), "host", "estop.example")).await.expect(200);
}

#[tokio::test]
async fn ks_5_unlocking_needs_a_token_also_over_the_owners_socket() {
    let plane = Plane::new();
    let operator = plane.token("operator").await;
    let ask = async |path: &str, token: Option<&str>, body: Option<Value>| {
        let mut request = anonymous("POST", &format!("/api/emergency/{path}"), body);
        if let Some(token) = token {
            request = set(request, "authorization", &format!("Bearer {token}"));
        }
        send(plane.admin.router_for_owner(), request).await
    };
    ask("kill", Some("estop_admin_wrong"), None).await.expect(403);
    ask("kill", None, Some(json!({"adminToken": "wrong"}))).await.expect(403);
    assert_eq!(plane.operator.done().iter().filter(|done| done.starts_with("Kill")).count(), 0);
    ask("kill", None, None).await.expect(200);
    for step in ["restart", "clear"] {
        for (token, body) in [
            (None, None),
            (None, Some(json!({"adminToken": "wrong"}))),
            (Some("estop_admin_wrong"), None),
            (Some(operator.as_str()), None),
        ] {
            let refused = ask(step, token, body).await.expect(403).json();
            assert_eq!(refused["error"], "Unauthorized", "{refused}");
        }
    }
    assert_eq!(ask("restart", Some(&plane.token), None).await.expect(200).json()["status"], "safe_mode");
    let clear = ask("clear", None, Some(json!({"adminToken": plane.token}))).await.expect(200).json();
    assert_eq!(clear["status"], "running");
}

/// Seed 5: 403, `error: "Unauthorized"`.
#[tokio::test]
async fn ks_6_the_button_without_a_good_token_is_a_403_and_unauthorized() {
    let plane = Plane::new();
    for step in ["kill", "restart", "clear"] {
        let path = format!("/api/emergency/{step}");
        let header = |value: &str| set(anonymous("POST", &path, None), "authorization", value);
        for request in [
            anonymous("POST", &path, None),
            anonymous("POST", &path, Some(json!({"adminToken": "wrong"}))),
            header("Bearer estop_admin_wrong"),
            header("Basic YTpi"),
        ] {
            let refused = plane.send(request).await.expect(403).json();
            assert_eq!(refused["error"], "Unauthorized", "{step}: {refused}");
        }
        // A page whose session has ended is told to log in again.
        let ended = set(anonymous("POST", &path, None), "cookie", "estop=ended");
        plane.send(ended).await.expect(401);
    }
}

#[tokio::test]
async fn ks_5_an_admin_token_made_without_one_is_written_down_as_such() {
    let plane = Plane::new();
    let reset = |role: &str| anonymous("POST", "/api/tokens", Some(json!({"name": role, "role": role})));
    send(plane.admin.router_for_owner(), reset("viewer")).await.expect(201);
    plane.post("/api/tokens", json!({"name": "other", "role": "admin"})).await.expect(201);
    let loud = || plane.operator.done().iter().filter(|done| done.contains(ADMIN_TOKEN_BY_OWNER)).count();
    assert_eq!(loud(), 0, "{:?}", plane.operator.done());
    send(plane.admin.router_for_owner(), reset("admin")).await.expect(201);
    assert_eq!(loud(), 1, "{:?}", plane.operator.done());
}

#[tokio::test]
async fn ks_5_the_owner_needs_no_token_and_is_named() {
    let plane = Plane::with_agents(1).await;
    let mut request = anonymous("POST", "/api/agents/a0/deactivate", None);
    request.headers_mut().remove("host");
    send(plane.admin.router_for_owner(), request).await.expect(200);
    assert!(plane.operator.done().contains(&"Deactivate a0 by owner".to_owned()));
    let reset = anonymous("POST", "/api/tokens", Some(json!({"name": "found", "role": "admin"})));
    let token = send(plane.admin.router_for_owner(), reset).await.expect(201).json();
    plane.send(with_token("GET", "/api/tokens", token["token"].as_str().unwrap())).await.expect(200);
}

#[tokio::test]
async fn id_3_secrets_never_show_themselves() {
    let plane = Plane::with_agents(1).await;
    let made = plane.admin.first_start(Some(&"correct horse battery".into())).unwrap();
    let shown = format!("{:?} {made:?}", plane.admin);
    assert!(!shown.contains("horse") && !shown.contains(&plane.token));
    let token = plane.token.clone();
    for request in [
        anonymous("POST", "/api/session", Some(json!({"token": [token]}))),
        anonymous("POST", "/api/session", Some(json!({"tokn": token}))),
        anonymous("POST", "/api/session", Some(json!({"token": format!("{token}x")}))),
        with_token("GET", "/api/agents", &format!("{token}x")),
        with_token("GET", "/api/nothing", &token),
        set(anonymous("GET", "/api/agents", None), "cookie", &format!("estop={token}")),
    ] {
        let answer = plane.send(request).await;
        assert!(!answer.text().contains(&token[..40]), "{}", answer.text());
    }
    let made = plane.send(plane.request("POST", "/api/agents/a0/keys", None)).await.json();
    let secrets = [token.as_str(), "correct horse battery", made["key"].as_str().unwrap()];
    let kept = format!("{:?} {:?}", plane.store.tokens().unwrap(), plane.store.keys().unwrap());
    assert!(secrets.iter().all(|secret| !kept.contains(secret)));
}
