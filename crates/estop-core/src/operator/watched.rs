//! What runs outside of this process under a supervisor that wants to be told when it must end (TL-2, TL-3).

use crate::ids::Name;

/// Who is watched, and what for.
#[derive(Clone, PartialEq, Eq)]
pub struct Watched {
    /// The agent it runs for.
    pub agent: Name,
    /// The run.
    pub run: Option<Name>,
    /// A person sits at it: a guard has it refused, only the button ends it.
    pub attended: bool,
    /// SHA-256 of the ticket that names agent and run, good as long as it is watched and a little longer.
    pub ticket: Option<[u8; 32]>,
    /// The process that watches over it here: woken when it must end, in case somebody stopped it.
    pub supervisor: Option<u32>,
}

/// Not the ticket's hash: it belongs into no log.
impl std::fmt::Debug for Watched {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Watched { agent, run, attended, ticket, supervisor } = self;
        let mut out = out.debug_struct("Watched");
        out.field("agent", agent).field("run", run).field("attended", attended);
        out.field("ticket", &ticket.is_some()).field("supervisor", supervisor).finish()
    }
}

/// Told why, when what is watched must end. Must not wait for anything.
pub type OnEnd = Box<dyn Fn(&str) + Send + Sync>;

/// Held as long as somebody watches; dropping it ends that.
pub type Watch = Box<dyn Send + Sync>;
