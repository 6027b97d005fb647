//! A part of estop that stopped running (KS-11): people are alerted, it is recorded and said, and where the configuration
//! wants it the red button is pressed.

use std::sync::Arc;

use estop_config::OnStuckWorker;
use estop_core::system::KillReason;
use estop_core::system::button::Press;
use estop_gateway::{Engine, Gateway, PartChange};
use estop_notify::{AlertEvent, AlertType, Cost, Detail, Phase};
use jiff::Timestamp;

use crate::alerting::Alerting;
use crate::config_in_force::ConfigInForce;

/// Begins to watch the parts of a data plane.
pub fn watch(
    gateway: &mut Gateway,
    alerting: Option<Arc<Alerting>>,
    config: ConfigInForce,
) -> std::io::Result<()> {
    let engine = Arc::clone(gateway.engine());
    gateway.watch_parts(move |change| {
        if let PartChange::Stuck(_) = &change
            && config.get().on_stuck_worker == OnStuckWorker::Kill
        {
            press(&engine, &change);
        }
        let at = Timestamp::now().as_millisecond();
        log(&change);
        if let Some(alerting) = &alerting {
            // Directly: the journal's writer, from which other alerts come, may be what is stuck.
            alerting.tell(event(&change, at));
        }
        engine.part_changed(&change);
    })
}

fn press(engine: &Engine, change: &PartChange) {
    let press = Press::new(KillReason::Emergency, "estop", "stuck_worker");
    engine.kill(Press { note: Some(sentence(change).into()), ..press });
}

fn sentence(change: &PartChange) -> String {
    match change {
        PartChange::Stuck(part) => part.text(),
        PartChange::Recovered { name, after_ms } => {
            format!("{name} runs again, after {} s.", after_ms / 1_000)
        }
    }
}

fn event(change: &PartChange, at: i64) -> AlertEvent {
    let (phase, part, cause) = match change {
        PartChange::Stuck(part) => (Phase::Raised, &part.name, format!("{} does not run", part.name)),
        PartChange::Recovered { name, .. } => (Phase::Cleared, name, name.to_string()),
    };
    let word = if phase == Phase::Raised { "stuck" } else { "recovered" };
    AlertEvent {
        id: format!("{word}-{}-{at}", part.replace(' ', "-")).into(),
        seq: 0,
        at,
        alert: AlertType::StuckWorker,
        phase,
        agent: None,
        run: None,
        cause,
        evidence: sentence(change),
        by: None,
        incident: None,
        cost: Cost::default(),
        detail: Detail::None,
    }
}

fn log(change: &PartChange) {
    match change {
        PartChange::Stuck(part) => {
            tracing::error!(target: "serve", part = &*part.name, "{}", sentence(change));
        }
        PartChange::Recovered { name, after_ms } => {
            tracing::info!(target: "serve", part = &**name, after_ms, "{}", sentence(change));
        }
    }
}
