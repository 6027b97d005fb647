//! The plugins, run by Node with an estop that misbehaves in every way. Without Node there is nothing to run them.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use estop_cli::install::settings::{Scope, targets};
use estop_wire::hooks::HookClient;

/// Runs the plugin as its client would: one tool call. Says `ran` or `refused: …`, then what the plugin told estop.
fn run(client: HookClient, estop: &str, folder: &Path) -> String {
    let node = std::env::var("NODE").unwrap_or_else(|_| "node".to_owned());
    let words = [node.clone(), "-e".to_owned(), estop.to_owned(), "--".to_owned()];
    let target = targets(client, Scope::User, &words).expect("it has a place").remove(0);
    let plugin = folder.join("plugin.mjs");
    std::fs::write(&plugin, target.add(None).expect("a new file")).expect("the folder is ours");
    let driver = format!(
        r#"import * as plugin from {path};
const kind = {kind};
const state = {{ ran: true, reason: "" }};
if (kind === "opencode") {{
  const hooks = await plugin.EstopPlugin({{ directory: "/home/user/project" }});
  await hooks["chat.message"]({{ sessionID: "s" }}, {{ parts: [{{ type: "text", text: "go" }}] }}).catch(() => {{}});
  try {{ await hooks["tool.execute.before"]({{ tool: "bash", sessionID: "s", callID: "c" }}, {{ args: {{ command: "ls" }} }}); }}
  catch (error) {{ state.ran = false; state.reason = error.message; }}
  const output = {{ output: "out", metadata: {{ exit: 3 }} }};
  await hooks["tool.execute.after"]({{ tool: "bash", sessionID: "s", callID: "c", args: {{}} }}, output);
  await hooks.event({{ event: {{ type: "session.idle", properties: {{ sessionID: "s" }} }} }});
}} else {{
  const on = {{}};
  plugin.default.register({{ on: (name, hook) => {{ on[name] = hook; }} }});
  const event = {{ toolName: "exec", params: {{ command: "ls" }}, toolCallId: "c" }};
  const answer = await on.before_tool_call(event, {{ sessionKey: "s", agentId: "main" }});
  if (answer?.block) {{ state.ran = false; state.reason = answer.blockReason; }}
  await on.after_tool_call({{ ...event, error: "no" }}, {{ sessionKey: "s" }});
}}
console.log(state.ran ? "ran" : "refused: " + state.reason);
"#,
        path = serde_json::json!(plugin),
        kind = serde_json::json!(client.name()),
    );
    let mut child = Command::new(&node)
        .args(["--input-type=module"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Node is installed where these tests run");
    child.stdin.take().expect("piped").write_all(driver.as_bytes()).expect("Node reads its program");
    String::from_utf8(child.wait_with_output().expect("it ends").stdout).expect("text").trim().to_owned()
}

fn check(client: HookClient, estop: &str, expected: &str) {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let run_number = RUNS.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("estop-plugin-{}-{run_number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let said = run(client, estop, &folder);
    std::fs::remove_dir_all(&folder).expect("it was ours");
    assert!(said.starts_with(expected), "{client:?}: {said}");
}

#[test]
fn tl_1_plugins_run_a_tool_only_if_estop_allows_it() {
    for client in [HookClient::Opencode, HookClient::OpenClaw] {
        check(client, r#"console.log(JSON.stringify({permission:"allow"}))"#, "ran");
        check(
            client,
            r#"console.log(JSON.stringify({permission:"deny",reason:"enough"})); process.exitCode = 2"#,
            "refused: enough",
        );
        check(client, r#"console.log("{}")"#, "refused: estop refused this tool call");
        check(client, r#"console.log("null")"#, "refused: estop refused this tool call");
        check(client, r#"console.log("allow")"#, "refused: estop");
        check(client, "process.exit(0)", "refused: estop");
        check(client, "process.exit(1)", "refused: estop");
    }
}

#[test]
fn tl_1_plugins_ask_in_our_own_form() {
    // Answers "allow" only to a payload and a command line as `estop hook` expects them.
    let estop = r#"
const [kind, client, event, mark] = process.argv.slice(-4);
let text = "";
process.stdin.on("data", (piece) => (text += piece)).on("end", () => {
  const said = JSON.parse(text);
  const good = kind === "hook" && mark === "--installed" && said.session === "s" && said.call === "c"
    && said.args.command === "ls" && ["bash", "exec"].includes(said.tool) && event === "pre-tool-use";
  console.log(JSON.stringify({ permission: good ? "allow" : "deny", reason: "wrong " + text }));
});"#;
    for client in [HookClient::Opencode, HookClient::OpenClaw] {
        check(client, estop, "ran");
    }
}
