//! Memory that reading foreign JSON takes (SE-1), counted by the allocator: it does not grow with the number of values in it.

use estop_bench::counting_alloc::CountingAlloc;
use estop_core::fingerprint::{RequestFingerprint, signature};
use estop_core::run::test_command::TestRunners;
use estop_wire::hooks::{self, HookClient};
use estop_wire::mcp;
use estop_wire::protocol::Protocol;
use estop_wire::request;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc;

/// What is read beside the texts themselves.
const BESIDE_MAX: usize = 2 << 20;

/// One test, because all threads are counted.
#[test]
fn se_1_no_tree_of_foreign_json_is_built() {
    for unit in ["0,", "\"\",", "{},", "[],", "{\"command\":\"ls\"},"] {
        let list = unit.repeat((12 << 20) / unit.len());
        for key in ["a", "command", "content"] {
            let args = format!("{{\"{key}\":[{}]}}", list.trim_end_matches(','));
            check(unit, &args);
        }
    }
}

fn check(unit: &str, args: &str) {
    let runners = TestRunners::default();
    let within = |what: &str, max: usize, run: &dyn Fn()| {
        let peak = CountingAlloc::peak_of(run);
        assert!(peak <= max, "{what} of {} bytes of {unit:?} took {peak} bytes, more than {max}", args.len());
    };
    within("the signature", BESIDE_MAX, &|| {
        signature::action("bash", args);
    });
    // As large as arguments are that are compared by value.
    let short = format!("{{\"a\":[{}0]}}", unit.repeat((signature::TEXT_BYTES_MAX - 16) / unit.len()));
    within("the value", BESIDE_MAX, &|| {
        signature::action("bash", &short);
    });
    within("the command", BESIDE_MAX, &|| assert!(!runners.is_test_call("bash", args)));
    within("the result", BESIDE_MAX, &|| {
        signature::result(args);
    });
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"x"}},{{"role":"assistant","content":[{{"type":"tool_use","id":"1","name":"bash","input":{args}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"1","content":"ok"}}]}}]}}"#
    );
    within("the request", BESIDE_MAX, &|| {
        let read = request::read(Protocol::AnthropicMessages, body.as_bytes()).expect("a request");
        assert_eq!(RequestFingerprint::of(&read.text(None)).steps.len(), 1);
    });
    let hook = format!(r#"{{"tool":"bash","args":{args}}}"#);
    // Its arguments are kept as they came.
    within("the hook", args.len() + BESIDE_MAX, &|| {
        let hook = hooks::read(HookClient::Generic, Some("pre-tool-use"), hook.as_bytes()).expect("a hook");
        drop(hook.print(&runners));
    });
    // Up to 1 MiB of the text of a result is kept.
    within("the answer", 2 * BESIDE_MAX, &|| drop(mcp::answered(Some(args), None)));
}
