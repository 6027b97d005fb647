//! The rules of all agents: those of the configuration, and over them what was set while estop runs.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use estop_core::ids::Name;
use estop_core::iteration::TestRunners;
use estop_core::policy::Policy;
use estop_core::policy_file::{PolicyFile, PolicyOverrides};

use crate::agents::Rules;

/// The rules of all agents.
pub struct Rulebook {
    book: RwLock<Book>,
}

struct Book {
    file: Arc<PolicyFile>,
    over: BTreeMap<Name, Over>,
}

/// What was set for an agent while estop runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Over {
    /// Its role.
    pub role: Option<Name>,
    /// Its rules.
    pub rules: PolicyOverrides,
}

impl Rulebook {
    /// The rules of a configuration.
    pub fn new(file: PolicyFile, over: BTreeMap<Name, Over>) -> Rulebook {
        Rulebook { book: RwLock::new(Book { file: Arc::new(file), over }) }
    }

    /// The configuration's.
    pub fn file(&self) -> Arc<PolicyFile> {
        Arc::clone(&self.read().file)
    }

    /// Sets rules over those of the configuration, or takes them away.
    pub fn set(&self, agent: &str, over: Option<Over>) {
        let mut book = self.write();
        match over {
            Some(over) => drop(book.over.insert(agent.into(), over)),
            None => drop(book.over.remove(agent)),
        }
    }

    /// A new configuration, with what was set over it checked anew.
    pub fn replace(&self, file: PolicyFile, over: BTreeMap<Name, Over>) {
        *self.write() = Book { file: Arc::new(file), over };
    }

    /// An agent's role.
    pub fn role(&self, agent: &str) -> Option<Name> {
        let book = self.read();
        let set = book.over.get(agent).and_then(|over| over.role.clone());
        set.or_else(|| book.file.role(agent).map(Name::from))
    }

    /// An agent's rules.
    pub fn resolve(&self, agent: &str) -> Policy {
        let book = self.read();
        let nothing = Over::default();
        let over = book.over.get(agent).unwrap_or(&nothing);
        book.file.resolve_over(Some(agent), over.role.as_deref(), &over.rules)
    }

    pub(crate) fn rules(&self, agent: &str) -> Rules {
        let policy = Arc::new(self.resolve(agent));
        let runners = runners(&policy);
        Rules { policy, runners }
    }

    fn read(&self) -> RwLockReadGuard<'_, Book> {
        self.book.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Book> {
        self.book.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What most policies take for test runs: made once, not for each of ten thousand agents.
static USUAL: LazyLock<Arc<TestRunners>> = LazyLock::new(Arc::default);

/// What a policy takes for test runs.
pub(crate) fn runners(policy: &Policy) -> Arc<TestRunners> {
    if policy.limits.test_runners.is_empty() {
        return Arc::clone(&USUAL);
    }
    let extra: Vec<String> = policy.limits.test_runners.iter().map(ToString::to_string).collect();
    // The policy was checked: its patterns are good.
    Arc::new(TestRunners::new(&extra).unwrap_or_default())
}
