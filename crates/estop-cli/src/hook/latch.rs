//! The red button's own file, looked at where estop cannot be asked: a pressed button counts, whether or not somebody
//! answers (KS-3).

use std::path::Path;
use std::time::Duration;

use estop_config::data_dir::database;
use estop_core::decision::Finding;
use estop_core::system::Channel;
use estop_store::{FoundLatch, LatchFile};

/// One that is not whole may be one that is just written: it is looked at so often, with a pause between.
const LOOKS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// Why tools may not run, if the button says so or nobody can tell what it says.
pub(super) fn why_shut(data_dir: &Path) -> Option<String> {
    let mut slot = LatchFile::look_at_slot(data_dir);
    for _ in 1..LOOKS {
        if !matches!(slot.found, FoundLatch::Damaged(_)) {
            break;
        }
        std::thread::sleep(PAUSE);
        slot = LatchFile::look_at_slot(data_dir);
    }
    let why = match slot.found {
        FoundLatch::Said(latched) if !latched.gate.lets_pass(Channel::Tools) => {
            Finding::System(latched.gate).to_string()
        }
        FoundLatch::Said(_) if slot.asked.contains(Channel::Tools) => {
            "The emergency stop is pressed.".to_owned()
        }
        FoundLatch::Said(_) => return None,
        FoundLatch::Damaged(why) => {
            format!("Its button counts as pressed, because {}.", why.trim_end_matches('.'))
        }
        // Every start leaves a latch before its database. Without both, there was none.
        FoundLatch::Missing if matches!(database(data_dir).try_exists(), Ok(false)) => return None,
        FoundLatch::Missing => "Its button counts as pressed, because the latch file is missing.".to_owned(),
    };
    Some(format!("Stopped by estop: {why} An admin must clear it before agents can go on."))
}
