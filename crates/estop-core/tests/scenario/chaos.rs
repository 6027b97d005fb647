//! Scripts that nobody wrote, from a seed: any event at any time, with few names, so that they meet.

use std::fmt::Write as _;

use super::line::scrambled;

const LINES: usize = 400;

/// A script without expectations.
pub(super) fn script(seed: u64) -> String {
    let mut dice = Dice(scrambled(seed.wrapping_mul(0x0100_0000_01b3)));
    let mut out = String::new();
    let preset = dice.of(&["preset=strict", "preset=watch", "all=enforce", "all=shadow", "all=off"]);
    let _ = writeln!(out, "policy {preset}");
    if dice.below(2) == 0 {
        out.push_str("0s system start\n");
    } else {
        out.push_str("0s system start running\n");
    }
    for _ in 0..LINES {
        let time = time(&mut dice);
        let event = event(&mut dice);
        let _ = writeln!(out, "{time} {event}");
    }
    out
}

/// Numbers that look random and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = scrambled(self.0);
        (self.0 >> 16) % end
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Mostly seconds, sometimes hours, now and then back to the start.
fn time(dice: &mut Dice) -> String {
    match dice.below(100) {
        0..30 => format!("+{}ms", dice.below(900)),
        30..90 => format!("+{}s", dice.below(12)),
        90..96 => format!("+{}m", dice.below(20)),
        96..99 => format!("+{}h", dice.below(9)),
        _ => "0s".to_owned(),
    }
}

fn event(dice: &mut Dice) -> String {
    let id = 1 + dice.below(12);
    let run = dice.of(&["", "", "", "run=r1", "run=r2", "run=r3", "run=r4", "run=r5"]);
    let tokens = dice.of(&["", "", "", "in=100", "in=20000", "out=900", "out=9000", "in=max out=max"]);
    let usd = dice.of(&["", "", "", "usd=$0.10", "usd=$0.20", "usd=$2", "usd=$max"]);
    match dice.below(100) {
        0..30 => {
            let (prompt, step) = (prompt(dice), step(dice));
            let conversation = dice.of(&["conv=a", "conv=a", "conv=b"]);
            let kind = dice.of(&["", "", "", "", "", "kind=embedding", "unpriced", "fleet=$9/$10"]);
            let model = dice.of(&["", "", "model=gpt-5-mini", "model=o3", "issue=7 labels=team:red"]);
            format!("request {id} {prompt} {step} {run} {conversation} {kind} {model} {tokens} {usd}")
        }
        30..50 => {
            let text = dice.of(&["", "\"always the same\"", "\"{words}\"", "broken"]);
            let call = dice.of(&["", "call bash \"cargo test\"", "call read \"f\" call read \"{words}\""]);
            format!("response {id} {text} {call} {tokens} {usd}")
        }
        50..55 => format!("progress {id} {tokens} {usd}"),
        55..59 => format!("abort {id} {} {tokens} {usd}", dice.of(&["client", "upstream", "guard", "kill"])),
        59 if dice.below(4) == 0 => format!("chant {id} \"I should check again. \" 400"),
        59..71 => {
            let tool =
                dice.of(&["bash \"cargo test\"", "read \"f\"", "read \"{words}\"", "report_complete \"x\""]);
            format!("tool {id} {tool} {run}")
        }
        71..80 => {
            format!(
                "finish {id} {} {}",
                dice.of(&["\"ok\"", "\"{words}\""]),
                dice.of(&["", "failed", "failed", "unsure"])
            )
        }
        80..82 => format!("prompt {run}"),
        82..87 => {
            let change = dice.of(&["start", "start attended", "sleep", "wake", "complete", "extend"]);
            format!("{change} {run}")
        }
        87..89 => format!("message {} slack", dice.of(&["in", "out"])),
        89..93 => dice
            .of(&["activate", "activate", "activate", "deactivate", "pause", "resume", "resume"])
            .to_owned(),
        93 => dice.of(&["tick", "wait"]).to_owned(),
        94 => dice
            .of(&[
                "tick",
                "snooze loop 2h",
                "snooze breaker 90s",
                "snooze budget 8d",
                "snooze system 1h",
                "unsnooze loop",
            ])
            .to_owned(),
        95 => system(dice).to_owned(),
        _ => format!("policy {}", policy(dice)),
    }
}

/// Mostly back to work soon, so that something else can happen too.
fn system(dice: &mut Dice) -> &'static str {
    dice.of(&[
        "system kill\n+1s request 9 \"x\"\n+9s system restart\n+1s request 9 \"x\"\n+9s system clear",
        "system kill llm\n+1s request 9 \"x\"\n+9s system clear",
        "system kill tools+messaging\n+1s tool 9 read f\n+9s system clear",
        "system start running",
        "system restart",
        "system clear",
    ])
}

fn prompt(dice: &mut Dice) -> &'static str {
    dice.of(&["\"fix the bug\"", "\"{words}\"", "continues", "continues", ""])
}

fn step(dice: &mut Dice) -> &'static str {
    dice.of(&[
        "",
        "did read f => text",
        "failed read \"{words}\" => error",
        "failed bash \"cargo test\" => \"1 failed\"",
        "did bash \"cargo test\" => passed",
        "did read f => text did read f => text did - ls => files",
    ])
}

fn policy(dice: &mut Dice) -> &'static str {
    dice.of(&[
        "preset=strict",
        "preset=watch",
        "all=shadow",
        "all=off",
        "loops.window_size=5",
        "loops.window_size=100",
        "loops.threshold_tenths=20",
        "loops.profile=batch",
        "gate.loop_window_size=2",
        "gate.loop_window_size=20",
        "gate.max_tokens_per_minute=100",
        "gate.cooldown_duration_ms=1",
        "gate.soft_suspend_threshold=950 gate.hard_stop_threshold=900",
        "limits.max_tool_calls=3 limits.max_turns=4 limits.max_active_duration=60",
        "limits.max_tool_calls=off limits.max_turns=off limits.max_active_duration=off limits.max_sleep_duration=60",
        "budget.usd_per_day=$5 budget.tokens_per_day=100000",
        "budget.usd_per_run=$1 budget.usd_per_month=$50",
        "budget.usd_per_day=null budget.usd_per_run=null budget.tokens_per_day=null",
        "budget.unpriced=deny budget.zone=-11h",
        "rate.requests_per_minute=3",
        "rate.requests_per_minute=null rate.tokens_per_minute=1000",
        "watchdog.max_calls_per_minute=3 watchdog.scope=system",
        "watchdog.max_calls_per_minute=3 watchdog.scope=agent",
        "open=\"mon wed fri 22:00-06:00 +5h\"",
        "models.allow=gpt-5* models.deny=",
        "models.allow= models.deny=gpt-5-pro models=shadow",
    ])
}
