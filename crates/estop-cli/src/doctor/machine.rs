//! What the machine allows: open files for streams, and the means by which `estop run` ends everything it started.

use estop_config::descriptors::{self, Shares};
use estop_config::{Limits, ServeConfig};

use super::{Area, Finding};

const OPEN_FILES: Area = Area("open files");
const RUN: Area = Area("estop run");

pub(super) fn check(config: Option<&ServeConfig>) -> Vec<Finding> {
    let usual = Limits::default();
    let connections = config.map_or(&usual, |config| &config.limits).connections;
    let mut findings = Vec::new();
    // The soft limit does not matter: estop raises it.
    if let Some(hard) = descriptors::hard_limit() {
        let channels = config.map_or(0, |config| config.alerts.settings.channels.len());
        findings.push(open_files(hard, connections, descriptors::workers(), channels));
    }
    findings.push(if estop_supervise::takes_orphans() {
        RUN.ok("orphans fall back to estop, so that it can end them")
    } else {
        RUN.warning(
            "orphans do not fall back to estop: a program that leaves its session may survive a kill",
            "allow prctl(PR_SET_CHILD_SUBREAPER), which a sandbox around estop may forbid",
        )
    });
    findings.push(RUN.ok(if estop_supervise::has_cgroup() {
        "cgroup v2 can be written: one write ends a whole tree of processes"
    } else {
        "cgroup v2 cannot be written: processes are ended one by one, which works and is slower"
    }));
    findings
}

/// What the running estop makes of its limit (`descriptors.rs`).
fn open_files(hard: u64, connections: usize, workers: usize, channels: usize) -> Finding {
    let needed = Shares::limit_for(connections, workers, channels);
    let how = format!("allow {needed} (`LimitNOFILE=` of a service, `ulimit -Hn`)");
    match Shares::of(hard, workers, channels) {
        Err(few) => OPEN_FILES.wrong(few.to_string(), how),
        Ok(shares) => match shares.shortage(hard, connections) {
            None => OPEN_FILES.ok(format!("{hard} are allowed, {connections} connections need {needed}")),
            Some(shortage) => OPEN_FILES
                .warning(shortage, format!("{how}, or set limits.connections to {}", shares.connections)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn ui_2_each_connection_needs_two_open_files() {
        assert_eq!(open_files(1 << 20, 10_000, 2, 0).level, Level::Ok);
        let few = open_files(4096, 10_000, 2, 0);
        assert_eq!(few.level, Level::Warning);
        let room = Shares::of(4096, 2, 0).expect("it is enough").connections;
        assert!(few.what.contains(&format!("at most {room} connections")), "{few:?}");
        assert_eq!(open_files(0, usize::MAX, 2, 0).level, Level::Wrong);
    }
}
