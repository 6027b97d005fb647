//! Every command that estop prints can be copied and works: texts are produced by a running estop, the commands in them are
//! taken out and run as they stand, from another folder.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::house::person::finish;
use crate::house::{Estop, House, ask_with, wait_for};

/// What a text tells people to type: from `estop` to the end of the command.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut rest = line;
        while let Some(at) = rest.find("estop ") {
            let is_word = !rest[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || "-_./".contains(c));
            let tail = &rest[at..];
            let closed = rest[..at].ends_with('`') || rest[..at].ends_with("<code>");
            let end = match closed {
                true => tail.find(['`', '<', '|']).unwrap_or(tail.len()),
                false => end_of_plain(tail),
            };
            if is_word && is_command(&tail[..end]) {
                found.push(tail[..end].trim().to_owned());
            }
            rest = &tail["estop ".len()..];
        }
    }
    found
}

/// A command in a sentence ends with a full stop, a comma, a bracket, or the line.
fn end_of_plain(text: &str) -> usize {
    let mut in_quotes = false;
    for (at, c) in text.char_indices() {
        in_quotes ^= c == '\'';
        let next = text[at + c.len_utf8()..].chars().next();
        let ends = match c {
            '.' | ',' => next.is_none_or(char::is_whitespace),
            '(' | ')' | ';' | '|' | '│' | '"' => true,
            _ => false,
        };
        if ends && !in_quotes {
            return at;
        }
    }
    text.len()
}

fn is_command(text: &str) -> bool {
    const NAMES: [&str; 24] = [
        "agents",
        "runs",
        "incidents",
        "escalations",
        "emergency",
        "kill",
        "status",
        "policy",
        "journal",
        "verify",
        "replay",
        "token",
        "doctor",
        "alerts",
        "spend",
        "prooftest",
        "backup",
        "restore",
        "install",
        "uninstall",
        "serve",
        "run",
        "eval",
        "top",
    ];
    text.split_whitespace().nth(1).is_some_and(|name| NAMES.contains(&name))
}

/// Words as a shell reads them: our commands know no quotes but single ones.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut in_quotes = false;
    for c in command.chars() {
        match c {
            '\'' => in_quotes = !in_quotes,
            ' ' if !in_quotes => words.push(String::new()),
            other => words.last_mut().unwrap().push(other),
        }
    }
    // Two quotes in a row are a word, too; two spaces are none.
    let is_empty_word = command.contains("''");
    words.retain(|word| !word.is_empty() || is_empty_word);
    words
}

/// Runs a command as it stands, in a folder where nothing of estop is.
fn run(command: &str) -> (i32, String) {
    let elsewhere = tempfile::tempdir().unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_estop"));
    process.args(&words(command)[1..]).current_dir(elsewhere.path()).env("HOME", elsewhere.path());
    for variable in ["ESTOP_URL", "ESTOP_TOKEN", "ESTOP_ADMIN_TOKEN", "ESTOP_DATA_DIR", "XDG_STATE_HOME"] {
        process.env_remove(variable);
    }
    let ran = finish(&mut process);
    (ran.code, format!("{}{}", ran.out, ran.err))
}

/// Stops an agent for a loop, brings one to a run limit, and one out of its budget.
fn trouble(estop: &Estop, house: &House) {
    let stopped = (0..30).any(|_| estop.ask("looper", "Is the build done?").unwrap().0 != 200);
    assert!(stopped, "the loop was not stopped");
    for turn in 0..3 {
        estop.ask("talker", &format!("number {turn}")).unwrap();
    }
    estop.ask("spender", "hello").unwrap();
    house.estop(&["agents", "pause", "paused"]).is(0, "paused");
    let asked = |call: u32| {
        let body = serde_json::json!({"agent": "coder", "run": "job", "call": call.to_string(), "tool": "x"});
        house.owner("POST", "/api/hooks/pre-tool-use", &body.to_string())
    };
    (0..2).for_each(|call| drop(asked(call)));
    let body = serde_json::json!({"agent": "coder", "run": "job", "call": "9", "tool": "report_complete"});
    house.owner("POST", "/api/hooks/pre-tool-use", &body.to_string());
    let mut done = body;
    done["result"] = "done".into();
    house.owner("POST", "/api/hooks/post-tool-use", &done.to_string());
}

const RULES: &str = "
policy: {kill_switch_enabled: true}
circuit_breakers: {defaults: {max_tool_calls: 2, max_turns: 3}}
agents:
  looper: {policy: {limits: {max_turns: off}}}
  talker: {policy: {kill_switch_enabled: false}}
  spender: {policy: {budget: {usd_per_day: 0.000001}}}
  paused: {}
  coder: {}";

