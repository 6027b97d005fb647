//! The system under test: the core's `AgentState`, or a wrapper around it with a bug planted on purpose.

use std::fmt::Debug;

use estop_core::agent::standing::Standing;
use estop_core::budget::Amount;
use estop_core::decision::Decision;
use estop_core::engine::{AgentState, Wake};
use estop_core::event::Event;
use estop_core::policy::Policy;
use estop_core::time::Now;

/// Judges one agent, and lets itself be looked at.
pub trait Judge: Clone + Debug + Default {
    /// Judges an event.
    fn handle(&mut self, now: Now, event: &Event, policy: &Policy) -> Decision;

    /// The next moment something happens by itself.
    fn poll_timeout(&self, policy: &Policy) -> Option<Wake>;

    /// The state to look at.
    fn inner(&self) -> &AgentState;
}

impl Judge for AgentState {
    fn handle(&mut self, now: Now, event: &Event, policy: &Policy) -> Decision {
        AgentState::handle(self, now, event, policy)
    }

    fn poll_timeout(&self, policy: &Policy) -> Option<Wake> {
        AgentState::poll_timeout(self, policy)
    }

    fn inner(&self) -> &AgentState {
        self
    }
}

/// What can be seen of a judge from outside, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Active, inactive or paused.
    pub standing: Standing,
    /// In thousandths.
    pub health: u16,
    /// What its budget says is reserved.
    pub reserved: Amount,
    /// What its requests under way hold, added up.
    pub held: Amount,
    /// Requests under way.
    pub in_flight: usize,
    /// Conversations remembered.
    pub conversations: usize,
    /// The longest window among them.
    pub longest_window: usize,
}

impl Seen {
    /// A look at a judge.
    pub fn of(judge: &impl Judge) -> Seen {
        let state = judge.inner();
        let (conversations, longest_window) = state.windows();
        Seen {
            standing: state.standing(),
            health: state.health(),
            reserved: state.budget().reserved(),
            held: state.reservations_sum(),
            in_flight: state.in_flight(),
            conversations,
            longest_window,
        }
    }
}
