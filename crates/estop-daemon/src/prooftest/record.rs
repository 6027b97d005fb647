//! The last proof test with all its steps, as a small file beside the database. The journal has all of them, shorter.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use estop_config::data_dir::PROOF_TEST;
use estop_core::system::proof_test::{ProofStep, ProofTest};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Where the last result is kept.
pub(super) struct Record(PathBuf);

#[derive(Serialize, Deserialize)]
struct TestText {
    at: Timestamp,
    by: String,
    passed: bool,
    took_us: u64,
    steps: Vec<StepText>,
}

#[derive(Serialize, Deserialize)]
struct StepText {
    name: String,
    passed: bool,
    took_us: u64,
    what: String,
}

impl Record {
    pub(super) fn of(data_dir: &Path) -> Record {
        Record(PROOF_TEST.path(data_dir))
    }

    /// The last one; one that cannot be read is none: then it is time for another.
    pub(super) fn read(&self) -> Option<ProofTest> {
        let mut text = String::new();
        File::open(&self.0).ok()?.take(PROOF_TEST.bytes_max).read_to_string(&mut text).ok()?;
        let TestText { at, by, took_us, steps, passed: _ } = serde_json::from_str(&text).ok()?;
        let step = |step: StepText| ProofStep {
            name: step.name.into(),
            passed: step.passed,
            took_us: step.took_us,
            what: step.what,
        };
        let steps = steps.into_iter().map(step).collect();
        Some(ProofTest { at: at.as_millisecond(), by: by.into(), took_us, steps })
    }

    /// Whole or not at all.
    pub(super) fn write(&self, test: &ProofTest) -> io::Result<()> {
        let step = |step: &ProofStep| StepText {
            name: step.name.to_string(),
            passed: step.passed,
            took_us: step.took_us,
            what: step.what.clone(),
        };
        let text = TestText {
            at: Timestamp::from_millisecond(test.at).unwrap_or(Timestamp::UNIX_EPOCH),
            by: test.by.to_string(),
            passed: test.passed(),
            took_us: test.took_us,
            steps: test.steps.iter().map(step).collect(),
        };
        let fresh = self.0.with_extension("json.new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(&serde_json::to_vec_pretty(&text)?)?;
        file.sync_all()?;
        std::fs::rename(&fresh, &self.0)
    }
}