/// What the API says after trouble.
fn api_texts(house: &House) -> Vec<String> {
    ["/api/agents", "/api/incidents", "/api/escalations"]
        .iter()
        .map(|path| house.owner("GET", path, "").1)
        .map(|json| strings(&serde_json::from_str(&json).unwrap()).join("\n"))
        .collect()
}

/// What commands show after trouble.
fn cli_texts(house: &House) -> Vec<String> {
    let reading: [&[&str]; 8] = [
        &["agents", "list"],
        &["agents", "show", "talker"],
        &["agents", "show", "spender"],
        &["escalations", "list"],
        &["incidents", "list"],
        &["status"],
        &["alerts", "list"],
        &["agents", "kill-switch", "looper"],
    ];
    reading.iter().map(|args| house.estop(args)).map(|ran| format!("{}\n{}\n", ran.out, ran.err)).collect()
}

fn strings(json: &serde_json::Value) -> Vec<String> {
    match json {
        serde_json::Value::String(text) => vec![text.clone()],
        serde_json::Value::Array(all) => all.iter().flat_map(strings).collect(),
        serde_json::Value::Object(all) => all.values().flat_map(strings).collect(),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => Vec::new(),
    }
}

#[test]
fn ui_2_every_command_that_a_running_estop_prints_works_as_printed() {
    let house = House::new(RULES);
    let estop = house.start();
    trouble(&estop, &house);
    wait_for("the escalation", || {
        house.owner("GET", "/api/escalations", "").1.contains("runs extend coder job").then_some(())
    });
    let place = format!("--data-dir {}", house.data().display());
    let told: Vec<String> = api_texts(&house).iter().flat_map(|text| commands(text)).collect();
    assert!(
        told.iter().all(|command| command.ends_with(&place)),
        "what the API says names the place: {told:?}"
    );
    // Whoever typed --data-dir for what the command line shows types it again; messages carry it as the API's texts do.
    let shown = cli_texts(&house).join("\n") + &std::fs::read_to_string(alert_texts()).unwrap();
    let placed = |command: String| match command.contains("--data-dir") {
        true => command,
        false => format!("{command} {place}"),
    };
    let printed: BTreeSet<String> =
        told.into_iter().chain(commands(&shown).into_iter().map(placed)).collect();
    for expected in
        ["agents activate looper", "agents resume paused", "runs extend talker ''", "runs extend coder job"]
    {
        assert!(printed.iter().any(|command| command.contains(expected)), "{expected}: {printed:?}");
    }
    let (_, incidents) = house.owner("GET", "/api/incidents", "");
    let incidents: serde_json::Value = serde_json::from_str(&incidents).unwrap();
    let incident = incidents["incidents"][0]["id"].as_str().unwrap();
    // What lets things go on comes last, and restarting needs a pressed button.
    let (last, first): (Vec<String>, Vec<String>) = printed
        .into_iter()
        .partition(|command| command.contains("emergency ") || command.starts_with("estop kill"));
    for command in first.iter().filter(|command| !command.contains("issue-42")) {
        // Where any agent can be meant, one of these is; and the incident of the alerts' texts is one of this house.
        let command =
            command.replace(" NAME", " looper").replace("show coder-1 ", &format!("show {incident} "));
        let (code, said) = run(&command);
        assert_eq!(code, 0, "{command}\n{said}");
    }
    assert_eq!(estop.ask("talker", "again").unwrap().0, 200, "it was extended as printed");
    for command in last {
        let (code, said) = run(&command);
        assert_ne!(code, 2, "{command}\n{said}");
        assert_ne!(code, 3, "{command}\n{said}");
    }
}

fn alert_texts() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../estop-notify/tests/words.txt")
}

#[test]
fn ui_2_an_implicit_run_at_its_limit_is_extended_as_its_state_says() {
    let house = House::new("circuit_breakers: {defaults: {max_turns: 6}}");
    let estop = house.start();
    for turn in 0..10 {
        estop.ask("chat", &format!("number {turn}")).unwrap();
    }
    assert_eq!(estop.ask("chat", "refused").unwrap().0, 400);
    let shown = house.estop(&["agents", "show", "chat"]);
    let told = commands(&shown.out);
    assert_eq!(told.len(), 1, "{}", shown.out);
    let (code, said) = run(&told[0]);
    assert_eq!(code, 0, "{}: {said}", told[0]);
    assert_eq!(estop.ask("chat", "goes on").unwrap().0, 200);
    estop.end();
    house.verified();
}

