//! A whole admin plane without a port: the real store in a folder of its own, and an operator in memory.

pub(crate) mod alerts_api;
pub(crate) mod operator;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use estop_admin::{Admin, AdminState, AlertsApi, Installation, Options};
use estop_core::operator::Operator;
use estop_core::policy_file::{PolicyFile, PolicyFileIn};
use estop_store::{Durability, Journal, JournalBatch, Sqlite, SqliteOptions};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tower::ServiceExt;

use alerts_api::FakeAlerts;
use operator::{FakeOperator, zones};

use crate::written_journal::WrittenJournal;

pub(crate) const START: i64 = 1_763_164_800_000;

/// An admin plane.
pub(crate) struct Plane {
    pub(crate) admin: Admin,
    pub(crate) operator: Arc<FakeOperator>,
    pub(crate) store: Arc<Sqlite>,
    pub(crate) alerts_api: Arc<FakeAlerts>,
    pub(crate) router: Router,
    /// The admin's token.
    pub(crate) token: String,
    clock: Arc<AtomicI64>,
    state: AdminState,
    folder: tempfile::TempDir,
}

/// An answer, read whole.
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

impl Answered {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> String {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    }

    /// Fails unless it has this status; a problem must be a problem document.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Answered {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        if self.status.is_client_error() || self.status.is_server_error() {
            assert_eq!(self.header("content-type"), "application/problem+json");
            let problem = self.json();
            assert_eq!(problem["status"], status);
            for key in ["type", "title", "detail", "code"] {
                assert!(problem[key].as_str().is_some_and(|text| !text.is_empty()), "{key} in {problem}");
            }
        }
        self
    }
}

/// The file the tests start from.
pub(crate) const FILE: &str = r#"{"policy": {"kill_switch_window_size": 30, "loop_score": "literal"},
    "agents": {"filed": {"role": "pm", "policy": {"kill_switch_threshold": 12}},
        "easy": {"policy": {"preset": "watch"}}}}"#;

impl Plane {
    pub(crate) fn new() -> Plane {
        Plane::with(Options { loopback: true, https: false })
    }

    /// The same estop after a restart: what was only in memory is gone.
    pub(crate) fn restarted(&self) -> Admin {
        Admin::open(self.state.clone()).expect("it opens")
    }

    pub(crate) fn with(options: Options) -> Plane {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("estop.db");
        let store = Arc::new(Sqlite::open(&path, SqliteOptions::default()).expect("a database"));
        let file: PolicyFileIn = serde_json::from_str(FILE).expect("a file");
        let file: Arc<PolicyFile> = Arc::new(file.check(&zones).expect("it fits"));
        let operator = Arc::new(FakeOperator::new(file, Arc::clone(&store)));
        let ruled = Arc::clone(&operator);
        let alerts_api = Arc::new(FakeAlerts::default());
        let clock = Arc::new(AtomicI64::new(START));
        let ticking = Arc::clone(&clock);
        let state = AdminState {
            operator: Arc::clone(&operator) as Arc<dyn Operator>,
            store: Arc::clone(&store) as Arc<dyn estop_store::Store>,
            clock: Arc::new(move || ticking.load(Ordering::SeqCst)),
            policy_file: Arc::new(move || ruled.file()),
            edits: Arc::default(),
            options,
            place: Installation {
                data_url: "http://127.0.0.1:4100".into(),
                data_dir: "/data".into(),
                evidence_days: Some(30),
                ..Installation::default()
            },
            alerts_api: Arc::clone(&alerts_api) as Arc<dyn AlertsApi>,
            metrics: Arc::new(|| "estop_build_info 1\n# EOF\n".to_owned()),
        };
        let admin = Admin::open(state.clone()).expect("it opens");
        let token = admin.first_start(None).expect("a token").expect("it is the first start");
        let token = token.expose_secret().to_owned();
        let router = admin.router();
        Plane { admin, operator, store, alerts_api, router, token, clock, state, folder }
    }

    /// With agents `a0`, `a1`, … that the API added.
    pub(crate) async fn with_agents(count: usize) -> Plane {
        let plane = Plane::new();
        for number in 0..count {
            plane.post("/api/agents", json!({"id": format!("a{number}")})).await.expect(201);
        }
        plane
    }

    /// The journal beside the database, to be written on.
    pub(crate) fn journal(&self) -> WrittenJournal {
        WrittenJournal::open(self.folder.path())
    }

    /// Stores rows, up to the newest record of a journal.
    pub(crate) fn keep(&self, journal: &WrittenJournal, rows: JournalBatch) {
        let batch = JournalBatch { cursor: Some(journal.cursor()), ..rows };
        self.store.append(Arc::new(batch), Durability::Process).expect("it is stored");
    }

    pub(crate) fn pass_ms(&self, ms: i64) {
        self.clock.fetch_add(ms, Ordering::SeqCst);
    }

    pub(crate) async fn get(&self, path: &str) -> Answered {
        self.send(self.request("GET", path, None)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answered {
        self.send(self.request("POST", path, Some(body))).await
    }

    /// Any request, with the admin's token.
    pub(crate) fn request(&self, method: &str, path: &str, body: Option<Value>) -> Request<Body> {
        let mut request = anonymous(method, path, body);
        let token = format!("Bearer {}", self.token).parse().expect("a header");
        request.headers_mut().insert(AUTHORIZATION, token);
        request
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answered {
        send(self.router.clone(), request).await
    }

    /// A token of this role.
    pub(crate) async fn token(&self, role: &str) -> String {
        let made = self.post("/api/tokens", json!({"name": role, "role": role})).await.expect(201);
        made.json()["token"].as_str().unwrap_or_default().to_owned()
    }
}

/// A request without any token.
pub(crate) fn anonymous(method: &str, path: &str, body: Option<Value>) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header(HOST, "127.0.0.1:4101");
    let mut request = match body {
        Some(body) => request.header(CONTENT_TYPE, "application/json").body(Body::from(body.to_string())),
        None => request.body(Body::empty()),
    }
    .expect("a request");
    from_peer(&mut request, [127, 0, 0, 1]);
    request
}

pub(crate) fn from_peer(request: &mut Request<Body>, ip: [u8; 4]) {
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from((ip, 40_000))));
}

pub(crate) fn set(mut request: Request<Body>, header: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().insert(header, value.parse().expect("a header"));
    request
}

pub(crate) async fn send(router: Router, request: Request<Body>) -> Answered {
    let response = router.oneshot(request).await.expect("the router always answers");
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.expect("a whole body").to_bytes().to_vec();
    Answered { status: parts.status, headers: parts.headers, bytes }
}
