//! Calls under way: asked about before they are forwarded, and reported when they end.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use estop_core::ids::{Name, RequestId};
use estop_core::operator::HookCall;
use estop_wire::mcp::{self, Call, Id, Message};
use tokio::task::JoinHandle;

use crate::engine::Engine;
use crate::engine::agents::Agent;

/// Tells the calls of this process from those of others: numbers of requests begin anew.
static PROCESS: LazyLock<String> = LazyLock::new(|| {
    use std::hash::{BuildHasher, RandomState};
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
});

/// Asks about calls, as a hook does.
pub(super) struct Asker {
    pub(super) engine: Arc<Engine>,
    pub(super) server: Box<str>,
    pub(super) agent: Arc<Agent>,
    pub(super) run: Option<Name>,
    pub(super) is_supervised: bool,
}

impl Asker {
    /// Asks about all calls of a message, and says whether its agent was switched off,
    /// which is to be synced.
    pub(super) fn ask(self, message: &Message<'_>, request: RequestId) -> (Result<Pending, Denied>, bool) {
        let (mut asked, mut stopped) = (Vec::new(), false);
        for (nth, call) in message.calls().enumerate() {
            let number = format!("{}-{}-{nth}", *PROCESS, request.0);
            let body = mcp::asks(&self.server, call, &number);
            let (refusal, stops) = self.hook("pre-tool-use", &body);
            stopped |= stops;
            if let Some(reason) = refusal {
                return (Err(Denied(reason)), stopped);
            }
            let call = Call { arguments: "{}".into(), ..call.clone() }.into_owned();
            asked.push(One { call, number });
        }
        (Ok(Pending(Some(Arc::new(Shared { asker: self, open: Mutex::new(asked) })))), stopped)
    }

    /// Why it may not run; whether the agent was switched off. This is a runtime's thread: others wait for no disk.
    fn hook(&self, event: &str, body: &str) -> (Option<String>, bool) {
        let (reply, stops) = self.engine.hook_unsynced(HookCall {
            client: "generic",
            event,
            body: body.as_bytes(),
            agent: Some(&self.agent.name),
            run: self.run.as_deref(),
            bound: true,
            supervised: self.is_supervised,
            ..HookCall::default()
        });
        (mcp::refusal(reply.stdout.as_bytes()), stops)
    }
}

/// Why one of the calls may not run.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Denied(pub(super) String);

/// Calls of one request that have not ended.
#[derive(Clone, Default)]
pub(super) struct Pending(Option<Arc<Shared>>);

struct Shared {
    asker: Asker,
    open: Mutex<Vec<One>>,
}

struct One {
    call: Call<'static>,
    number: String,
}

impl Pending {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.open().is_none_or(|open| open.is_empty())
    }

    /// Those that have not ended.
    pub(super) fn calls(&self) -> Vec<Call<'static>> {
        self.open().map(|open| open.iter().map(|one| one.call.clone()).collect()).unwrap_or_default()
    }

    /// A call was answered; whether that switched its agent off, which is to be synced.
    pub(super) fn ended(&self, id: &Id, result: Option<&str>, error: Option<&str>) -> bool {
        let Some(shared) = &self.0 else { return false };
        let Some(mut open) = self.open() else { return false };
        let Some(at) = open.iter().position(|one| one.call.id == *id) else { return false };
        let One { call, number } = open.remove(at);
        drop(open);
        let answered = mcp::answered(result, error);
        let body = mcp::tells(&shared.asker.server, &call.name, &number, &answered);
        // What is over cannot be refused.
        let (_, stops) = shared.asker.hook("post-tool-use", &body);
        stops
    }

    /// Syncs the journal, on a thread that may wait for the disk.
    pub(super) fn sync(&self) -> Option<JoinHandle<()>> {
        let engine = Arc::clone(&self.0.as_ref()?.asker.engine);
        Some(tokio::task::spawn_blocking(move || {
            engine.journal.sync();
        }))
    }

    fn open(&self) -> Option<MutexGuard<'_, Vec<One>>> {
        Some(self.0.as_ref()?.open.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
