//! What is done under an agent's lock.

use std::cell::Cell;

use estop_core::operator::HookCall;
use estop_core::steps;

use crate::engine::tests::engine_with;

thread_local! {
    /// Steps over foreign text that the newest hook of this thread did while it held its agent's lock.
    pub(super) static LOCKED_STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Whoever needs the lock (a deactivation, a list, the sweeper) waits for no text, however long or hostile.
#[test]
fn se_1_no_text_of_a_hook_is_read_under_the_agents_lock() {
    let engine = engine_with("{}");
    let hostile = "id=(,".repeat(40_000);
    let args = format!(r#"{{"command":"make test # {hostile}","a":[{}0]}}"#, "0,".repeat(40_000));
    let bodies = [
        ("pre-tool-use", format!(r#"{{"tool":"bash","call":"1","args":{args}}}"#)),
        ("post-tool-use", format!(r#"{{"tool":"bash","call":"1","args":{args},"result":"{hostile}"}}"#)),
        ("pre-tool-use", format!(r#"{{"tool":"bash","args":{args}}}"#)),
        ("post-tool-use", format!(r#"{{"tool":"bash","args":{args},"result":"{hostile}","exit_code":0}}"#)),
        ("pre-tool-use", format!(r#"{{"tool":"report_complete","args":{{"summary":"{hostile}"}}}}"#)),
        ("prompt-submit", format!(r#"{{"prompt":"{hostile}"}}"#)),
    ];
    for (event, body) in bodies {
        let call = HookCall {
            client: "generic",
            event,
            body: body.as_bytes(),
            agent: Some("a"),
            ..HookCall::default()
        };
        LOCKED_STEPS.set(u64::MAX);
        let all = steps::counted(u64::MAX, || {
            let reply = engine.hook(call);
            assert!(reply.fault.is_none(), "{reply:?}");
        });
        assert!(all >= body.len() as u64 / 8, "{all} steps for {event}: they are counted");
        assert!(LOCKED_STEPS.get() <= 1_000, "{} steps under the lock for {event}", LOCKED_STEPS.get());
    }
}
