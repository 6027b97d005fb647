//! The red button's own file: a pressed button counts, whether or not somebody answers (KS-3).

use std::path::Path;
use std::time::Duration;

use estop_core::decision::Finding;
use estop_core::system::Channel;
use estop_store::{FoundLatch, LatchFile};

/// How often it is looked at. Chosen: a kill is carried out within a second; looking takes some 20 µs.
const EVERY: Duration = Duration::from_millis(200);
/// One that is not whole may be one that is just written. One that stays so counts as pressed, as at a start.
const DAMAGED_MAX: u32 = 5;

/// Why tools may not run, if the button says so.
pub(super) fn why_shut(data_dir: &Path) -> Option<String> {
    match LatchFile::look(data_dir) {
        FoundLatch::Said(latched) if !latched.gate.lets_pass(Channel::Tools) => {
            Some(format!("Stopped by estop: {} {AFTER}", Finding::System(latched.gate)))
        }
        FoundLatch::Said(_) | FoundLatch::Missing | FoundLatch::Damaged(_) => None,
    }
}

const AFTER: &str = "An admin must clear it before agents can go on.";

/// Waits until the button is pressed; why, then.
pub(super) async fn until_shut(data_dir: &Path) -> String {
    let mut damaged = 0;
    loop {
        tokio::time::sleep(EVERY).await;
        if let Some(why) = why_shut(data_dir) {
            return why;
        }
        damaged = if matches!(LatchFile::look(data_dir), FoundLatch::Damaged(_)) { damaged + 1 } else { 0 };
        if damaged >= DAMAGED_MAX {
            return format!("Stopped by estop: its latch cannot be read, so it counts as pressed. {AFTER}");
        }
    }
}
