//! Real receivers on this machine: dead, failing, redirecting, flooding, hanging (F10), and addresses that are not sent
//! to (A9).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod house;

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use estop_core::ids::Name;
use estop_notify::{
    AlertEvent, AlertType, Channel, ChannelKind, Endpoint, Mute, Notifier, NotifierEnv, Reach, Resolve,
    Settings, Webhook,
};
use estop_store::{Alerts, DeliveryFilter, LoggedDelivery, Sqlite};
use house::{Receiver, Reply, cleared, event, looped, open, settings, webhook};

fn start(store: &Sqlite, settings: Settings) -> Notifier {
    Notifier::start(Arc::new(store.clone()), settings, NotifierEnv::system()).unwrap()
}

fn ok() -> Reply {
    Reply::Say(200, "", "ok".to_owned())
}

/// Waits for a line of the log.
fn logged(store: &Sqlite, is_it: impl Fn(&LoggedDelivery) -> bool) -> LoggedDelivery {
    let begun = Instant::now();
    loop {
        let log = store.deliveries(&DeliveryFilter::default(), 1000).unwrap();
        if let Some(found) = log.iter().find(|line| is_it(line)) {
            return found.clone();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{log:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn al_1_whoever_fails_is_tried_again_and_the_others_are_told_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let hanging = Receiver::start(|_, _| Reply::Hang);
    let moody = Receiver::start(|_, nth| match nth {
        1 => Reply::Say(503, "", "busy".to_owned()),
        2 => Reply::Close,
        3 => Reply::Say(429, "retry-after: 1\r\n", String::new()),
        _ => ok(),
    });
    let well = Receiver::start(|_, _| ok());
    let channels = [
        ("hanging", webhook(&hanging.url("/"))),
        ("moody", webhook(&moody.url("/"))),
        ("well", webhook(&well.url("/"))),
    ];
    let notifier = start(&store, settings(channels));
    notifier.tell(looped("a", 1));
    notifier.tell(looped("b", 2));
    notifier.tell(cleared(AlertType::KillSwitch, "a", 3));
    let agents = |seen: Vec<house::Seen>| -> Vec<String> {
        let title = |body: &str| {
            serde_json::from_str::<serde_json::Value>(body).unwrap()["data"]["title"].to_string()
        };
        seen.iter().map(|seen| title(&seen.body)).collect()
    };
    let circles = |agent: &str| format!("\"Agent {agent} was stopped: stuck in a loop\"");
    let expected = [circles("a"), circles("b"), "\"Agent a was reactivated by anna\"".to_owned()];
    assert_eq!(agents(well.wait(3)), expected);
    assert_eq!(store.waiting_alerts().unwrap()[0].target, "hanging".into());
    assert_eq!(
        agents(moody.wait(6)[3..].to_vec()),
        expected,
        "in their order, after the first had failed three times"
    );
    assert!(logged(&store, |line| &*line.target == "hanging").detail.contains("no answer within 2 s"));
    let ids: Vec<String> = moody.requests().iter().map(|seen| seen.headers["webhook-id"].clone()).collect();
    assert!(ids[..4].iter().all(|id| *id == ids[0]), "the same message has the same id: {ids:?}");
}

#[test]
fn al_1_redirects_are_not_followed_and_floods_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let canary = Receiver::start(|_, _| ok());
    let there: &'static str = Box::leak(format!("location: {}\r\n", canary.url("/")).into_boxed_str());
    let redirecting = Receiver::start(move |_, _| Reply::Say(302, there, String::new()));
    let flooding = Receiver::start(|_, _| Reply::Flood);
    let secret = "/services/T000/sekret-canary";
    let echoing = Receiver::start(move |seen, _| {
        // Far enough in that the cut of what is kept falls into the secret.
        let padding = "x ".repeat(85);
        Reply::Say(500, "", format!("{padding}{} {}", seen.line, seen.body))
    });
    let channels = [
        ("redirecting", webhook(&redirecting.url("/"))),
        ("flooding", webhook(&flooding.url("/"))),
        ("echoing", webhook(&echoing.url(secret))),
    ];
    let notifier = start(&store, settings(channels));
    notifier.tell(looped("a", 1));
    let line = logged(&store, |line| &*line.target == "redirecting");
    assert!(line.detail.contains("302") && line.detail.contains("not followed"), "{line:?}");
    assert_eq!(&*logged(&store, |line| &*line.target == "flooding").outcome, "delivered");
    let line = logged(&store, |line| &*line.target == "echoing");
    assert!(line.detail.contains("[secret]") && !line.detail.contains("services"), "{line:?}");
    assert!(line.detail.chars().count() <= 300);
    assert!(notifier.health().iter().all(|health| !health.said.contains("sekret")));
    assert_eq!(canary.connects.load(Ordering::SeqCst), 0);
}

#[test]
fn al_1_what_was_told_while_everything_was_down_goes_out_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let port = {
        let reserved = TcpListener::bind("127.0.0.1:0").unwrap();
        reserved.local_addr().unwrap().port()
    };
    let url = format!("http://127.0.0.1:{port}/");
    {
        let store = open(&folder);
        let notifier = start(&store, settings([("ops", webhook(&url))]));
        notifier.tell(looped("a", 7));
        notifier.told_up_to(6);
        assert_eq!(&*logged(&store, |_| true).outcome, "retry");
        drop(notifier);
        assert_eq!(store.waiting_alerts().unwrap().len(), 1);
    }
    let receiver = Receiver::start(|_, _| ok());
    let store = open(&folder);
    let notifier = start(&store, settings([("ops", webhook(&receiver.url("/")))]));
    assert_eq!(notifier.cursor(), 6, "a start tells only what is newer");
    assert!(receiver.wait(1)[0].body.contains("Agent a was stopped"));
    notifier.tell(looped("a", 7));
    notifier.test("ops", "anna").unwrap();
    assert!(receiver.wait(2)[1].body.contains("This is a test"), "what was told is not told again");
    assert!(notifier.test("nowhere", "anna").is_err());
    assert!(notifier.is_told_of(AlertType::KillSwitch, "anybody"));
    notifier.change(Settings::default()).unwrap();
    assert!(!notifier.is_told_of(AlertType::KillSwitch, "anybody"));
}

#[test]
fn al_1_tests_of_a_dead_channel_are_one_and_the_next_one_is_another() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let is_dead = Arc::new(AtomicBool::new(true));
    let dead = Arc::clone(&is_dead);
    let receiver = Receiver::start(move |_, _| if dead.load(Ordering::SeqCst) { Reply::Close } else { ok() });
    let notifier = start(&store, settings([("ops", webhook(&receiver.url("/")))]));
    for _ in 0..1000 {
        notifier.test("ops", "anna").unwrap();
    }
    receiver.wait(1);
    notifier.test("ops", "anna").unwrap();
    let waiting: u64 = store.waiting_alerts().unwrap().iter().map(|one| one.count).sum();
    assert_eq!(waiting, 1);
    is_dead.store(false, Ordering::SeqCst);
    let delivered = || -> BTreeSet<Name> {
        let log = store.deliveries(&DeliveryFilter::default(), 100).unwrap();
        log.into_iter().filter(|one| &*one.outcome == "delivered").map(|one| one.dedupe).collect()
    };
    let until = |count: usize, ask: &dyn Fn()| {
        let begun = Instant::now();
        while delivered().len() < count {
            ask();
            assert!(begun.elapsed() < Duration::from_secs(60), "{} of {count} arrived", delivered().len());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until(1, &|| ());
    assert_eq!(delivered().len(), 1, "a thousand and one tests of a dead channel are one");
    // Whoever asks while one is on its way asks for the same: the first word may come too soon.
    until(2, &|| notifier.test("ops", "anna").unwrap());
}

#[test]
fn al_1_a_mute_is_seen_at_once_and_the_answer_of_a_kill_knows_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let receiver = Receiver::start(|_, _| ok());
    let notifier = start(&store, settings([("ops", webhook(&receiver.url("/")))]));
    let mute = |types| Mute {
        types,
        agents: Vec::new(),
        until: (NotifierEnv::system().clock)() + 600_000,
        by: "anna".into(),
        why: String::new(),
    };
    let is_kept = |id: &str| {
        let memory = store.alert_memory("").unwrap();
        memory.iter().any(|(name, _)| name.ends_with(&format!("/{id}")))
    };
    for n in 0..50 {
        let id = format!("m{n}");
        notifier.mute(&id, mute(vec![AlertType::Budget])).unwrap();
        assert!(notifier.mutes().contains_key(&*id) && is_kept(&id), "{id} was just made");
        notifier.unmute(&id).unwrap();
        assert!(!notifier.mutes().contains_key(&*id) && !is_kept(&id), "{id} was just ended");
    }
    notifier.mute("all", mute(Vec::new())).unwrap();
    assert!(notifier.is_told_now(AlertType::SystemKill), "a mute of everything does not hide the button");
    notifier.mute("button", mute(vec![AlertType::SystemKill])).unwrap();
    assert!(!notifier.is_told_now(AlertType::SystemKill));
    drop(notifier);
    let notifier = start(&store, settings([("ops", webhook(&receiver.url("/")))]));
    assert!(!notifier.is_told_now(AlertType::SystemKill), "it holds from the start on");
}

#[test]
fn ks_2_presses_and_clears_at_once_are_told_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let receiver = Receiver::start(|_, _| ok());
    let notifier = start(&store, settings([("ops", webhook(&receiver.url("/")))]));
    for n in 0..10 {
        let press = event(AlertType::SystemKill, "x", 0);
        notifier.tell(AlertEvent { id: format!("kill-{n}").into(), agent: None, ..press });
        let clear = cleared(AlertType::SystemKill, "x", 0);
        notifier.tell(AlertEvent { id: format!("clear-{n}").into(), agent: None, ..clear });
    }
    let told = receiver.wait(20);
    for (nth, seen) in told.iter().enumerate() {
        let is_end = seen.body.contains("was cleared");
        assert_eq!(is_end, nth % 2 == 1, "{nth}: {}", seen.body);
    }
}

