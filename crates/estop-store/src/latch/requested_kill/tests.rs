//! What a slot asks for, against every state of the gate.

use SystemState::{Running, SafeMode, Shutdown};

use super::*;

const LLM: Channels = Channels::NONE.with(Channel::Llm);
const TOOLS: Channels = Channels::NONE.with(Channel::Tools);

fn gate(epoch: u64, state: SystemState, shut: Channels) -> GateView {
    GateView { epoch, state, shut }
}

fn kill(gate: GateView, asked: Channels) -> Option<RequestedKill> {
    let found = FoundLatch::Valid(Latched::at_start(gate, 1));
    RequestedKill::of(&FoundSlot { found, mark: None, asked })
}

fn channels(presses: &[Press]) -> Vec<Channels> {
    presses.iter().map(|press| press.channels).collect()
}

#[test]
fn ks_5_nobody_unlocks_by_the_latch() {
    for gate in [gate(9, Running, Channels::NONE), gate(9, SafeMode, Channels::ALL)] {
        assert_eq!(kill(gate, Channels::NONE), None);
    }
}

#[test]
fn ks_5_what_is_stricter_is_pressed_whatever_its_epoch() {
    let all = kill(gate(1, Shutdown, Channels::ALL), Channels::NONE).expect("a kill");
    let llm = kill(gate(1, Running, LLM), LLM).expect("a kill");
    let cases = [
        (&all, gate(5, Running, Channels::NONE), vec![Channels::ALL]),
        (&all, gate(5, SafeMode, Channels::ALL), vec![Channels::ALL]),
        (&all, gate(5, Shutdown, Channels::ALL), vec![]),
        (&all, gate(0, Shutdown, Channels::ALL), vec![Channels::ALL]),
        (&llm, gate(5, Running, Channels::NONE), vec![LLM]),
        (&llm, gate(5, Running, TOOLS), vec![LLM]),
        (&llm, gate(5, Running, LLM), vec![]),
        (&llm, gate(0, Running, LLM), vec![LLM]),
        (&llm, gate(5, SafeMode, Channels::ALL), vec![LLM]),
    ];
    for (kill, gate, expected) in cases {
        assert_eq!(channels(&kill.news_to(gate)), expected, "{kill:?} at {gate:?}");
    }
}

#[test]
fn ks_5_single_channels_killed_while_nothing_passes_are_not_lost() {
    let safe = kill(gate(3, SafeMode, Channels::ALL), LLM).expect("a kill");
    assert_eq!(channels(&safe.news_to(gate(2, SafeMode, Channels::ALL))), [LLM]);
    assert_eq!(channels(&safe.news_to(gate(9, Running, Channels::NONE))), [LLM]);
    assert_eq!(channels(&safe.beside_the_state()), [LLM], "a start presses it");
    let down = kill(gate(3, Shutdown, Channels::ALL), LLM).expect("a kill");
    assert_eq!(channels(&down.news_to(gate(2, Running, Channels::NONE))), [Channels::ALL, LLM]);
    let running = kill(gate(3, Running, LLM), LLM).expect("a kill");
    assert!(running.beside_the_state().is_empty(), "a start finds it in the state");
}

#[test]
fn ks_3_a_kill_on_the_disk_stays_until_what_is_written_is_no_less() {
    let all = kill(gate(1, Shutdown, Channels::ALL), Channels::ALL).expect("a kill");
    assert!(all.outranks(gate(9, Running, Channels::NONE)) && all.outranks(gate(9, SafeMode, Channels::ALL)));
    assert!(!all.outranks(gate(0, Shutdown, Channels::ALL)));
    let llm = kill(gate(1, Running, LLM), LLM).expect("a kill");
    assert!(llm.outranks(gate(9, Running, TOOLS)));
    assert!(!llm.outranks(gate(9, Running, LLM.union(TOOLS))));
    assert!(!llm.outranks(gate(9, Shutdown, Channels::ALL)), "a stricter state is never kept from the disk");
}

#[test]
fn ks_5_who_kills_alone_is_never_taken_for_an_estop() {
    let mark = |writer: &str| SlotVersion { writer: writer.to_owned(), serial: 1 };
    assert!(is_of_daemon(&mark(&DAEMON)) && is_of_daemon(&mark("")));
    assert!(!is_of_daemon(&mark(&CLI)));
    assert_ne!(named(WITHOUT_ESTOP), named(WITHOUT_ESTOP));
}
