//! What `estop serve` is told: everything checked, plain data.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use estop_core::ids::Name;
use estop_core::policy_file::PolicyFile;
use estop_core::prices::PriceTable;
use estop_core::system::SYSTEM;
use estop_core::system::proof_test::CANARY;
use estop_wire::agent_name::{NAME_MAX, is_agent_name};
use secrecy::{ExposeSecret, SecretString};

use super::alerts::{Alerts, alerts};
use super::env::{Env, NotText};
use super::fault::ValueError;
use super::limits::{Limits, limits};
use super::listen::Listen;
use super::log::Log;
use super::mcp::{McpServer, mcp_servers};
use super::opentelemetry::{SpanCollector, opentelemetry};
use super::overrides;
use super::paths;
use super::prices::prices;
use super::problem::{Problem, printable};
use super::providers::{Provider, providers};
use super::relays::{Relay, relays};
use super::retention::{Retention, prooftest_every_days, retention};
use super::secret_variables::SecretVariables;
use super::secrets;
use super::shape::{FileIn, ListenIn, OnStuckWorker, TlsIn, UnknownAgentsIn};
use super::startup_only::StartupOnly;
use super::triggers::{TriggersConfig, triggers};

/// What becomes of a request as an agent that nobody named: neither the configuration, nor the API, nor a key or ticket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownAgents {
    /// It is a new agent.
    Allow,
    /// It is refused.
    Deny,
    /// It is refused as soon as any agent has a key: whoever has one could otherwise go on under another name.
    #[default]
    DenyIfKeys,
}

/// The whole configuration of `estop serve`.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// The file that was read.
    pub file: Option<PathBuf>,
    /// Where to listen.
    pub listen: Listen,
    /// Origins whose web pages may use the data port.
    pub allowed_origins: Vec<String>,
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// Certificate and key of the data listener.
    pub tls: Option<TlsFiles>,
    /// Somebody else speaks TLS before us.
    pub behind_tls_proxy: bool,
    /// By the name that stands in the path. Presets included.
    pub providers: BTreeMap<String, Provider>,
    /// Relays of messages, by the name that stands in the path.
    pub relays: BTreeMap<String, Relay>,
    /// MCP servers, by the name that stands in the path.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Each agent's estop key, by the agent's name. No two are equal.
    pub agent_keys: BTreeMap<Name, SecretString>,
    /// Whether a request without a valid estop key is refused. Then there is at least one.
    pub require_keys: bool,
    /// What becomes of agents that nobody named.
    pub unknown_agents: UnknownAgents,
    /// What estop takes in.
    pub limits: Limits,
    /// How long things are kept.
    pub retention: Retention,
    /// After how many days a proof test is due again; `None` = nobody wants to be told.
    pub prooftest_every_days: Option<u32>,
    /// What is done when a part of estop stops running (KS-11).
    pub on_stuck_worker: OnStuckWorker,
    /// What models cost, by the name of the provider: the shipped table, or a file, with what is set over it.
    pub prices: PriceTable,
    /// What presses the red button besides people.
    pub triggers: TriggersConfig,
    /// Who is told of what, and how.
    pub alerts: Alerts,
    /// `false`: the LLM channel is shut from the start (KS-9).
    pub llm_enabled: bool,
    /// What is logged, and how.
    pub log: Log,
    /// Where spans of requests are sent; `None` = nowhere.
    pub spans: Option<SpanCollector>,
    /// How agents are judged.
    pub policies: PolicyFile,
    /// Which variables hold secrets.
    pub secret_variables: SecretVariables,
    /// What only a start reads.
    pub fixed: StartupOnly,
}

/// Most origins that may be listed. Chosen: a handful of apps of one machine; each is compared with each request that
/// names one.
const ORIGINS_MAX: usize = 64;

