//! `estop top`: the same as the dashboard, live in a terminal, with a key for the red button.

mod colors;
mod detail;
mod lines;
mod model;
mod screen;

use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::Context;
use crossterm::event::{self, Event, KeyEventKind};
use http::Method;
use serde_json::{Value, json};

use super::Exit;
use crate::client::{Daemon, DaemonArgs, Listing, path};
use crate::kill;
use colors::Colors;
use model::{Detail, Model, Order, Seen};

/// How often estop is asked.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// What is older than this is not shown as if it were now: the screen says that estop does not answer.
const LOOK_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a key is waited for before the screen is drawn again.
const KEY_TIMEOUT: Duration = Duration::from_millis(100);
/// Agents shown at most; `estop agents list` has all.
const AGENTS_MAX: usize = 1000;
/// Open incidents that give agents their reason; `estop incidents list` has all.
const INCIDENTS_MAX: usize = 200;
/// Events in the pane, and of the agent in the detail.
const EVENTS_MAX: usize = 50;
/// Runs in the detail.
const RUNS_MAX: usize = 5;

/// Watch agents live in the terminal, and stop them; needs a terminal
#[derive(Debug, clap::Args)]
#[command(after_help = "Keys: Enter shows an agent's details, / filters, ? lists all keys. \
    Colours are off where NO_COLOR is set.")]
pub struct Args {
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    anyhow::ensure!(
        std::io::stdout().is_terminal() && std::io::stdin().is_terminal(),
        "estop top needs a terminal, and its input or output is not one. `estop status` prints the same once."
    );
    let eyes = args.daemon.daemon()?.within(LOOK_TIMEOUT);
    // Before the screen is taken: whoever cannot reach estop reads why, as with every command.
    let first = look(&eyes, None)?;
    let threads = start_threads(eyes, args.daemon.daemon()?)?;
    let mut model = Model::new(first);
    let mut terminal = ratatui::try_init().context("the terminal cannot be used")?;
    let ended = run(&mut terminal, &mut model, &threads);
    ratatui::restore();
    ended.map(|()| Exit::Fine)
}

fn run(terminal: &mut ratatui::DefaultTerminal, model: &mut Model, threads: &Threads) -> anyhow::Result<()> {
    let colors = Colors::of_environment();
    loop {
        for news in threads.news.try_iter() {
            match news {
                News::Seen(seen) => model.see(seen),
                News::Done(text) => model.tell(text),
            }
        }
        terminal.draw(|frame| screen::draw(frame, model, colors))?;
        if !event::poll(KEY_TIMEOUT)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            let shown = model.detail_of.clone();
            match model.key(key) {
                Some(Order::Quit) => return Ok(()),
                // Nobody carries it out any more: the screen says so by itself.
                Some(order) => drop(threads.orders.send(order)),
                None => {}
            }
            if model.detail_of != shown {
                drop(threads.wanted.send(model.detail_of.clone()));
            }
        }
    }
}

/// What comes back from the threads that ask estop.
enum News {
    Seen(anyhow::Result<Seen>),
    Done(String),
}

/// Two threads: one looks, one carries out orders. A slow estop holds up neither the keyboard nor an order.
struct Threads {
    news: Receiver<News>,
    orders: Sender<Order>,
    /// Whose details are looked for, from here on.
    wanted: Sender<Option<String>>,
}

fn start_threads(eyes: Daemon, hands: Daemon) -> anyhow::Result<Threads> {
    let (tell, news) = channel();
    let (orders, taken) = channel::<Order>();
    let (wanted, wishes) = channel::<Option<String>>();
    let done = tell.clone();
    let act = move || {
        for order in taken {
            let said = carry_out(&hands, &order).unwrap_or_else(|error| format!("{error:#}"));
            drop(done.send(News::Done(said)));
        }
    };
    let watch = move || {
        let mut detail_of: Option<String> = None;
        loop {
            match wishes.recv_timeout(POLL_INTERVAL) {
                Ok(wish) => detail_of = wish,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if tell.send(News::Seen(look(&eyes, detail_of.as_deref()))).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("estop-top-act".into()).spawn(act)?;
    std::thread::Builder::new().name("estop-top-look".into()).spawn(watch)?;
    Ok(Threads { news, orders, wanted })
}

fn look(daemon: &Daemon, detail_of: Option<&str>) -> anyhow::Result<Seen> {
    let list = |path: &str, key: &str, cursor: &str, query: Vec<(&str, Option<String>)>, limit: usize| {
        let mut page = daemon.list(Listing { path, query, key, cursor, limit: Some(limit) })?;
        anyhow::Ok(page[key].as_array_mut().map(std::mem::take).unwrap_or_default())
    };
    let of = |agent: &str| vec![("agent", Some(agent.to_owned()))];
    let open = vec![("status", Some("open".to_owned()))];
    let detail = |agent: &str| {
        anyhow::Ok(Detail {
            agent: agent.to_owned(),
            runs: list("/api/runs", "runs", "before", of(agent), RUNS_MAX)?,
            events: list("/api/events", "events", "before", of(agent), EVENTS_MAX)?,
        })
    };
    Ok(Seen {
        status: daemon.get(path(&["emergency", "status"]))?,
        stats: daemon.get(path(&["stats"]))?,
        agents: list("/api/agents", "agents", "after", Vec::new(), AGENTS_MAX)?,
        incidents: list("/api/incidents", "incidents", "before", open, INCIDENTS_MAX)?,
        events: list("/api/events", "events", "before", Vec::new(), EVENTS_MAX)?,
        detail: detail_of.map(detail).transpose()?,
    })
}

fn carry_out(daemon: &Daemon, order: &Order) -> anyhow::Result<String> {
    let agent = |name: &str, what: &str| {
        let done: Value = daemon.send(Method::POST, path(&["agents", name, what]), None)?;
        anyhow::Ok(done["message"].as_str().map_or_else(|| format!("{name}: {what}d."), str::to_owned))
    };
    match order {
        Order::Quit => Ok(String::new()),
        Order::Stop(name) => agent(name, "deactivate"),
        Order::Activate(name) => agent(name, "activate"),
        Order::Pause(name) => agent(name, "pause"),
        Order::Resume(name) => agent(name, "resume"),
        Order::Kill => {
            let body = json!({"reason": "manual", "note": "estop top", "metadata": {"source": "cli"}});
            let done = daemon.send(Method::POST, path(&["emergency", "kill"]), Some(&body))?;
            Ok(kill::summary(&done, &[]))
        }
    }
}
