//! Payloads of hooks, of every client and event.
#![no_main]

use estop_core::run::test_command::TestRunners;
use estop_fuzz::{bounded, chosen};
use estop_wire::hooks::{self, HookClient};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (first, data) = chosen(data);
    let (second, body) = chosen(data);
    let client = HookClient::ALL[first % HookClient::ALL.len()];
    let (event, _) = client.events()[second % client.events().len()];
    bounded(400, body.len(), || {
        if let Ok(hook) = hooks::read(client, Some(event), body) {
            drop(hook.print(&TestRunners::default()));
        }
    });
});