/// PEM files, not read so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The whole, from a file with the variables laid over it.
pub(super) fn check(
    file: &FileIn,
    policies: PolicyFile,
    env: &Env,
    llm_enabled: bool,
    log: Log,
) -> Result<ServeConfig, ValueError> {
    let tls = tls(&file.tls, env)?;
    let behind_tls_proxy = file.behind_tls_proxy.unwrap_or(false);
    check_agent_names(file)?;
    let agent_keys = agent_keys(file, env)?;
    let providers = providers(&file.providers, env)?;
    let listen = listen(&file.listen, tls.is_some(), behind_tls_proxy)?;
    let require_keys = require_keys(file, !agent_keys.is_empty())?;
    refuse_open_proxy(&listen, &providers, require_keys)?;
    Ok(ServeConfig {
        file: None,
        relays: relays(&file.relays, &listen, env)?,
        mcp_servers: mcp_servers(&file.mcp, &listen)?,
        listen,
        allowed_origins: allowed_origins(&file.listen)?,
        data_dir: paths::data_dir(file.data_dir.as_ref(), env)?,
        tls,
        behind_tls_proxy,
        prices: prices(&file.prices, &file.providers, &providers, env)?,
        providers,
        require_keys,
        unknown_agents: match file.unknown_agents {
            None => UnknownAgents::DenyIfKeys,
            Some(UnknownAgentsIn::Allow) => UnknownAgents::Allow,
            Some(UnknownAgentsIn::Deny) => UnknownAgents::Deny,
        },
        agent_keys,
        limits: limits(&file.limits, file.agents.len() + file.relays.len() + file.mcp.servers.len())?,
        retention: retention(&file.retention),
        prooftest_every_days: prooftest_every_days(&file.prooftest),
        on_stuck_worker: file.on_stuck_worker.unwrap_or_default(),
        triggers: triggers(&file.triggers, env)?,
        alerts: alerts(&file.alerts, env)?,
        llm_enabled,
        log,
        spans: opentelemetry(&file.opentelemetry, env)?,
        policies,
        secret_variables: SecretVariables::of(file),
        fixed: StartupOnly::of(file),
    })
}

fn tls(given: &TlsIn, env: &Env) -> Result<Option<TlsFiles>, ValueError> {
    let missing = |missing: &str| {
        ValueError::new(&["tls"], format!("tls needs both `cert` and `key`; `{missing}` is missing"))
    };
    match (&given.cert, &given.key) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(missing("cert")),
        (Some(_), None) => Err(missing("key")),
        (Some(cert), Some(key)) => Ok(Some(TlsFiles {
            cert: paths::expanded(cert, &["tls", "cert"], env)?,
            key: paths::expanded(key, &["tls", "key"], env)?,
        })),
    }
}

/// Beyond this machine, nothing goes in clear unless a person says that somebody else encrypts it.
fn listen(given: &ListenIn, has_tls: bool, behind_tls_proxy: bool) -> Result<Listen, ValueError> {
    let on = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let data = given.data.map_or(on(4100), |address| address.0);
    let admin = given.admin.map_or(on(4101), |address| address.0);

    let in_clear = |key: &str, address: SocketAddr, help: &str| {
        let message = format!("listen.{key} ({address}) can be reached from other machines, in clear");
        ValueError::new(&["listen", key], message).with_help(help.to_owned())
    };
    if !data.ip().is_loopback() && !has_tls && !behind_tls_proxy {
        let help = "Set `tls: {cert: FILE, key: FILE}`, or `behind_tls_proxy: true` if a proxy before estop speaks TLS, or listen on 127.0.0.1.";
        return Err(in_clear("data", data, help));
    }
    if !admin.ip().is_loopback() && !behind_tls_proxy {
        let help = "`tls` is for the data port only. Set `behind_tls_proxy: true` if a proxy before estop speaks TLS, or listen on 127.0.0.1.";
        return Err(in_clear("admin", admin, help));
    }
    if collide(data, admin) {
        let message = format!("listen.data ({data}) and listen.admin ({admin}) cannot both be listened on");
        let key = if given.admin.is_some() { "admin" } else { "data" };
        return Err(
            ValueError::new(&["listen", key], message).with_help("Give them different ports.".to_owned())
        );
    }
    Ok(Listen { data, admin })
}

fn allowed_origins(given: &ListenIn) -> Result<Vec<String>, ValueError> {
    let origins = &given.allowed_origins;
    if origins.len() > ORIGINS_MAX {
        let message = format!("listen.allowed_origins has {} origins; at most {ORIGINS_MAX}", origins.len());
        return Err(ValueError::new(&["listen", "allowed_origins"], message));
    }
    Ok(origins.iter().map(|origin| origin.0.clone()).collect())
}