#[test]
fn tl_2_the_end_of_a_run_prints_commands_that_work() {
    let house = House::new("");
    let estop = house.start();
    let limit = ["--limit", "max_active_duration=1", "--", "sleep", "3"];
    let args = [&["run", "--data-dir", "data", "--agent", "w"][..], &limit].concat();
    let ran = finish(&mut house.command(&args));
    let told = commands(&ran.err);
    let extend = told.iter().find(|command| command.contains("runs extend w ")).expect(&ran.err);
    let (code, said) = run(extend);
    assert_eq!(code, 0, "{extend}: {said}");
    for command in told.iter().filter(|command| command.contains("escalations")) {
        assert_eq!(run(command).0, 0, "{command}");
    }
    drop(estop);
}

/// Literals in the sources that name a command: each must parse. What is filled in stands there as a word.
#[test]
fn ui_2_every_command_named_in_the_sources_parses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for part in [
        "estop/src",
        "estop-cli/src",
        "estop-config/src",
        "estop-daemon/src",
        "estop-supervise/src",
        "estop-admin/src",
        "estop-admin/templates",
        "estop-notify/src",
        "estop-gateway/src",
        "estop-wire/src",
        "estop-core/src",
        "estop-store/src",
    ] {
        collect(&root.join(part), &mut files);
    }
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("none");
    let mut checked = 0;
    for file in files.iter().filter(|file| !file.ends_with("tests.rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for command in marked(line) {
                let words = words(&filled(&command));
                let name = words[1].clone();
                let mut process = Command::new(env!("CARGO_BIN_EXE_estop"));
                process.args(&words[1..]);
                // Whatever would change this machine only shows its help; no estop is where the others look.
                if ["serve", "run", "install", "uninstall", "restore", "mcp", "hook"].contains(&&*name) {
                    process.arg("--help");
                } else if ["verify", "replay", "eval"].contains(&&*name) {
                    process.arg(&nowhere);
                } else {
                    process.arg("--data-dir").arg(&nowhere);
                }
                let ran = finish(&mut process);
                // One that is only named may lack what it is given.
                let is_wrong = ["unrecognized subcommand", "unexpected argument", "invalid value"]
                    .iter()
                    .any(|said| ran.err.contains(said));
                assert!(!is_wrong, "{}: {command}\n{}", file.display(), ran.err);
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "only {checked} commands were found");
}

/// Commands of the documents, those of code blocks and those in the text, and the examples of every help: each parses with the
/// real command line. `--help` at their end keeps them from doing anything; what is wrong before it is said all the same.
#[test]
fn ui_2_every_command_of_the_documents_and_of_the_help_parses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found: BTreeSet<(String, String)> = BTreeSet::new();
    let documents = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    for path in documents.chain([root.join("README.md"), root.join("CONTRIBUTING.md")]) {
        if path.extension().is_some_and(|ext| ext == "md") {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            found.extend(of_document(&text).into_iter().map(|command| (command, name.clone())));
        }
    }
    let of_documents = found.len();
    let mut helps = vec![Vec::new()];
    while let Some(names) = helps.pop() {
        let (code, help) = help_of(&names);
        assert_eq!(code, 0, "estop {} --help: {help}", names.join(" "));
        let examples = help.lines().map(str::trim).filter(|line| line.starts_with("estop "));
        let place = format!("estop {} --help", names.join(" "));
        found.extend(examples.map(|line| (without_comment(line).to_owned(), place.clone())));
        helps.extend(subcommands(&help).into_iter().map(|name| [&names[..], &[name]].concat()));
    }
    let root_help = help_of(&[]).1;
    let known = subcommands(&root_help);
    // A sentence may begin with `estop`, too.
    found.retain(|(command, place)| {
        let name = command.split_whitespace().nth(1).unwrap_or_default();
        !place.ends_with("--help") || known.iter().any(|known| known == name)
    });
    assert!(
        known.len() > 20 && of_documents > 100 && found.len() > of_documents,
        "{of_documents} of {} commands",
        found.len()
    );
    let mut wrong = Vec::new();
    for (command, place) in &found {
        if command.contains(['…', '[', '|', '\\', '$']) || command.contains("COMMAND") {
            continue;
        }
        let mut words = shell_words(&filled(&without_places(command)));
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        words.insert(end, "--help".to_owned());
        let ran = finish(Command::new(env!("CARGO_BIN_EXE_estop")).args(&words[1..]));
        // One that is only named may lack what it is given.
        let said = ["unrecognized subcommand", "unexpected argument", "invalid value", "cannot be used with"];
        if said.iter().any(|said| ran.err.contains(said)) {
            wrong.push(format!("{place}: {command}: {}", ran.err.lines().next().unwrap_or_default()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Commands of a document: lines of code blocks for a shell, and what stands in backticks.
fn of_document(text: &str) -> Vec<String> {
    let (mut found, mut fence) = (Vec::new(), None);
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(language.to_owned()) };
        } else if fence.as_deref().is_some_and(|language| ["sh", "bash", "console"].contains(&language)) {
            for part in without_comment(line).split(['|', ';']).flat_map(|part| part.split("&&")) {
                let part = part.trim().trim_start_matches("$ ");
                // Variables before a command, and files after it, are the shell's.
                let command = part.find("estop ").filter(|at| {
                    part[..*at].split_whitespace().all(|word| word.contains('=') && !word.contains('/'))
                });
                let command = command.and_then(|at| part[at..].split(['<', '>']).next());
                found.extend(command.map(|command| command.trim_end_matches(" 2").trim().to_owned()));
            }
        } else if fence.is_none() {
            found.extend(
                line.split('`')
                    .skip(1)
                    .step_by(2)
                    .filter(|code| code.starts_with("estop "))
                    .map(|code| code.split(" < ").next().unwrap_or_default())
                    .map(|code| code.split(" > ").next().unwrap_or_default().to_owned()),
            );
        }
    }
    found.retain(|command| is_command(command) || subcommand_exists(command));
    found
}

fn subcommand_exists(command: &str) -> bool {
    command
        .split_whitespace()
        .nth(1)
        .is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()) && name != "help")
}

