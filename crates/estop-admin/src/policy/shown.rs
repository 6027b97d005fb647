//! What holds for all agents, written in the shape people write it in: beside the rules of one agent
//! ([`estop_core::policy_file::in_file_shape`]).

use estop_core::policy::{Policy, SafetyGatePolicy};
use serde_json::{Map, Value, json};

/// Adds what holds for all agents: the gate's numbers in seed 4's units, and the watchdog's.
pub(crate) fn add_shared(policy: &Policy, shape: &mut Map<String, Value>) {
    shape.insert("gate".to_owned(), gate(&policy.gate));
    shape.insert("watchdog".to_owned(), json!(policy.watchdog));
}

fn gate(gate: &SafetyGatePolicy) -> Value {
    let share = |thousandths: u16| f64::from(thousandths) / 1000.0;
    let SafetyGatePolicy {
        max_tokens_per_minute,
        token_warning_threshold,
        max_tool_calls_per_minute,
        tool_call_warning_threshold,
        loop_similarity_threshold,
        loop_window_size,
        tempo_compression_ratio,
        cooldown_duration_ms,
        soft_suspend_threshold,
        hard_stop_threshold,
        recovery_rate,
        recovery_cap,
    } = *gate;
    json!({
        "max_tokens_per_minute": max_tokens_per_minute,
        "token_warning_threshold": token_warning_threshold,
        "max_tool_calls_per_minute": max_tool_calls_per_minute,
        "tool_call_warning_threshold": tool_call_warning_threshold,
        "loop_similarity_threshold": share(loop_similarity_threshold),
        "loop_window_size": loop_window_size,
        "tempo_compression_ratio": share(tempo_compression_ratio),
        "cooldown_duration_ms": cooldown_duration_ms,
        "soft_suspend_threshold": share(soft_suspend_threshold),
        "hard_stop_threshold": share(hard_stop_threshold),
        "recovery_rate": share(recovery_rate),
        "recovery_cap": share(recovery_cap),
    })
}