#[test]
fn al_1_telling_never_waits() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let hanging = Receiver::start(|_, _| Reply::Hang);
    let notifier = start(&store, settings([("ops", webhook(&hanging.url("/")))]));
    // More than may wait: nobody is held up, and what was too much is counted.
    for n in 0..30_000 {
        notifier.tell(looped(&format!("agent-{n}"), n + 1));
    }
    hanging.wait(1);
    let begun = Instant::now();
    while notifier.cursor() == 0 {
        // What is said while too much waits is lost.
        notifier.told_up_to(30_000);
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
    let waiting = store.waiting_alerts().unwrap();
    assert!(waiting[0].count <= 21, "{waiting:?}");
}

/// Names that lead wherever the test wants, and how often they were looked up.
struct Names(Mutex<Vec<Vec<IpAddr>>>, AtomicUsize);

impl Names {
    fn new(answers: &[&[&str]]) -> Arc<Names> {
        let parse = |all: &&[&str]| all.iter().map(|text| text.parse().unwrap()).collect();
        Arc::new(Names(Mutex::new(answers.iter().map(parse).collect()), AtomicUsize::new(0)))
    }
}

impl Resolve for Names {
    fn resolve<'a>(
        &'a self,
        _: &'a str,
        _: u16,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        let nth = self.1.fetch_add(1, Ordering::SeqCst);
        let answers = self.0.lock().unwrap();
        let answer = answers[nth.min(answers.len() - 1)].clone();
        Box::pin(async move { Ok(answer) })
    }
}