fn without_comment(line: &str) -> &str {
    line.split(" #").next().unwrap_or_default().split("  ").next().unwrap_or_default().trim()
}

/// `<…>` as a word.
fn without_places(command: &str) -> String {
    let mut out = String::new();
    let mut rest = command;
    while let Some((before, after)) = rest.split_once('<') {
        out += before;
        out.push('x');
        rest = after.split_once('>').map_or("", |(_, rest)| rest);
    }
    out + rest
}

/// Words as a shell reads them, with both kinds of quotes.
fn shell_words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in command.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

pub(crate) fn help_of(names: &[String]) -> (i32, String) {
    let ran = finish(Command::new(env!("CARGO_BIN_EXE_estop")).args(names).arg("--help"));
    (ran.code, format!("{}{}", ran.out, ran.err))
}

/// The commands that a help lists: before its options, two spaces before each name.
pub(crate) fn subcommands(help: &str) -> Vec<String> {
    let lists = help.split("\nOptions:").next().unwrap_or_default();
    let named = lists.lines().filter_map(|line| line.strip_prefix("  "));
    let named = named.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
    let names = named.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Commands in backticks or `<code>`, whole on their line.
fn marked(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (begin, end) in [("`estop ", '`'), ("<code>estop ", '<')] {
        for (at, _) in line.match_indices(begin) {
            let command = &line[at + begin.len() - "estop ".len()..];
            let Some(end) = command.find(end) else { continue };
            let is_whole = !command[..end].contains(['…', '|', '\\', '"']) && is_command(&command[..end]);
            found.extend(is_whole.then(|| command[..end].to_owned()));
        }
    }
    found
}

/// Placeholders as words; what a pair of braces holds may be options, too.
fn filled(command: &str) -> String {
    let mut out = String::new();
    let mut rest = command;
    while let Some(at) = rest.find('{') {
        out += &rest[..at];
        let end = rest[at..].find('}').map_or(rest.len(), |end| at + end + 1);
        let inner = rest[at..end].trim_matches(['{', '}', ' ']);
        out += match inner {
            "words" | "0" | "name" if rest[..at].ends_with("install ") => "codex",
            "scope" => "user",
            _ if rest[..at].ends_with("--scope ") => "user",
            _ if rest[..at].ends_with("--on-unreachable ") => "deny",
            "current" => "day",
            _ => "x",
        };
        rest = &rest[end..];
    }
    (out + rest).replace("CLIENT", "codex").replace("FILE", "/nonexistent").replace("NAME", "x")
}

fn collect(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|ext| ext == "rs" || ext == "html") {
            files.push(path);
        }
    }
}

