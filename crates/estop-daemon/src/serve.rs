//! `estop serve`: the data plane, between agents and their models.

mod first_token;
mod signals;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::Context;
use estop_admin::{Admin, AdminState, AlertsApi, Installation, NoAlerts, Options, untrusted};
use estop_config::descriptors::{self, Shares};
use estop_config::printable::escaped;
use estop_config::{Env, ServeConfig};
use estop_core::event::EventKind;
use estop_core::guard::Guard;
use estop_core::ids::Name;
use estop_core::operator::Operator;
use estop_core::policy::{Mode, Preset};
use estop_core::policy_file::PolicyOrigin;
use estop_core::printed_command::Commands;
use estop_gateway::{Engine, Gateway, LatchStore, Rulebook, Stores};
use estop_store::Store;
use jiff::Timestamp;
use secrecy::SecretString;

use crate::admin_plane::{AdminListeners, AdminPlane};
use crate::alerting::{Alerting, NotifyingLatchStore, Watching};
use crate::background_file::{self, BackgroundFile};
use crate::button_log;
use crate::config_in_force::ConfigInForce;
use crate::control::Controller;
use crate::data_watch::{DataWatch, Watched};
use crate::latch_writer::{LatchStatus, LatchWriter};
use crate::logging::Logging;
use crate::metrics::Metrics;
use crate::passed_sockets::PassedSockets;
use crate::persistence::{MaintenanceThread, Observers, Persistence};
use crate::prooftest::{DataListener, ProofTester};
use crate::reload::{Reloading, Running, Seen, Source};
use crate::service_manager::{ServiceManager, SignsOfLife};
use crate::span_export::SpanExport;
use crate::stuck;
use crate::triggers::Triggers;
use crate::triggers::status::TriggerStatus;
use crate::wiring;

use signals::Draining;

/// Stand between agents and their models: forward what is healthy, stop what is not
#[derive(Debug, clap::Args)]
#[command(after_help = "Point an SDK at it by its base URL, for example:\n  \
    OPENAI_BASE_URL=http://127.0.0.1:4100/agents/my-agent/openai/v1\n  \
    ANTHROPIC_BASE_URL=http://127.0.0.1:4100/agents/my-agent/anthropic\n\n\
    SIGUSR1 presses the emergency stop. SIGHUP reads the configuration again. SIGINT and SIGTERM end estop once the answers in \
    progress have ended, at most `limits.drain_s` later; a second one ends it at once.")]
pub struct Args {
    /// The configuration file, instead of ESTOP_CONFIG, ~/.config/estop/estop.yaml or /etc/estop/estop.yaml; without any,
    /// everything has its default
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where everything is kept, instead of the configuration's `data_dir`
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Where every agent starts, instead of the configuration's `preset`: watch = guards that judge behaviour only watch,
    /// strict = they stop
    #[arg(long, value_name = "PRESET", value_parser = ["watch", "strict"])]
    preset: Option<String>,
    /// Make no first admin token
    #[arg(long, hide = true)]
    no_token: bool,
}

/// What the admin port says while the data directory cannot be trusted. Why is for its owner.
const UNTRUSTED: &str =
    "estop cannot trust its data directory, so nothing passes. `estop status` on its machine says why.";

