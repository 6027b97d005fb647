//! The rules of all agents: those of the configuration, and over them what was set while estop runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use estop_core::budget::Budget;
use estop_core::ids::Name;
use estop_core::policy::{Mode, Modes, Policy, Preset};
use estop_core::policy_file::{PolicyFile, PolicyOverrides};
use estop_core::run::test_command::TestRunners;
use estop_core::system::proof_test::CANARY;

use crate::engine::fleet::Fleet;
use crate::names::{DEFAULT_AGENT, folded};

/// The rules of all agents.
pub struct Rulebook {
    book: RwLock<Book>,
    /// The account of all agents together, under the configuration's caps.
    pub fleet: Fleet,
}

struct Book {
    file: Arc<PolicyFile>,
    over: BTreeMap<Name, Over>,
    /// Agents that people added by the API, in small letters.
    added: BTreeSet<String>,
}

/// What was set for an agent while estop runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Over {
    /// Its role.
    pub role: Option<Name>,
    /// Its rules.
    pub rules: PolicyOverrides,
}

/// The rules of one agent.
#[derive(Clone)]
pub struct Rules {
    /// Its policy.
    pub policy: Arc<Policy>,
    /// What the policy takes for test runs.
    pub runners: Arc<TestRunners>,
}

impl Rulebook {
    /// The rules of a configuration, and what all agents together have spent so far.
    pub fn new(file: PolicyFile, over: BTreeMap<Name, Over>, spent: Budget) -> Rulebook {
        let fleet = Fleet::new(spent, file.fleet_budget());
        let book = Book { file: Arc::new(file), over, added: BTreeSet::new() };
        Rulebook { book: RwLock::new(book), fleet }
    }

    /// A person added this agent, or deleted it.
    pub fn set_added(&self, agent: &str, is_added: bool) {
        let (mut book, name) = (self.write(), agent.to_ascii_lowercase());
        if is_added {
            book.added.insert(name);
        } else {
            book.added.remove(&name);
        }
    }

    /// Whether a person named this agent: in the configuration, by the API, or by setting rules for it.
    pub fn is_named(&self, agent: &str) -> bool {
        let book = self.read();
        book.over.contains_key(agent) || book.added.contains(&*folded(agent)) || book.file.names(agent)
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

    /// Sets everybody's preset over the configuration's; `None` = the configuration decides.
    pub fn set_preset(&self, preset: Option<Preset>) {
        let mut book = self.write();
        book.file = Arc::new(PolicyFile::clone(&book.file).with_preset(preset));
    }

    /// A new configuration, with what was set over it checked anew.
    pub fn replace(&self, file: PolicyFile, over: BTreeMap<Name, Over>) {
        self.fleet.set_caps(file.fleet_budget());
        let mut book = self.write();
        (book.file, book.over) = (Arc::new(file), over);
    }

    /// The agents somebody named, in the configuration or while estop runs, and the default one.
    pub fn named(&self) -> BTreeSet<Box<str>> {
        let book = self.read();
        let over = book.over.keys().map(|name| Box::from(&**name));
        book.file.agents().map(Box::from).chain(over).chain([Box::from(DEFAULT_AGENT)]).collect()
    }

    /// An agent's role.
    pub fn role(&self, agent: &str) -> Option<Name> {
        let book = self.read();
        let set = book.over.get(agent).and_then(|over| over.role.clone());
        set.or_else(|| book.file.role(agent).map(Name::from))
    }

    /// An agent's rules.
    pub fn resolve(&self, agent: &str) -> Policy {
        if agent == CANARY {
            return canary_policy();
        }
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

/// The canary's rules: whatever the configuration says of others, nothing but the button stops it.
fn canary_policy() -> Policy {
    Policy { modes: Modes::all(Mode::Off), ..Policy::default() }
}
