//! The events a line can name:
//!
//! ```text
//! request 1 "prompt" [continues] [did|failed|unsure TOOL ARGS => RESULT]… [in=TOKENS] [out=TOKENS] [usd=$1] [unpriced]
//!           [conv=NAME] [kind=embedding|other] [fleet=SPENT/CAP] [model=NAME] [issue=TEXT] [labels=K:V,K:V]
//! response 1 ["text"] [call TOOL ARGS]… [in=…] [out=…] [usd=…] [broken]
//! progress 1 [in=…] [out=…] [usd=…] [fleet=SPENT/CAP]   abort 1 client|upstream|guard|kill [in=…] [out=…] [usd=…]
//! chant 1 "unit" 400                         prompt          tick          wait          forwarded
//! tool 1 TOOL ARGS [mcp]                     finish 1 "result" [failed|unsure] [reports]
//! start [attended] [max_tool_calls=N…] | sleep | wake | complete | extend        message in|out RELAY
//! activate | deactivate | pause | resume     policy KEY=VALUE…     snooze GUARD 2h | unsnooze GUARD
//! renew today=$1 month=$1
//! system start [STATE] [epoch=N] [shut=llm+tools] | kill [llm+tools] | restart [epoch=N] | clear [epoch=N]
//! ```
//!
//! Every event takes `run=NAME`, `gate=STATE` and `shut=llm+tools`. A tool of `-` is an action in plain text.
//! Whether a command runs tests is found out as in real life.

use estop_core::budget::{Amount, BudgetCap, BudgetFinding, PeriodSpend};
use estop_core::event::{
    AbortedBy, CallKind, ChantDetected, Ended, Estimate, Event, EventKind, RequestReceived,
    ResponseCompleted, StreamAborted, StreamProgressed, ToolFinished, ToolGate, ToolRequested, Usage,
};
use estop_core::fingerprint::{
    RequestFingerprint, RequestText, ResponseFingerprint, ResponseText, StepFingerprint, StepText, signature,
};
use estop_core::guard::Guard;
use estop_core::ids::{CallId, RequestId};
use estop_core::loop_detector::chant::ChantDetector;
use estop_core::money::NanoUsd;
use estop_core::policy::{Limit, RunLimits};
use estop_core::run::test_command::is_test_run;
use estop_core::system::button::Press;
use estop_core::system::{Channel, Channels, GateView, KillReason, SystemEvent, SystemState};
use estop_core::tags::Tags;

use super::line::{Word, duration_ms};
use super::policy::{self, nano_usd};
use super::world::World;

/// Plays the event of a line.
pub(super) fn play(world: &mut World, words: &[Word]) -> Result<(), String> {
    let mut options = Options::of(words)?;
    match options.name.as_str() {
        "system" => {
            let event = system_event(world, &mut options)?;
            options.all_used()?;
            world.handle_system(&event);
            Ok(())
        }
        "wait" => world.wait(),
        "forwarded" => {
            world.count_fleet();
            Ok(())
        }
        "policy" => {
            policy::change(&mut world.policy, &words[1..])?;
            let policy = Box::new(world.policy.clone());
            world.handle(&Event::open(EventKind::PolicyChanged { by: "ann".into(), policy }))
        }
        _ => {
            let event = event(world, &mut options)?;
            options.all_used()?;
            world.handle(&event)
        }
    }
}

/// The words of an event: `key=value` apart from the others.
struct Options {
    name: String,
    pairs: Vec<(String, String)>,
    rest: std::collections::VecDeque<Word>,
}

impl Options {
    fn of(words: &[Word]) -> Result<Options, String> {
        let (first, rest) = words.split_first().ok_or("a line needs an event")?;
        const KEYS: [&str; 25] = [
            "more",
            "open",
            "open_tokens",
            "path",
            "other_model",
            "run",
            "gate",
            "shut",
            "in",
            "out",
            "usd",
            "conv",
            "kind",
            "fleet",
            "today",
            "month",
            "epoch",
            "model",
            "issue",
            "labels",
            "max_iterations",
            "max_tool_calls",
            "max_turns",
            "max_active_duration",
            "max_sleep_duration",
        ];
        let mut options = Options { name: first.text.clone(), pairs: Vec::new(), rest: Default::default() };
        for word in rest {
            match word.text.split_once('=').filter(|(key, _)| !word.quoted && KEYS.contains(key)) {
                Some((key, value)) => options.pairs.push((key.to_owned(), value.to_owned())),
                None => options.rest.push_back(word.clone()),
            }
        }
        Ok(options)
    }

    fn take(&mut self, key: &str) -> Option<String> {
        let at = self.pairs.iter().position(|(name, _)| name == key)?;
        Some(self.pairs.remove(at).1)
    }