/// Runs until it is told to end.
pub fn main(args: &Args) -> anyhow::Result<()> {
    let env = environment(args);
    let file = estop_config::file(args.config.as_deref(), &env)?;
    // Before it is read: what changes afterwards is taken up.
    let file = file.map(|path| (Seen::of(&path), path));
    let named = file.as_ref().map(|(_, path)| path.as_path());
    let mut config = estop_config::load_serve(named, &env)?;
    if let Some(data_dir) = &args.data_dir {
        config.data_dir.clone_from(data_dir);
    }
    let logging = Arc::new(Logging::start(&config.log)?);
    let manager = ServiceManager::of_process();
    tracing::info!(
        target: "serve",
        version = env!("CARGO_PKG_VERSION"),
        pid = std::process::id(),
        data_dir = %config.data_dir.display(),
        config = named.map(|path| tracing::field::display(path.display())),
        "estop starts"
    );
    let mut settings = wiring::settings(&config)?;
    wiring::notices(&settings).iter().for_each(|notice| tracing::warn!(target: "configuration", "{notice}"));
    let limit = descriptors::raise();
    let shares = Shares::of(limit, settings.workers, config.alerts.settings.channels.len())?;
    wiring::limit_connections(&mut settings, shares);
    let metrics = Arc::new(Metrics::new());
    metrics.configured(&config.policies);
    let spans = Arc::new(SpanExport::start(config.spans.as_ref(), metrics.span_counters())?);
    let observers = Observers { metrics: Arc::clone(&metrics), spans: Arc::clone(&spans) };
    let (persistence, mut restored) = Persistence::open(
        &config.data_dir,
        now(),
        &config.policies,
        &config.alerts,
        config.retention.journal_bytes,
        &observers,
    )?;
    let unfit = persistence.set_over(&config.policies, &mut restored)?;
    settings.policies = settings.policies.with_preset(persistence.preset()?);
    persistence.settle(&config, &mut restored);
    restored.jobs = background_file::read(&config.data_dir);
    let mut passed = PassedSockets::of_process()?;
    settings.socket = passed.take(config.listen.data);
    let admin_socket = passed.take(config.listen.admin);
    passed.all_taken(config.listen.data, config.listen.admin)?;
    let listeners = AdminListeners::open(config.listen.admin, admin_socket, &config.data_dir, shares)?;
    let admin_at = listeners.address()?;
    let latch = LatchWriter::start(&config.data_dir, Arc::clone(&persistence.queue))?;
    let keeping = keeping(&persistence, latch.handle());
    let seen = restored.latch.clone();
    let triggers = Triggers::new(&config.triggers, &config.data_dir, seen, latch.status())?;
    let (trigger_status, mut watching) = (triggers.status(), None);
    let mut gateway = Gateway::start_watched(settings, keeping, restored, |engine| {
        let button = Arc::clone(engine);
        watching = Some(triggers.start(button)?);
        Ok(())
    })?;
    let in_force = ConfigInForce::new(config.clone());
    persistence.watch(&gateway, in_force.clone())?;
    stuck::watch(&mut gateway, persistence.alerting.clone(), in_force.clone())?;
    let background = BackgroundFile::start(Arc::clone(gateway.engine()), &config.data_dir)?;
    pause(gateway.engine(), &unfit);
    let problem = persistence.problem.as_ref().map(|problem| {
        format!("{}. Nothing passes until this is repaired and estop is started again.", escaped(problem))
    });
    let commands = estop_config::commands(&config.data_dir, &Env::of_process());
    // While the data cannot be trusted, no command opens the gate.
    let at_start = || button_log::at_start(&gateway.engine().button(), &commands);
    if let Some(line) = problem.clone().or_else(at_start) {
        tracing::warn!(target: "emergency", "{line}");
    }
    let place = place(&config, &gateway, &dashboard(admin_at).0);
    let mode = mode(&gateway.engine().rulebook, &commands);
    let mut welcome = welcome(&gateway, &place, config.file.as_deref(), &mode, problem.is_some());
    if let Some(note) = config.file.is_none().then(|| estop_config::overlooked(&Env::of_process())).flatten()
    {
        tracing::warn!(target: "configuration", "{note}");
        welcome += &format!("\nNote: {note}");
    }
    if let Some(shortage) = shares.shortage(limit, config.limits.connections) {
        welcome += &format!("\nNote: {shortage} (`estop doctor` says what to allow)");
    }
    let edits: Arc<Mutex<()>> = Arc::default();
    let mut silence = None;
    let plane = if let Some(store) = persistence.store.clone() {
        let url = format!("http://{admin_at}");
        let controller = controller(&in_force, &gateway, latch.status(), trigger_status, &metrics)?;
        silence = watch_silence(&persistence, &controller)?;
        let options = Options { loopback: admin_at.ip().is_loopback(), https: config.behind_tls_proxy };
        let admin = admin(options, place, &gateway, store, &edits, controller, &persistence, metrics)?;
        let chosen = std::env::var("ESTOP_ADMIN_TOKEN").ok().map(SecretString::from);
        let makes_none = args.no_token && chosen.is_none();
        let token = if makes_none { None } else { admin.first_start(chosen.as_ref())? };
        admin.limit_lines(shares.lines);
        let plane = listeners.serve(admin.router(), admin.router_for_owner(), &config.data_dir)?;
        let (dashboard, or_else) = dashboard(admin_at);
        welcome += &format!("\nDashboard: {dashboard}/{or_else}\nAdmin API: {url}/api/docs");
        let told = |token| first_token::told(&token, &config.data_dir, &dashboard);
        welcome += &match token {
            Some(token) => told(token),
            None if args.no_token => String::new(),
            None => format!(
                "\nLog in with the token of the first start, or make another: {}",
                commands.make("token reset")
            ),
        };
        if args.no_token {
            welcome += "\nNo admin token was made. To unlock the emergency stop or open the dashboard: `estop token reset`";
        }
        plane
    } else {
        listeners.serve(
            untrusted(UNTRUSTED.to_owned()),
            untrusted(problem.unwrap_or_default()),
            &config.data_dir,
        )?
    };
    let files = watch_files(&config.data_dir, &persistence, &gateway, &plane)?;
    let source = file.map(|(seen, path)| Source { path, env, seen });
    let reloading =
        reloading(source, in_force.clone(), shares, &gateway, &persistence, edits, &logging, &spans)?;
    let tidying = persistence.store.clone().zip(persistence.writer.clone()).map(|(store, writer)| {
        let engine = Arc::clone(gateway.engine());
        MaintenanceThread::start(store, writer, engine, in_force.clone()).context("cannot start a thread")
    });
    let tidying = tidying.transpose()?;
    let alive =
        SignsOfLife::start(&manager, Arc::clone(gateway.engine())).context("cannot start a thread")?;
    let listening = || {
        let data = gateway.address();
        tracing::info!(target: "serve", %data, admin = %admin_at, "listening");
        manager.ready(&format!("listening on {data}"));
    };
    let draining = Draining { gateway: &gateway, manager: &manager, config: &in_force };
    let ended = signals::wait(reloading.as_ref(), &welcome, listening, &draining);
    drop(alive);
    // Before the socket is removed on purpose.
    drop(files);
    drop((silence, reloading, plane, tidying));
    drop(gateway);
    drop(background);
    let finished = persistence.finish();
    spans.finish();
    // Until here the button can be pressed, and the latch keeps it.
    drop(watching);
    drop(latch);
    match &finished {
        Ok(()) => tracing::info!(target: "serve", "estop ended"),
        Err(error) => {
            tracing::error!(target: "serve", error = format!("{error:#}"), "estop ended with an error");
        }
    }
    finished?;
    ended
}