/// Tells one thing to one channel; what the log says of the first try.
fn first_try(url: &str, reach: Reach, names: &Arc<Names>) -> LoggedDelivery {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let endpoint = Endpoint::parse(url).unwrap();
    let kind = ChannelKind::Webhook(Webhook { endpoint, secrets: Vec::new() });
    let channel = Channel { reach, timeout: Duration::from_secs(5), ..Channel::new(kind) };
    let resolver: Arc<dyn Resolve> = Arc::clone(names) as Arc<dyn Resolve>;
    let outside = NotifierEnv { resolver, ..NotifierEnv::system() };
    let notifier = Notifier::start(Arc::new(store.clone()), settings([("ops", channel)]), outside).unwrap();
    notifier.tell(looped("a", 1));
    logged(&store, |_| true)
}

#[test]
fn al_1_nobody_is_sent_to_a_private_address_by_any_spelling() {
    let canary = Receiver::start(|_, _| ok());
    let port = canary.address.port();
    let nothing = Reach::default();
    let direct = [
        "http://127.0.0.1",
        "https://127.0.0.1",
        "http://[::1]",
        "http://[::ffff:127.0.0.1]",
        "http://0.0.0.0",
        "http://[::]",
        "http://169.254.169.254",
        "http://10.0.0.1",
        "http://[fd00::1]",
        "http://100.64.0.1",
    ];
    for url in direct {
        let line = first_try(&format!("{url}:{port}/"), nothing, &Names::new(&[&["127.0.0.1"]]));
        assert!(line.detail.contains("is not sent to"), "{url}: {line:?}");
    }
    for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.1.2.3", "169.254.169.254", "64:ff9b::7f00:1"]
    {
        let names = Names::new(&[&[address]]);
        let line = first_try(&format!("http://inside.example.com:{port}/"), nothing, &names);
        assert!(line.detail.contains("is not sent to"), "{address}: {line:?}");
        assert_eq!(names.1.load(Ordering::SeqCst), 1);
    }
    let mixed = Names::new(&[&["127.0.0.1", "10.0.0.1"]]);
    let loopback = Reach { allow_loopback: true, ..nothing };
    let line = first_try(&format!("http://mixed.example.com:{port}/"), loopback, &mixed);
    assert!(line.detail.contains("10.0.0.1 is not sent to"), "one bad address is enough: {line:?}");
    let plain = first_try("http://plain.example.com/", nothing, &Names::new(&[&["93.184.216.34"]]));
    assert!(plain.detail.contains("use https://"), "{plain:?}");
    assert_eq!(canary.connects.load(Ordering::SeqCst), 0, "nobody was even connected to");
}