    fn next(&mut self, what: &str) -> Result<String, String> {
        self.rest.pop_front().map(|word| word.text).ok_or_else(|| format!("{}: {what} is missing", self.name))
    }

    fn quoted(&mut self) -> Option<String> {
        let quoted = self.rest.front().is_some_and(|word| word.quoted);
        if quoted { self.rest.pop_front().map(|word| word.text) } else { None }
    }

    fn flag(&mut self, name: &str) -> bool {
        let at = self.rest.iter().position(|word| !word.quoted && word.text == name);
        at.is_some_and(|at| self.rest.remove(at).is_some())
    }

    fn id(&mut self) -> Result<u64, String> {
        let text = self.next("a number")?;
        text.parse().map_err(|_| format!("{}: `{text}` is no number", self.name))
    }

    fn tokens(&mut self, key: &str) -> Result<u32, String> {
        match self.take(key).as_deref() {
            None => Ok(0),
            Some("max") => Ok(u32::MAX),
            Some(text) => text.parse().map_err(|_| format!("{key}={text} is no number of tokens")),
        }
    }

    fn usd(&mut self) -> Result<NanoUsd, String> {
        self.money("usd")
    }

    fn money(&mut self, key: &str) -> Result<NanoUsd, String> {
        let text = self.take(key).unwrap_or_else(|| "0".to_owned());
        nano_usd(text.trim_start_matches('$')).map(NanoUsd)
    }

    fn usage(&mut self) -> Result<Usage, String> {
        Ok(Usage {
            input_tokens: self.tokens("in")?,
            output_tokens: self.tokens("out")?,
            usd: self.usd()?,
            ..Usage::default()
        })
    }

    fn all_used(&self) -> Result<(), String> {
        match (self.pairs.first(), self.rest.front()) {
            (None, None) => Ok(()),
            (Some((key, value)), _) => Err(format!("{}: {key}={value} has no meaning here", self.name)),
            (None, Some(word)) => Err(format!("{}: `{}` has no meaning here", self.name, word.text)),
        }
    }
}

fn event(world: &mut World, options: &mut Options) -> Result<Event, String> {
    let run = options.take("run");
    let gate = gate(world, options)?;
    let what = what(world, run.as_deref(), options)?;
    Ok(Event { run: run.map(Into::into), gate, what })
}

fn what(world: &mut World, run: Option<&str>, options: &mut Options) -> Result<EventKind, String> {
    let by = || "ann".into();
    let name = options.name.clone();
    Ok(match name.as_str() {
        "request" => EventKind::RequestReceived(request(world, run, options)?),
        "response" => EventKind::ResponseCompleted(response(options)?),
        "progress" => EventKind::StreamProgressed(StreamProgressed {
            request: RequestId(options.id()?),
            usage: options.usage()?,
            fleet: options.take("fleet").map(|text| fleet(&text, Estimate::default())).transpose()?,
        }),
        "abort" => EventKind::StreamAborted(aborted(options)?),
        "chant" => EventKind::ChantDetected(chant(options)?),
        "tool" => EventKind::ToolRequested(tool(options)?),
        "finish" => {
            let (call, result) = (CallId(options.id()?), options.next("a result")?);
            let ended = match (options.flag("failed"), options.flag("unsure")) {
                (true, _) => Ended::Failed,
                (false, true) => Ended::Unknown,
                (false, false) => Ended::Ok,
            };
            let reports = options.flag("reports");
            let step = StepText { tool: "tool", args: "", result: &result, ended };
            let (result, words) = StepFingerprint::result_of(&step);
            EventKind::ToolFinished(ToolFinished { call, result, ended, reports, words })
        }
        "prompt" => EventKind::PromptSubmitted,
        "start" => EventKind::RunStarted {
            attended: options.flag("attended"),
            limits: limits(options)?,
            tags: tags(options)?,
        },
        "sleep" => EventKind::RunSlept,
        "wake" => EventKind::RunWoke,
        "complete" => EventKind::RunCompleted,
        "extend" => EventKind::RunExtended { by: by() },
        "message" => match options.next("in or out")?.as_str() {
            "in" => EventKind::MessageIn { relay: options.next("a relay")?.into() },
            _ => EventKind::MessageOut { relay: options.next("a relay")?.into() },
        },
        "activate" => EventKind::AgentActivated { by: by() },
        "deactivate" => EventKind::AgentDeactivated { by: by() },
        "pause" => EventKind::AgentPaused { by: by() },
        "resume" => EventKind::AgentResumed { by: by() },
        "snooze" => {
            let (guard, span) = (guard(options)?, options.next("how long")?);
            EventKind::GuardSnoozed { by: by(), guard, for_ms: duration_ms(&span)?, until: 0, note: None }
        }
        "unsnooze" => EventKind::GuardWoken { by: by(), guard: guard(options)? },
        "renew" => {
            let of = |usd| Amount { usd, tokens: 0 };
            let (today, this_month) = (of(options.money("today")?), of(options.money("month")?));
            EventKind::BudgetRenewed { by: by(), spent: PeriodSpend { today, this_month } }
        }
        "restarted" => EventKind::Restarted { away_ms: options.id()? * 1000 },
        "tick" => EventKind::Tick,
        other => return Err(format!("`{other}` is no event")),
    })
}

