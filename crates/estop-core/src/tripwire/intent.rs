//! IntentCore (TW-1): from activity to intent. Default CONTINUE; the table is frozen.

use serde::Serialize;

use crate::tripwire::activity::{ActivityMode, ActivityState, Intensity};

/// What should happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Intent {
    /// Go on.
    Continue,
    /// Better slow down; advisory.
    Pause,
    /// Stop.
    Stop,
}

/// Intent and how sure it is (seed 4, `IntentDecision`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntentDecision {
    /// What should happen.
    pub intent: Intent,
    /// In thousandths.
    pub confidence: u16,
    /// Why. Never empty.
    pub reason: &'static str,
}

/// The frozen table.
pub fn decide(activity: &ActivityState) -> IntentDecision {
    let (intent, confidence) = match (activity.mode, activity.intensity) {
        (ActivityMode::Runaway, _) => (Intent::Stop, 1000),
        (ActivityMode::Looping, _) => (Intent::Stop, 900),
        (ActivityMode::Idle, _) => (Intent::Continue, 300),
        (ActivityMode::Working, Intensity::High) => (Intent::Pause, 700),
        (ActivityMode::Working, Intensity::Low) => (Intent::Continue, 800),
        (ActivityMode::Working, Intensity::Normal) => (Intent::Continue, 600),
    };
    IntentDecision { intent, confidence, reason: activity.reason() }
}
