//! The settings that are tried: every profile with some thresholds.

use estop_core::policy::{LoopPolicy, Profile};
use serde_json::Value;

/// In the order of the table.
pub(super) const PROFILES: [Profile; 4] =
    [Profile::Coding, Profile::Interactive, Profile::Batch, Profile::Ops];
/// In tenths. Below 8 healthy agents are stopped more often than loops are found earlier, above 20 few loops are found at all.
const THRESHOLDS: [u16; 4] = [80, 100, 150, 200];

/// The settings for an agent, its own among them: the profiles, and in each the thresholds from low to high.
pub(super) fn settings_around(own: &LoopPolicy) -> Vec<LoopPolicy> {
    let thresholds = thresholds_around(own);
    let of_profile = |profile| {
        let with = move |threshold_tenths| LoopPolicy { profile, threshold_tenths, ..own.clone() };
        thresholds.iter().copied().map(with)
    };
    PROFILES.into_iter().flat_map(of_profile).collect()
}

/// The thresholds that are tried, in tenths, from low to high.
pub(super) fn thresholds_around(own: &LoopPolicy) -> Vec<u16> {
    let mut thresholds: Vec<u16> = THRESHOLDS.into_iter().chain([own.threshold_tenths]).collect();
    thresholds.sort_unstable();
    thresholds.dedup();
    thresholds
}

pub(super) fn profile_name(profile: Profile) -> &'static str {
    match profile {
        Profile::Coding => "coding",
        Profile::Interactive => "interactive",
        Profile::Batch => "batch",
        Profile::Ops => "ops",
    }
}

/// `10`, or `12.5`.
pub(super) fn threshold_text(tenths: u16) -> String {
    match tenths % 10 {
        0 => (tenths / 10).to_string(),
        rest => format!("{}.{rest}", tenths / 10),
    }
}

/// As the policy has it.
pub(super) fn threshold(tenths: u16) -> Value {
    if tenths.is_multiple_of(10) { (tenths / 10).into() } else { (f64::from(tenths) / 10.0).into() }
}
