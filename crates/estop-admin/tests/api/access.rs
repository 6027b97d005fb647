//! Who may come in: tokens, sessions, hosts, other sites, and those who guess.

use estop_admin::Options;
use estop_store::Access;
use http::header::AUTHORIZATION;
use serde_json::json;

use crate::support::{Answered, Plane, anonymous, from_peer, send, set};

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
    plane.admin.first_start(Some(&"correct horse".into())).unwrap();
    plane.admin.first_start(Some(&"correct horse".into())).unwrap();
    let ask = async |token: &str| plane.send(with_token("GET", "/api/tokens", token)).await;
    let tokens = ask("correct horse").await.expect(200).json();
    assert_eq!(tokens["tokens"].as_array().map(Vec::len), Some(2), "it is kept once");
    ask("correct horse").await.expect(200);
    plane.admin.first_start(Some(&"battery staple".into())).unwrap();
    ask("correct horse").await.expect(401);
    ask("battery staple").await.expect(200);
    plane.admin.first_start(None).unwrap();
    ask("battery staple").await.expect(401);
    assert!(plane.admin.first_start(Some(&"".into())).is_err());
}

#[tokio::test]
async fn ks_5_a_kill_never_waits_for_a_slow_hash() {
    let plane = Plane::new();
    plane.admin.first_start(Some(&"correct horse".into())).unwrap();
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
    plane.admin.first_start(Some(&"correct horse".into())).unwrap();
    for _ in 0..12 {
        plane.send(with_token("GET", "/api/agents", "wrong")).await;
    }
    // A token is made in between: what was verified stays so.
    plane.token("viewer").await;
    plane.send(with_token("GET", "/api/agents", "wrong")).await.expect(429);
    plane.send(with_token("POST", "/api/emergency/kill", "correct horse")).await.expect(200);
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
    let again = by_cookie(&plane, "GET", "/api/session", &cookie, &[]).await.expect(200).json();
    assert_eq!(again["csrf"], csrf.as_str(), "a page that was loaded again finds it");
    let login = anonymous("POST", "/api/session", Some(json!({"token": plane.token})));
    plane.send(set(login, "origin", "http://evil.example")).await.expect(403);
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
    let made = plane.admin.first_start(Some(&"correct horse".into())).unwrap();
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
    let secrets = [token.as_str(), "correct horse", made["key"].as_str().unwrap()];
    let kept = format!("{:?} {:?}", plane.store.tokens().unwrap(), plane.store.keys().unwrap());
    assert!(secrets.iter().all(|secret| !kept.contains(secret)));
}
