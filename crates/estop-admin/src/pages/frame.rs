//! What every page has: the state, the channels, the button, the way to the other pages.

use estop_core::operator::JournalFailure;
use estop_core::printable::escaped_within;
use estop_core::system::button::Latched;
use estop_core::system::{Channel, KillReason, SystemState};
use estop_store::{OpenCases, TokenRole};

use super::shown::when;
use crate::access::{Caller, rank};
use crate::problem::Problem;
use crate::state::App;

/// The frame around a page.
pub(super) struct Frame {
    pub(super) title: String,
    pub(super) state: State,
    pub(super) channels: Vec<ChannelLamp>,
    pub(super) under_way: String,
    pub(super) nav: Vec<NavItem>,
    pub(super) banner: Option<Banner>,
    pub(super) may_operate: bool,
    pub(super) may_admin: bool,
    /// Who is logged in.
    pub(super) name: String,
    /// Nobody is told of stops.
    pub(super) alerts_missing: bool,
    pub(super) incidents: u64,
    pub(super) needs_human: u64,
}

pub(super) struct State {
    pub(super) class: &'static str,
    pub(super) lamp: &'static str,
    pub(super) label: &'static str,
    pub(super) is_down: bool,
}

pub(super) struct ChannelLamp {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    pub(super) open: bool,
}

pub(super) struct NavItem {
    pub(super) href: &'static str,
    pub(super) label: &'static str,
    pub(super) current: bool,
    pub(super) count: u64,
}

/// Why not everything may pass, and how it is opened again.
pub(super) struct Banner {
    pub(super) what: &'static str,
    pub(super) who: String,
    pub(super) why: String,
    pub(super) epoch: u64,
    pub(super) unlock: Option<Unlock>,
}

pub(super) struct Unlock {
    pub(super) path: &'static str,
    pub(super) label: &'static str,
    pub(super) ask: &'static str,
}

/// Characters of a page's title, which may have the name of a tool in it.
const TITLE_MAX: usize = 120;

const PAGES: [(&str, &str); 8] = [
    ("/", "Overview"),
    ("/incidents", "Incidents"),
    ("/needs-human", "Needs a human"),
    ("/alerts", "Alerts"),
    ("/spend", "Spend"),
    ("/journal", "Journal"),
    ("/connect", "Connect"),
    ("/settings", "Settings"),
];

impl Frame {
    /// May wait for the store.
    pub(super) fn of(app: &App, caller: &Caller, here: &str, title: &str) -> Result<Frame, Problem> {
        let OpenCases { incidents, escalations: needs_human } = app.store_here().open_cases()?;
        let failing = app.alerts_api.channels().iter().filter(|channel| channel.failures > 0).count() as u64;
        let nav = PAGES.iter().map(|(href, label)| NavItem {
            href,
            label,
            current: *href == here,
            count: match *href {
                "/incidents" => incidents,
                "/needs-human" => needs_human,
                // Channels that fail.
                "/alerts" => failing,
                _ => 0,
            },
        });
        let latched = app.operator.button();
        let lamp = |(id, name, channel)| ChannelLamp { id, name, open: latched.gate.lets_pass(channel) };
        let channels = [
            ("llm", "models", Channel::Llm),
            ("tools", "tools", Channel::Tools),
            ("messaging", "messages", Channel::Messaging),
        ];
        let channels: Vec<ChannelLamp> = channels.into_iter().map(lamp).collect();
        let trouble = app.operator.journal_failure();
        let partly = channels.iter().any(|channel| !channel.open);
        Ok(Frame {
            title: escaped_within(title, TITLE_MAX),
            state: State::of(latched.gate.state, partly, trouble.is_some()),
            banner: match trouble.filter(|_| latched.gate.state == SystemState::Running) {
                Some(trouble) => Some(Banner::of_journal(trouble)),
                None => banner(app, &latched, partly),
            },
            channels,
            under_way: under_way(app),
            nav: nav.collect(),
            may_operate: rank(caller.role) >= rank(TokenRole::Operator),
            may_admin: rank(caller.role) >= rank(TokenRole::Admin),
            name: caller.by.to_string(),
            alerts_missing: !app.alerts_api.is_told_of_stops(None),
            incidents,
            needs_human,
        })
    }
}

impl State {
    fn of(state: SystemState, partly: bool, refuses: bool) -> State {
        let (class, lamp, label) = match state {
            SystemState::Running if refuses => ("partly", "off", "RUNNING, NOTHING PASSES"),
            SystemState::Running if partly => ("partly", "half", "RUNNING, NOT EVERYTHING"),
            SystemState::Running => ("running", "on", "RUNNING"),
            SystemState::Shutdown => ("shutdown", "off", "SHUTDOWN"),
            SystemState::SafeMode => ("safe_mode", "half", "SAFE MODE"),
            SystemState::Starting => ("starting", "off", "STARTING"),
        };
        State { class, lamp, label, is_down: state == SystemState::Shutdown }
    }
}

impl Banner {
    /// Nothing passes, and it is not the button.
    fn of_journal(trouble: JournalFailure) -> Banner {
        Banner { what: trouble.text(), who: String::new(), why: String::new(), epoch: 0, unlock: None }
    }
}

fn banner(app: &App, latched: &Latched, partly: bool) -> Option<Banner> {
    let (what, unlock) = match latched.gate.state {
        SystemState::Running if !partly => return None,
        SystemState::Starting => ("estop is starting. Nothing passes yet.", None),
        SystemState::Shutdown => (
            "Everything is stopped.",
            Some(Unlock {
                path: "/api/emergency/restart",
                label: "Unlock, step 1: safe mode",
                ask: "Switch to safe mode? Agents stay stopped and are told that models are off. Step 2 resumes them.",
            }),
        ),
        SystemState::SafeMode => (
            "Safe mode: agents are told that models are off.",
            Some(Unlock {
                path: "/api/emergency/clear",
                label: "Unlock, step 2: resume all agents",
                ask: "Resume all agents, tools and messages?",
            }),
        ),
        SystemState::Running => (
            "Some channels are shut.",
            Some(Unlock {
                path: "/api/emergency/clear",
                label: "Open all channels",
                ask: "Open all channels again?",
            }),
        ),
    };
    let reason = latched.reason.map(reason_text).unwrap_or_default();
    let note = latched.note.as_deref().unwrap_or_default();
    let why = [reason, note].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
    let who = format!("Since {}, by {} ({})", when(latched.since, app.now()), latched.by, latched.source);
    Some(Banner { what, who, why, epoch: latched.gate.epoch, unlock })
}

/// A reason, as people read it.
fn reason_text(reason: KillReason) -> &'static str {
    match reason {
        KillReason::Manual => "pressed by hand",
        KillReason::SecurityIncident => "security incident",
        KillReason::RunawayAgent => "runaway agent",
        KillReason::ApiQuotaExceeded => "API quota exceeded",
        KillReason::Emergency => "emergency",
    }
}

fn under_way(app: &App) -> String {
    let under_way = app.operator.under_way();
    let some = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    format!(
        "{}, {} and {} in progress",
        some(under_way.model_calls, "model call"),
        some(under_way.tools, "tool"),
        some(under_way.messages, "message")
    )
}
