//! `estop top`: the same as the dashboard, live in a terminal, with a key for the red button.

mod model;
mod screen;

use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::Context;
use crossterm::event::{self, Event, KeyEventKind};
use http::Method;
use serde_json::{Value, json};

use super::Exit;
use crate::client::{Daemon, DaemonArgs, Listing, path};
use model::{Model, Order, Seen};

/// How often estop is asked.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// What is older than this is not shown as if it were now: the screen says that estop does not answer.
const LOOK_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a key is waited for before the screen is drawn again.
const KEY_TIMEOUT: Duration = Duration::from_millis(100);
/// Agents shown at most; `estop agents list` has all.
const AGENTS_MAX: usize = 1000;

/// Watch agents live in the terminal, and stop them; needs a terminal
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    anyhow::ensure!(
        std::io::stdout().is_terminal() && std::io::stdin().is_terminal(),
        "estop top draws on a terminal, and this is none. `estop status` prints the same once."
    );
    let eyes = args.daemon.daemon()?.within(LOOK_TIMEOUT);
    // Before the screen is taken: whoever cannot reach estop reads why, as with every command.
    let first = look(&eyes)?;
    let (news, orders) = errands(eyes, args.daemon.daemon()?)?;
    let mut model = Model::new(first);
    let mut terminal = ratatui::try_init().context("the terminal cannot be used")?;
    let ended = run(&mut terminal, &mut model, &news, &orders);
    ratatui::restore();
    ended.map(|()| Exit::Fine)
}

fn run(
    terminal: &mut ratatui::DefaultTerminal,
    model: &mut Model,
    news: &Receiver<News>,
    orders: &Sender<Order>,
) -> anyhow::Result<()> {
    loop {
        for news in news.try_iter() {
            match news {
                News::Seen(seen) => model.see(seen),
                News::Done(text) => model.tell(text),
            }
        }
        terminal.draw(|frame| screen::draw(frame, model))?;
        if !event::poll(KEY_TIMEOUT)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            match model.key(key) {
                Some(Order::Quit) => return Ok(()),
                // Nobody carries it out any more: the screen says so by itself.
                Some(order) => drop(orders.send(order)),
                None => {}
            }
        }
    }
}

/// What comes back from the thread that asks estop.
enum News {
    Seen(anyhow::Result<Seen>),
    Done(String),
}

/// Two threads: one looks, one carries out orders. A slow estop holds up neither the keyboard nor an order.
fn errands(eyes: Daemon, hands: Daemon) -> anyhow::Result<(Receiver<News>, Sender<Order>)> {
    let (tell, news) = channel();
    let (orders, taken) = channel::<Order>();
    let done = tell.clone();
    let act = move || {
        for order in taken {
            let said = carry_out(&hands, &order).unwrap_or_else(|error| format!("{error:#}"));
            drop(done.send(News::Done(said)));
        }
    };
    let watch = move || {
        loop {
            std::thread::sleep(POLL_INTERVAL);
            if tell.send(News::Seen(look(&eyes))).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("estop-top-act".into()).spawn(act)?;
    std::thread::Builder::new().name("estop-top-look".into()).spawn(watch)?;
    Ok((news, orders))
}

fn look(daemon: &Daemon) -> anyhow::Result<Seen> {
    let status = daemon.get(path(&["emergency", "status"]))?;
    let stats = daemon.get(path(&["stats"]))?;
    let mut agents = daemon.list(Listing {
        path: &path(&["agents"]),
        query: Vec::new(),
        key: "agents",
        cursor: "after",
        limit: Some(AGENTS_MAX),
    })?;
    let agents = agents["agents"].as_array_mut().map(std::mem::take).unwrap_or_default();
    Ok(Seen { status, stats, agents })
}

fn carry_out(daemon: &Daemon, order: &Order) -> anyhow::Result<String> {
    let agent = |name: &str, what: &str| {
        daemon
            .send(Method::POST, path(&["agents", name, what]), None)
            .map(|_: Value| format!("{name}: {what}d."))
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
            let ended = &done["stopped"];
            let kept = if done["persisted"] == true { "on disk" } else { "NOT ON DISK" };
            Ok(format!(
                "STOPPED: {} model calls, {} tools, {} messages; {kept}.",
                ended["model_calls"], ended["tools"], ended["messages"]
            ))
        }
    }
}
