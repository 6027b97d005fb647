//! Messages of MCP, from clients and from servers.
#![no_main]

use estop_fuzz::bounded;
use estop_wire::mcp::{self, Part};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    bounded(60, data.len(), || {
        mcp::cannot_be_call(data);
        let Ok(message) = mcp::read_line(data) else { return };
        for part in message.parts() {
            if let Part::Answer { result, error, .. } = part {
                drop(mcp::answered(*result, *error));
            }
        }
    });
});