#[test]
fn ev_2_an_agent_is_shown_as_what_its_next_request_gets() {
    let hour = (jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).hour() + 12) % 24;
    let house = House::new(&format!(
        "policy: {{kill_switch_enabled: true}}
agents:
  talker: {{policy: {{kill_switch_enabled: false, limits: {{max_turns: 2}}}}}}
  spender: {{policy: {{kill_switch_enabled: false, budget: {{tokens_per_day: 1300}}}}}}
  large: {{policy: {{budget: {{usd_per_day: 0.000001}}}}}}
  nightly: {{policy: {{allowed_hours: {{from: \"{hour:02}:00\", to: \"{hour:02}:30\"}}}}}}
  slow: {{policy: {{rate_limit: {{requests_per_minute: 1}}}}}}
  calm: {{}}"
    ));
    let estop = house.start();
    for agent in ["large", "slow", "calm", "nightly"] {
        estop.ask(agent, "hello").unwrap();
    }
    let spent = (0..100).any(|n| estop.ask("spender", &format!("question {n}")).unwrap().0 == 400);
    assert!(spent, "its budget ends");
    (0..6).for_each(|turn| drop(estop.ask("talker", &format!("number {turn}"))));
    let state = |agent: &str| {
        let (_, body) = house.owner("GET", &format!("/api/agents/{agent}"), "");
        let agent: serde_json::Value = serde_json::from_str(&body).unwrap();
        agent["state"].clone()
    };
    for (agent, kind, next) in [
        ("talker", "at_run_limit", 400),
        ("spender", "budget_spent", 400),
        ("nightly", "outside_hours", 400),
        ("slow", "rate_limited", 429),
        ("calm", "active", 200),
    ] {
        let shown = state(agent);
        assert_eq!(shown["kind"], kind, "{agent}: {shown}");
        assert_eq!(estop.ask(agent, "next").unwrap().0, next, "{agent}: {shown}");
        assert_eq!(shown["until"].is_null(), agent == "calm", "{agent}: {shown}");
    }
    let large = state("large");
    assert!(large["until"].is_null() && large["label"] == "request over budget", "no wait helps: {large}");
    assert_eq!(
        state("nightly")["label"].as_str().unwrap().rsplit(' ').next(),
        Some(&*format!("{hour:02}:00"))
    );
    let listed = house.estop(&["agents", "list"]).out;
    let at = |name: &str| listed.find(name).unwrap_or_else(|| panic!("{name}: {listed}"));
    assert!(at("talker") < at("calm") && at("spender") < at("calm"), "troubled first: {listed}");
    for label in ["at run limit", "budget spent", "outside hours until", "rate limited"] {
        assert!(listed.contains(label), "{label}: {listed}");
    }
    house.estop(&["status"]).is(0, "1 at run limit").is(0, "2 budget spent").is(0, "1 outside hours");

    house.estop(&["agents", "activate", "talker"]).is(0, "Agent talker was reactivated by owner.");
    assert_eq!(estop.ask("talker", "goes on").unwrap().0, 200, "activating releases the run nobody began");

    house.estop(&["kill"]).is(0, "");
    for agent in ["talker", "calm"] {
        assert_eq!(state(agent)["kind"], "shut", "{agent}");
    }
    let stopped = house.estop(&["status"]);
    assert!(stopped.out.contains("0 of 6 running"), "{}", stopped.out);
    let activated = house.estop(&["agents", "activate", "calm"]);
    activated.is(0, "still refused (shut down)");
    let (ready, said) = house.owner("GET", "/readyz", "");
    assert_eq!(ready, 503, "{said}");
    assert!(said.contains("shutdown"), "{said}");
    drop(estop);
}

#[test]
fn st_1_an_export_of_a_running_estop_is_sealed_and_replays() {
    let house = House::new("data_dir: data");
    let estop = house.start();
    for turn in 0..5 {
        estop.ask("coder", &format!("number {turn}")).unwrap();
    }
    let journal = house.folder.path().join("j.jsonl");
    house.estop(&["journal", "export", "--output", "j.jsonl"]).is(0, "");
    finish(&mut house.command(&["verify", "j.jsonl"])).is(0, "sealed");
    finish(&mut house.command(&["replay", "j.jsonl"])).is(0, "Equal");
    std::fs::write(house.folder.path().join("strict.yaml"), "preset: strict\n").unwrap();
    let judged = finish(&mut house.command(&["replay", "j.jsonl", "--policy", "strict.yaml", "--json"]));
    assert_eq!(judged.code, 0, "{}", judged.err);
    let spent = &judged.json()["agents"]["coder"]["spent"]["usd"];
    // The books are some milliseconds behind.
    let booked = wait_for("what was booked", || {
        let spend = house.estop(&["spend", "--by", "agent", "--json"]).json();
        let sum = spend["spend"].as_array().unwrap().iter().find(|sum| sum["key"] == "coder").cloned();
        sum.filter(|sum| sum["usd"].as_f64() >= spent.as_f64())
    });
    assert_eq!(spent.as_f64(), booked["usd"].as_f64(), "both in dollars");

    // As the incident's page says it.
    let piped = format!("'{0}' journal export --data-dir data | '{0}' verify", env!("CARGO_BIN_EXE_estop"));
    let ran = Command::new("sh").args(["-c", &piped]).current_dir(house.folder.path()).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    // A cut copy is noticed as before.
    let text = std::fs::read_to_string(&journal).unwrap();
    let cut = &text[..text[..text.len() - 1].rfind('\n').unwrap() + 1];
    house.estop_reading_plain(&["verify"], cut).is(1, "does not end with the last line of a segment");
    estop.kill_9();
    let estop = house.start();
    assert_eq!(estop.ask("coder", "still there").unwrap().0, 200);
    estop.end();
    house.verified();
}

#[test]
fn ks_3_a_start_while_shut_down_says_so_and_kills_leave_a_line() {
    let house = House::new("");
    let (estop, said) = house.start_heard();
    let secret = "hunter2-in-a-note";
    let (status, _) = house.owner("POST", "/api/emergency/kill", &format!("{{\"note\": \"{secret}\"}}"));
    assert_eq!(status, 200);
    estop.end();
    let first = said.join().unwrap();
    assert!(first.contains("EVERYTHING IS STOPPED: manual, by "), "{first}");
    assert!(!first.contains(secret), "{first}");
    let (estop, said) = house.start_heard();
    estop.end();
    let second = said.join().unwrap();
    assert!(second.contains("System was shut down: manual"), "{second}");
    let told = commands(&second);
    let data = format!("--data-dir {}", house.data().display());
    assert!(told.iter().all(|command| command.ends_with(&data)), "{told:?}");
    assert_eq!(told.len(), 2, "{second}");
}

#[test]
fn ev_3_extending_a_run_resolves_its_escalation_and_activating_resolves_incidents() {
    let house = House::new(RULES);
    let estop = house.start();
    trouble(&estop, &house);
    let open = |what: &str| {
        let (_, body) = house.owner("GET", &format!("/api/{what}?status=open"), "");
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        body[what].as_array().unwrap().len()
    };
    wait_for("both", || (open("escalations") == 1 && open("incidents") == 1).then_some(()));
    let listed = house.estop(&["escalations", "list", "--json"]).json();
    let id = listed["escalations"][0]["id"].as_str().unwrap().to_owned();
    house.estop(&["escalations", "resolve", &id, "--note", "looked"]).is(0, "the run stays at its limit");
    let refused = ask_with(estop.address, "coder", "x", "x-estop-run: job\r\n").unwrap();
    assert_eq!(refused.0, 400, "resolving releases nothing");
    let reopened = house.owner("PATCH", &format!("/api/escalations/{id}"), "{\"status\": \"open\"}");
    assert_eq!(reopened.0, 200, "{}", reopened.1);
    house.estop(&["runs", "extend", "coder", "job"]).is(0, &format!("Resolved with it: escalation {id}."));
    assert_eq!(open("escalations"), 0);
    assert_eq!(ask_with(estop.address, "coder", "x", "x-estop-run: job\r\n").unwrap().0, 200);
    house.estop(&["agents", "activate", "looper"]).is(0, "Resolved with it: incident looper-");
    assert_eq!(open("incidents"), 0);
    house.estop(&["runs", "extend", "coder", "unknown"]).is(1, "");
    let events = house.owner("GET", "/api/events?agent=coder&type=run_extended", "").1;
    assert!(!events.contains("\"run\":\"unknown\""), "what was refused is not told: {events}");
    drop(estop);
}

#[test]
fn po_5_setting_one_limit_does_not_lock_out_a_chat_by_another() {
    let house = House::new("circuit_breakers: {defaults: {max_tool_calls: 60}}");
    let estop = house.start();
    let passed =
        (0..70).filter(|n| estop.ask("chat", &format!("question {n} of {}", n * 7919)).unwrap().0 == 200);
    assert_eq!(passed.count(), 70, "max_turns was set by nobody");
    drop(estop);
}
