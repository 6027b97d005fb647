//! Bodies of requests, in every protocol.
#![no_main]

use estop_fuzz::{bounded, chosen, protocol};
use estop_wire::request;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (first, body) = chosen(data);
    bounded(100, body.len(), || drop(request::read(protocol(first), body)));
});
