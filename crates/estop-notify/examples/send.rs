//! Sends alerts through real channels: what the tests with real receivers run, and a way to try settings by hand.
//!
//! Usage: `send STORE CONFIG.json [EVENTS.json]`
//!
//! CONFIG is the section `alerts:` as JSON, EVENTS a list of events; without one, a test goes to every channel. It
//! ends with 0 when nothing waits any more and nothing was given up, prints the delivery log, and stops after 60 s (or
//! ESTOP_SEND_WITHIN_S).

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use estop_notify::{AlertEvent, AlertsIn, Lookup, Notifier, NotifierEnv};
use estop_store::{Alerts, DeliveryFilter, Sqlite, SqliteOptions};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

const WITHIN_S: u64 = 60;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, String> {
    let mut arguments = std::env::args().skip(1);
    let (Some(store), Some(config)) = (arguments.next(), arguments.next()) else {
        return Err("usage: send STORE CONFIG.json [EVENTS.json]".to_owned());
    };
    let store =
        Sqlite::open(Path::new(&store), SqliteOptions::default()).map_err(|error| error.to_string())?;
    let alerts: AlertsIn = read(&config)?;
    let lookup = Lookup {
        secret: &|name| std::env::var(name).ok().map(Into::into),
        certificates: &|path| Ok(CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?),
    };
    let settings = alerts.resolve(&lookup).map_err(|problems| {
        let lines: Vec<String> =
            problems.into_iter().map(|p| format!("alerts.{}: {}", p.keys.join("."), p.problem)).collect();
        lines.join("\n")
    })?;
    let names: Vec<_> = settings.channels.keys().cloned().collect();
    let kept: Arc<dyn Alerts> = Arc::new(store.clone());
    let notifier =
        Notifier::start(kept, settings, NotifierEnv::system()).map_err(|error| error.to_string())?;
    match arguments.next() {
        Some(path) => {
            let events: Vec<AlertEvent> = read(&path)?;
            events.into_iter().for_each(|event| notifier.tell(event));
        }
        None => {
            for name in &names {
                notifier.test(name, "send").map_err(|error| error.to_string())?;
            }
        }
    }
    wait(&store)?;
    drop(notifier);
    report(&store)
}

fn read<T: serde::de::DeserializeOwned>(path: &str) -> Result<T, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))
}

/// Until something was sent and nothing waits.
fn wait(store: &Sqlite) -> Result<(), String> {
    let within =
        std::env::var("ESTOP_SEND_WITHIN_S").ok().and_then(|text| text.parse().ok()).unwrap_or(WITHIN_S);
    let within = Duration::from_secs(within);
    let begun = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let waiting = store.waiting_alerts().map_err(|error| error.to_string())?;
        let log = store.deliveries(&DeliveryFilter::default(), 1).map_err(|error| error.to_string())?;
        if (waiting.is_empty() && !log.is_empty()) || begun.elapsed() > within {
            return Ok(());
        }
    }
}

fn report(store: &Sqlite) -> Result<bool, String> {
    let log = store.deliveries(&DeliveryFilter::default(), 1000).map_err(|error| error.to_string())?;
    for line in log.iter().rev() {
        let said = serde_json::json!({
            "target": line.target, "attempt": line.attempt, "outcome": line.outcome, "detail": line.detail,
        });
        println!("{said}");
    }
    let waits = !store.waiting_alerts().map_err(|error| error.to_string())?.is_empty();
    Ok(!waits && log.iter().all(|line| &*line.outcome != "given_up"))
}
