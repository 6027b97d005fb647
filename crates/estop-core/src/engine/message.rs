//! Messages through a relay: under the red button, the agent's standing and its hours.

use super::AgentState;
use super::admission::ShadowScope;
use super::pass::Pass;
use crate::decision::{Decision, Guard};
use crate::event::Event;
use crate::guards::hours;
use crate::policy::{Mode, Policy};
use crate::system::Channel;
use crate::time::Now;

impl AgentState {
    pub(super) fn message(&mut self, now: Now, event: &Event, policy: &Policy) -> Decision {
        let mut pass = Pass::of_channel(event, Channel::Messaging);
        pass.ask(Guard::Agent, self.standing.judge(), Mode::Enforce);
        pass.ask(Guard::Hours, hours::judge(policy.hours.as_ref(), now.wall), policy.modes[Guard::Hours]);
        let mut effects = Vec::new();
        self.report_shadow_stops(&pass, ShadowScope::default(), &mut effects);
        pass.into_decision(effects)
    }
}