#[test]
fn al_1_a_name_that_changes_its_mind_gains_nothing() {
    let (first, second) = (Receiver::start(|_, _| ok()), Receiver::start(|_, _| ok()));
    let loopback = Reach { allow_loopback: true, ..Reach::default() };
    // The second answer would lead to another listener on the same port; it is never asked for.
    let names = Names::new(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let url = format!("http://rebinding.example.com:{}/", first.address.port());
    let line = first_try(&url, loopback, &names);
    assert_eq!(&*line.outcome, "delivered", "{line:?}");
    assert_eq!(names.1.load(Ordering::SeqCst), 1, "looked up once, connected to what was checked");
    assert_eq!(first.wait(1)[0].headers["host"], format!("rebinding.example.com:{}", first.address.port()));
    assert_eq!(second.connects.load(Ordering::SeqCst), 0);
}

/// A receiver that speaks TLS with a certificate of its own, for `localhost`; the certificate.
fn tls_receiver() -> (u16, rustls::pki_types::CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.der().clone(), made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], rustls::pki_types::PrivateKeyDer::Pkcs8(key.into()))
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let connection = rustls::ServerConnection::new(Arc::new(config.clone())).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream);
            let mut read = [0; 4096];
            // One read holds a whole small request; who does not trust us never sends one.
            if io::Read::read(&mut stream, &mut read).is_ok_and(|count| count > 0) {
                let _ = io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
            }
        }
    });
    (port, certificate)
}

#[test]
fn al_1_https_goes_only_to_who_can_prove_its_name() {
    let (port, certificate) = tls_receiver();
    let loopback = Reach { allow_loopback: true, ..Reach::default() };
    let first = |host: &str, ca: Vec<_>| {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder);
        let endpoint = Endpoint::parse(&format!("https://{host}:{port}/")).unwrap();
        let kind = ChannelKind::Webhook(Webhook { endpoint, secrets: Vec::new() });
        let channel = Channel { reach: loopback, ca, ..Channel::new(kind) };
        let outside = NotifierEnv { resolver: Names::new(&[&["127.0.0.1"]]), ..NotifierEnv::system() };
        let notifier =
            Notifier::start(Arc::new(store.clone()), settings([("ops", channel)]), outside).unwrap();
        notifier.tell(looped("a", 1));
        logged(&store, |_| true)
    };
    assert_eq!(&*first("localhost", vec![certificate.clone()]).outcome, "delivered");
    for (host, ca) in [("localhost", Vec::new()), ("other.example.com", vec![certificate.clone()])] {
        let line = first(host, ca);
        assert!(line.detail.contains("TLS failed"), "{host}: {line:?}");
    }
}