/// Whoever reaches the data port may spend a key that estop injects: beyond this machine, only agents with keys of their own.
fn refuse_open_proxy(
    listen: &Listen,
    providers: &BTreeMap<String, Provider>,
    require_keys: bool,
) -> Result<(), ValueError> {
    let injected = providers.iter().find(|(_, provider)| provider.api_key.is_some());
    let Some((name, _)) = injected.filter(|_| !require_keys && !listen.data.ip().is_loopback()) else {
        return Ok(());
    };
    let message = format!(
        "listen.data ({}) can be reached from other machines, and whoever reaches it could spend the key of provider \
         `{name}`, which estop injects",
        listen.data
    );
    let help = "Set `require_keys: true` and give each agent a key (`agents: {NAME: {key_env: VARIABLE}}`), or listen on \
        127.0.0.1, or leave the provider's key out: then each client sends its own.";
    Err(ValueError::new(&["listen", "data"], message).with_help(help.to_owned()))
}

fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.port() != 0 && (one.ip() == other.ip() || is_any)
}

/// Under another name nobody can call: rules for it would hold for nobody.
fn check_agent_names(file: &FileIn) -> Result<(), ValueError> {
    let mut seen: BTreeMap<String, &Name> = BTreeMap::new();
    for name in file.agents.keys() {
        if let Some(other) = seen.insert(name.to_ascii_lowercase(), name) {
            let message = format!(
                "`{other}` and `{name}` are one agent: names are the same in capitals and small letters"
            );
            return Err(
                ValueError::new(&["agents", name], message).with_help("Leave one of them out.".to_owned())
            );
        }
    }
    match file.agents.keys().find(|name| !is_agent_name(name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!("no agent can be called `{}`", name.escape_debug());
            let help = format!(
                "A name has 1 to {NAME_MAX} letters, digits, `.`, `_` and `-`, does not begin with `.` or `-`, and is neither \
                 `{SYSTEM}` nor `{CANARY}`."
            );
            Err(ValueError::new(&["agents", name], message).with_help(help))
        }
    }
}

/// Characters of a chosen key; as of the admin token.
const KEY_MIN: usize = 16;

fn agent_keys(file: &FileIn, env: &Env) -> Result<BTreeMap<Name, SecretString>, ValueError> {
    let mut keys = BTreeMap::new();
    for (name, agent) in &file.agents {
        if let Some(variable) = agent.as_ref().and_then(|agent| agent.key_env.as_ref()) {
            let way = ["agents", name, "key_env"];
            let key = secrets::from_variable(variable, &way, env)?;
            if key.expose_secret().len() < KEY_MIN {
                let message =
                    format!("{}: {} holds fewer than {KEY_MIN} characters", way.join("."), variable.shown());
                let help = "A shorter key can be guessed: `openssl rand -hex 32` makes one.".to_owned();
                return Err(ValueError::new(&way, message).with_help(help));
            }
            keys.insert(name.clone(), key);
        }
    }
    let mut owners: BTreeMap<&str, &Name> = BTreeMap::new();
    for (name, key) in &keys {
        if let Some(other) = owners.insert(key.expose_secret(), name) {
            let message =
                format!("agents `{other}` and `{name}` have the same key, so it would not tell who calls");
            let fault = ValueError::new(&["agents", name, "key_env"], message);
            return Err(fault.with_help("Give each agent a key of its own.".to_owned()));
        }
    }
    Ok(keys)
}

fn require_keys(file: &FileIn, has_keys: bool) -> Result<bool, ValueError> {
    let required = file.require_keys.unwrap_or(false);
    if required && !has_keys {
        let help = "Set `key_env` of an agent to the name of the variable that holds its key.".to_owned();
        let message = "require_keys is true, but no agent has a key: every request would be refused";
        return Err(ValueError::new(&["require_keys"], message).with_help(help));
    }
    Ok(required)
}

/// `LLM_ENABLED` and `ESTOP_LLM_ENABLED`: one `false` is enough (KS-9).
pub(super) fn llm_enabled(env: &Env) -> Result<bool, Problem> {
    let mut enabled = true;
    for variable in ["LLM_ENABLED", "ESTOP_LLM_ENABLED"] {
        let Some(value) = env.get(variable) else { continue };
        let value = value.map_err(|NotText| overrides::problem(variable, "is not UTF-8 text".into()))?;
        enabled &= match value.to_ascii_lowercase().as_str() {
            "true" | "1" => true,
            "false" | "0" => false,
            _ => {
                let message =
                    format!("must be true, false, 1 or 0; found {}", printable(&format!("{value:?}")));
                return Err(overrides::problem(variable, message));
            }
        };
    }
    Ok(enabled)
}