/// The environment, with what the command line says before it.
fn environment(args: &Args) -> Env {
    match &args.preset {
        Some(preset) => Env::of_process().with("ESTOP_PRESET", preset),
        None => Env::of_process(),
    }
}

/// Whether agents are stopped or only watched, and how to change that.
fn mode(rules: &Rulebook, commands: &Commands) -> String {
    let policies = rules.file();
    let (preset, origin) = policies.preset();
    let set = if origin == PolicyOrigin::Api {
        ", set while estop ran: it goes before file and command line"
    } else {
        ""
    };
    let loops = policies.resolve(None, None).modes[Guard::Loop];
    let stops = |mode: Mode| mode == Mode::Enforce;
    let is_other = |name: &str| stops(rules.resolve(name).modes[Guard::Loop]) != stops(loops);
    let other: Vec<Box<str>> = rules.named().into_iter().filter(|name| is_other(name)).collect();
    if !other.is_empty() {
        let agents = agents(&other);
        let which = match preset {
            Preset::Watch => "preset watch",
            Preset::Strict => "preset strict",
        };
        return match stops(loops) {
            true => format!(
                "Mode: loops stop agents, and are only watched for {agents} ({which}{set}). To have them stop one: {}",
                commands.stop_loops(&other[0])
            ),
            false => format!(
                "Mode: loops stop {agents}, and are only watched for others: recorded, and nothing is stopped ({which}{set}). \
                 To have loops stop another agent: {}; every agent: `estop serve --preset strict`",
                commands.stop_loops("my-agent")
            ),
        };
    }
    match (preset, loops) {
        (Preset::Strict, Mode::Enforce) => format!("Mode: enforced (preset strict{set})"),
        (Preset::Watch, Mode::Enforce) => {
            format!("Mode: loops stop agents; other guards of behaviour only watch (preset watch{set})")
        }
        (Preset::Watch | Preset::Strict, Mode::Shadow | Mode::Off) => format!(
            "Mode: WATCHED{set}: a loop is recorded and stops nothing. To have loops stop an agent: {}; every agent: \
             `estop serve --preset strict`",
            commands.stop_loops("my-agent")
        ),
    }
}