fn request(world: &mut World, run: Option<&str>, options: &mut Options) -> Result<RequestReceived, String> {
    let request = RequestId(options.id()?);
    let continues = options.flag("continues");
    match options.quoted() {
        Some(prompt) => world.last_prompt = prompt,
        None if continues => {}
        None => world.last_prompt = String::new(),
    }
    let conversation = options.take("conv").unwrap_or_else(|| "the task".to_owned());
    let call = match options.take("kind").as_deref() {
        None => CallKind::Generation,
        Some("embedding") => CallKind::Embedding,
        Some(_) => CallKind::Other,
    };
    let estimate = Estimate {
        input_tokens: options.tokens("in")?,
        output_tokens: options.tokens("out")?,
        usd: options.usd()?,
        unpriced: options.flag("unpriced"),
        more_input_tokens: options.tokens("more")?,
        open_tokens: options.tokens("open_tokens")?.into(),
        open_usd: options.money("open")?,
    };
    let fleet = options.take("fleet").map(|text| fleet(&text, estimate)).transpose()?;
    let (model, tags) = (options.take("model").map(Into::into), tags(options)?);
    let other_models = options.take("other_model").map(Into::into).into_iter().collect();
    let path = options.take("path").map(Into::into);
    let mut done = Vec::new();
    while !options.rest.is_empty() {
        let ended = match options.next("a step")?.as_str() {
            "did" => Ended::Ok,
            "failed" => Ended::Failed,
            "unsure" => Ended::Unknown,
            other => return Err(format!("request: `{other}` has no meaning here")),
        };
        let (tool, args, _arrow) = (options.next("a tool")?, options.next("arguments")?, options.next("=>")?);
        done.push((tool.replace('-', ""), args, options.next("a result")?, ended));
    }
    let steps = done.iter().map(|(tool, args, result, ended): &(String, String, String, Ended)| StepText {
        tool,
        args,
        result,
        ended: *ended,
    });
    let mut print = RequestFingerprint::of(&RequestText {
        system: "You are an agent.",
        first_user: &conversation,
        run,
        last_user: &world.last_prompt,
        continues,
        steps: steps.collect(),
    });
    for (step, (tool, args, ..)) in print.steps.iter_mut().zip(&done) {
        step.test_run = is_test_run(tool, args);
    }
    Ok(RequestReceived {
        request,
        call,
        model,
        other_models,
        path,
        print,
        estimate,
        fleet,
        tags,
        route: None,
    })
}

fn guard(options: &mut Options) -> Result<Guard, String> {
    let name = options.next("a guard")?;
    Guard::named(&name).ok_or_else(|| format!("`{name}` is no guard"))
}

fn tags(options: &mut Options) -> Result<Option<Box<Tags>>, String> {
    let mut tags = Tags { issue: options.take("issue").map(Into::into), ..Tags::default() };
    for pair in options.take("labels").iter().flat_map(|text| text.split(',')) {
        let (key, value) = pair.split_once(':').ok_or_else(|| format!("labels: `{pair}` is no K:V"))?;
        tags.labels.insert(key.into(), value.into());
    }
    Ok((!tags.is_empty()).then(|| Box::new(tags)))
}

/// `max_tool_calls=3`, for this run alone.
fn limits(options: &mut Options) -> Result<Option<Box<RunLimits>>, String> {
    let mut limit = |key: &str| -> Result<Option<Limit>, String> {
        let number = |text: String| text.parse().map_err(|_| format!("{key}: `{text}` is no number"));
        Ok(options.take(key).map(number).transpose()?.map(Limit::max))
    };
    let limits = RunLimits {
        max_iterations: limit("max_iterations")?,
        max_tool_calls: limit("max_tool_calls")?,
        max_turns: limit("max_turns")?,
        max_active_duration: limit("max_active_duration")?,
        max_sleep_duration: limit("max_sleep_duration")?,
    };
    Ok((!limits.is_empty()).then(|| Box::new(limits)))
}

