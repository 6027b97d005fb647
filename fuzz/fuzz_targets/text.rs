//! Everything in estop-core that reads a text from outside.
#![no_main]

use estop_core::loop_detector::chant::ChantDetector;
use estop_core::ended::ended_by_text;
use estop_core::run::test_command::{TestRunners, says_passed};
use estop_core::fingerprint::normalize::normalize;
use estop_core::run::report_tool::reported;
use estop_core::fingerprint::{signature, simhash};
use estop_fuzz::{bounded, done};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let len = text.len();
    let mut normal = String::new();
    bounded(9, len, || normal = normalize(&text));
    assert_eq!(normalize(&normal), normal, "normalising again changes nothing");
    bounded(40, len, || assert_eq!(simhash::simhash(&text), simhash::simhash_exact(&normal)));
    bounded(32, len, || done(signature::result(&text)));
    bounded(8, len, || done(signature::action("bash", &text)));
    bounded(8, len, || done(signature::text_action(&text)));
    bounded(2, len, || done(ended_by_text(&text)));
    bounded(2, len, || done(says_passed(&text)));
    bounded(60, len, || done(ChantDetector::default().push(&text)));
    let runners = TestRunners::default();
    bounded(120, len, || done(runners.is_test_run("bash", &text)));
    bounded(120, len, || done(runners.is_test_call("bash", &text)));
    bounded(7, len, || done(reported("report_complete", &text)));
});