/// `2 agents (coder, writer)`; of many the first.
fn agents(names: &[Box<str>]) -> String {
    const NAMED_MAX: usize = 3;
    let first = names.iter().take(NAMED_MAX).map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    let more = if names.len() > NAMED_MAX { ", …" } else { "" };
    let count = if names.len() == 1 { "1 agent".to_owned() } else { format!("{} agents", names.len()) };
    format!("{count} ({first}{more})")
}

fn welcome(
    gateway: &Gateway,
    place: &Installation,
    file: Option<&Path>,
    mode: &str,
    is_untrusted: bool,
) -> String {
    let url = &place.data_url;
    let configuration = match file {
        Some(file) => escaped(&file.display().to_string()),
        None => "no file, everything has its default".to_owned(),
    };
    let scheme = url.split("://").next().unwrap_or("http");
    let listening =
        format!("estop {} listening on {scheme}://{}", env!("CARGO_PKG_VERSION"), gateway.address());
    if is_untrusted {
        return format!("{listening}\n\nEvery request is refused: see above");
    }
    format!(
        "{listening}\n{mode}\n\n\
         Point an agent at it:\n  \
         OPENAI_BASE_URL={url}/agents/my-agent/openai/v1\n  \
         ANTHROPIC_BASE_URL={url}/agents/my-agent/anthropic\n  \
         GOOGLE_GEMINI_BASE_URL={url}/agents/my-agent/gemini\n\n\
         Configuration: {configuration}\n\
         Everything is kept in {}\n\
         Emergency stop: kill -USR1 {}",
        place.data_dir,
        std::process::id()
    )
}

/// Where people look, and what to say beside it. On this machine by a name of its own: browsers send a cookie to every port
/// of its host, and what agents serve is on 127.0.0.1 and localhost too.
fn dashboard(at: SocketAddr) -> (String, String) {
    if at.ip().is_loopback() {
        (format!("http://estop.localhost:{}", at.port()), format!(" (or http://{at}/)"))
    } else {
        (format!("http://{at}"), String::new())
    }
}

/// Agents whose own rules do not fit over the configuration any more do not work with looser ones.
fn pause(engine: &Engine, unfit: &[Name]) {
    for agent in unfit.iter().filter_map(|name| engine.agent(name)) {
        engine.apply(&agent, None, EventKind::AgentPaused { by: "configuration".into() });
    }
}

/// What keeps things: whoever keeps the button tells people of it too.
fn keeping(persistence: &Persistence, latch: Arc<dyn LatchStore>) -> Stores {
    let latch = match &persistence.alerting {
        Some(alerting) => Arc::new(NotifyingLatchStore::over(latch, Arc::clone(alerting))),
        None => latch,
    };
    Stores { journal: Arc::clone(&persistence.queue), latch: Some(latch) }
}