fn fleet(text: &str, estimate: Estimate) -> Result<BudgetFinding, String> {
    let (spent, cap) = text.split_once('/').ok_or("fleet=SPENT/CAP")?;
    let usd = |text: &str| nano_usd(text.trim_start_matches('$'));
    let account = BudgetCap::FleetUsdPerDay;
    let stands = (usd(spent)?, 0);
    Ok(BudgetFinding::of(account, stands, estimate.usd.0, estimate.open_usd.0, usd(cap)?))
}

fn response(options: &mut Options) -> Result<ResponseCompleted, String> {
    let request = RequestId(options.id()?);
    let text = options.quoted().unwrap_or_default();
    let ended = if options.flag("broken") { Ended::Failed } else { Ended::Ok };
    let usage = options.usage()?;
    let mut calls = Vec::new();
    while options.flag("call") {
        calls.push((options.next("a tool")?, options.next("arguments")?));
    }
    let calls =
        calls.iter().map(|(tool, args)| (tool.as_str(), args.as_str(), is_test_run(tool, args))).collect();
    Ok(ResponseCompleted {
        request,
        ended,
        print: ResponseFingerprint::of(&ResponseText { text: &text, calls }),
        usage,
        first_byte_ms: None,
    })
}

fn aborted(options: &mut Options) -> Result<StreamAborted, String> {
    let request = RequestId(options.id()?);
    let by = match options.next("by whom")?.as_str() {
        "client" => AbortedBy::Client,
        "upstream" => AbortedBy::Upstream,
        "guard" => AbortedBy::Guard,
        "kill" => AbortedBy::Kill,
        other => return Err(format!("abort: by `{other}`?")),
    };
    Ok(StreamAborted { request, by, usage: options.usage()? })
}

/// Says the unit as often as it says, to the real detector.
fn chant(options: &mut Options) -> Result<ChantDetected, String> {
    let request = RequestId(options.id()?);
    let unit = options.next("what is repeated")?;
    let mut detector = ChantDetector::default();
    let chant = (0..options.id()?).find_map(|_| detector.push(&unit));
    Ok(ChantDetected { request, chant: chant.ok_or("chant: the detector sees none")? })
}

fn tool(options: &mut Options) -> Result<ToolRequested, String> {
    let call = CallId(options.id()?);
    let (tool, args) = (options.next("a tool")?, options.next("arguments")?);
    let (action, test_run) = (signature::action(&tool, &args), is_test_run(&tool, &args));
    let gate = if options.flag("mcp") { ToolGate::Mcp } else { ToolGate::Hook };
    Ok(ToolRequested { call, tool: tool.into(), action, test_run, gate })
}

fn gate(world: &World, options: &mut Options) -> Result<GateView, String> {
    let mut gate = world.system.as_ref().map_or(GateView::OPEN, estop_core::system::System::gate);
    if let Some(state) = options.take("gate") {
        gate.state = system_state(&state)?;
    }
    if let Some(shut) = options.take("shut") {
        gate.shut = channels(&shut)?;
    }
    Ok(gate)
}

pub(super) fn system_state(text: &str) -> Result<SystemState, String> {
    serde_json::from_value(serde_json::json!(text.to_lowercase())).map_err(|e| e.to_string())
}

/// `llm+tools`
pub(super) fn channels(text: &str) -> Result<Channels, String> {
    text.split('+').filter(|name| !name.is_empty()).try_fold(Channels::NONE, |set, name| {
        let channel: Channel = serde_json::from_value(serde_json::json!(name)).map_err(|e| e.to_string())?;
        Ok(set.with(channel))
    })
}

fn system_event(world: &World, options: &mut Options) -> Result<SystemEvent, String> {
    let given =
        options.take("epoch").map(|text| text.parse::<u64>().map_err(|e| e.to_string())).transpose()?;
    let seen = given.unwrap_or_else(|| world.system.as_ref().map_or(0, |system| system.gate().epoch));
    let by = || "ann".into();
    Ok(match options.next("what")?.as_str() {
        "start" => {
            let shut = options.take("shut").map_or(Ok(Channels::NONE), |text| channels(&text))?;
            let state = options.rest.pop_front().map(|word| system_state(&word.text)).transpose()?;
            let found = state.map(|state| GateView { epoch: given.unwrap_or(0), state, shut });
            SystemEvent::Started { found }
        }
        "kill" => {
            let channels =
                options.rest.pop_front().map_or(Ok(Channels::NONE), |word| channels(&word.text))?;
            Press { channels, ..Press::new(KillReason::Manual, "ann", "") }.event()
        }
        "restart" => SystemEvent::RestartRequested { by: by(), epoch: seen, note: None },
        "clear" => SystemEvent::ClearRequested { by: by(), epoch: seen, note: None },
        other => return Err(format!("system: `{other}`?")),
    })
}