/// What people may do to this estop.
fn controller(
    config: &ConfigInForce,
    gateway: &Gateway,
    latch: LatchStatus,
    trigger_status: Arc<TriggerStatus>,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Arc<dyn Operator>> {
    let at_start = config.get();
    let listener =
        DataListener { address: gateway.address(), certificate: estop_config::certificate(&at_start)? };
    let engine = Arc::clone(gateway.engine());
    let proof = ProofTester::new(engine, latch.clone(), listener, config.clone());
    let commands = estop_config::commands(&at_start.data_dir, &Env::of_process());
    let (metrics, config) = (Arc::clone(metrics), config.clone());
    Ok(Arc::new(Controller::new(gateway, latch, trigger_status, proof, commands, metrics, config)))
}

/// Looks for agents that are silent, and for a stop that nobody tries out.
fn watch_silence(
    persistence: &Persistence,
    operator: &Arc<dyn Operator>,
) -> anyhow::Result<Option<Watching>> {
    let start = |alerting: &Arc<Alerting>| Watching::start(Arc::clone(alerting), Arc::clone(operator));
    persistence.alerting.as_ref().map(start).transpose().context("cannot start a thread")
}

/// Watches the files of the data directory.
fn watch_files(
    data_dir: &Path,
    persistence: &Persistence,
    gateway: &Gateway,
    plane: &AdminPlane,
) -> anyhow::Result<Option<DataWatch>> {
    let Some((store, writer)) = persistence.store.clone().zip(persistence.writer.clone()) else {
        return Ok(None);
    };
    let (engine, rebinder) = (Arc::clone(gateway.engine()), plane.rebinder());
    let watched = Watched { data_dir: data_dir.to_owned(), store, writer, engine, rebinder };
    DataWatch::start(watched).context("data_dir: cannot watch its files").map(Some)
}

/// What serves people.
#[expect(clippy::too_many_arguments, reason = "what the admin plane is given")]
fn admin(
    options: Options,
    place: Installation,
    gateway: &Gateway,
    store: Arc<dyn Store>,
    edits: &Arc<Mutex<()>>,
    operator: Arc<dyn Operator>,
    persistence: &Persistence,
    metrics: Arc<Metrics>,
) -> anyhow::Result<Admin> {
    let (engine, scraped) = (Arc::clone(gateway.engine()), Arc::clone(gateway.engine()));
    let asked = Arc::clone(&operator);
    Ok(Admin::open(AdminState {
        operator,
        metrics: Arc::new(move || metrics.scrape(&*asked, &scraped.rulebook.file())),
        store,
        clock: Arc::new(now),
        policy_file: Arc::new(move || engine.rulebook.file()),
        edits: Arc::clone(edits),
        options,
        place,
        alerts_api: match &persistence.alerting {
            Some(alerting) => Arc::clone(alerting) as Arc<dyn AlertsApi>,
            None => Arc::new(NoAlerts),
        },
    })?)
}

/// Where programs under `estop run` find this estop.
fn place(config: &ServeConfig, gateway: &Gateway, dashboard: &str) -> Installation {
    let mut address = gateway.address();
    if address.ip().is_unspecified() {
        // It listens everywhere; programs of this machine reach it here.
        address.set_ip(if address.is_ipv4() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            Ipv6Addr::LOCALHOST.into()
        });
    }
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let folder = std::path::absolute(&config.data_dir).unwrap_or_else(|_| config.data_dir.clone());
    let commands = estop_config::commands(&folder, &Env::of_process());
    Installation {
        data_url: format!("{scheme}://{address}"),
        dashboard_url: config.alerts.settings.words.dashboard.clone().unwrap_or_else(|| dashboard.to_owned()),
        data_dir: folder.display().to_string(),
        commands,
        evidence_days: config.retention.evidence_days,
    }
}

/// Watches the configuration file, if there is one.
#[expect(clippy::too_many_arguments, reason = "what a reload changes")]
fn reloading(
    source: Option<Source>,
    config: ConfigInForce,
    shares: Shares,
    gateway: &Gateway,
    persistence: &Persistence,
    edits: Arc<Mutex<()>>,
    logging: &Arc<Logging>,
    spans: &Arc<SpanExport>,
) -> anyhow::Result<Option<Reloading>> {
    let Some((source, store)) = source.zip(persistence.store.clone()) else { return Ok(None) };
    let Some(alerting) = persistence.alerting.clone() else { return Ok(None) };
    let running = Running {
        source,
        config,
        shares,
        workers: gateway.workers(),
        engine: Arc::clone(gateway.engine()),
        keys: gateway.keys(),
        store,
        alerting,
        logging: Arc::clone(logging),
        spans: Arc::clone(spans),
        edits,
    };
    Ok(Some(Reloading::start(running)?))
}

/// Wall-clock milliseconds.
fn now() -> i64 {
    Timestamp::now().as_millisecond()
}
