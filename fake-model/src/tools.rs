//! Which of the declared tools is called, and with what.

use serde_json::{Value, json};

use crate::answer::{ToolCall, ToolKind};
use crate::ask::Tool;
use crate::schema::{COMMAND, fill};

/// Names of tools that run a command line, best first.
const SHELLS: &[&str] = &[
    "bash",
    "shell",
    "shell_command",
    "exec_command",
    "run_shell_command",
    "run_command",
    "run_commands",
    "execute_command",
    "run_terminal_cmd",
    "local_shell",
    "terminal",
    "developer__shell",
    "exec",
    "run_bash",
    "execute_bash",
];

/// A call of the best of these tools; `None` if there are none. A shell is told to run `command`.
pub(crate) fn call_one(tools: &[Tool], command: &str) -> Option<ToolCall> {
    let tool = pick(tools)?;
    let arguments = match tool.kind {
        ToolKind::Function => with_command(fill(&tool.schema, ""), command),
        ToolKind::Custom => json!(free_text(&tool.name, command)),
        ToolKind::LocalShell => json!({"command": ["bash", "-lc", command]}),
    };
    Some(ToolCall { name: tool.name.clone(), arguments, kind: tool.kind, namespace: tool.namespace.clone() })
}

/// The arguments with this command line where the usual one stands.
fn with_command(arguments: Value, command: &str) -> Value {
    match arguments {
        Value::String(text) if text == COMMAND => json!(command),
        Value::Array(items) => items.into_iter().map(|item| with_command(item, command)).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, with_command(value, command))).collect()
        }
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => arguments,
    }
}

fn pick(tools: &[Tool]) -> Option<&Tool> {
    let rank = |tool: &Tool| {
        let name = tool.name.to_lowercase();
        let shell = SHELLS.iter().position(|shell| *shell == name);
        let in_namespace = usize::from(tool.namespace.is_some());
        match (shell, tool.kind) {
            (Some(at), _) => at,
            (None, ToolKind::Function | ToolKind::LocalShell) => SHELLS.len() + in_namespace,
            (None, ToolKind::Custom) => SHELLS.len() + 2,
        }
    };
    tools.iter().filter(|tool| !tool.name.is_empty()).min_by_key(|tool| rank(tool))
}

/// What a custom tool is given. Codex's `exec` runs JavaScript with the other tools in reach, its `apply_patch` wants
/// a patch.
fn free_text(name: &str, command: &str) -> String {
    match name {
        "exec" => {
            let command: Value = json!({"cmd": command});
            format!(
                "const r = await tools.exec_command({command});\ntext(typeof r === \"string\" ? r : JSON.stringify(r));\n"
            )
        }
        "apply_patch" => {
            "*** Begin Patch\n*** Add File: estop-tool-ok.txt\n+estop-tool-ok\n*** End Patch\n".to_owned()
        }
        _ => command.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str) -> Tool {
        Tool::function(
            &json!(name),
            &json!({"type": "object", "required": ["command"], "properties": {"command": {"type": "string"}}}),
        )
    }

    #[test]
    fn a_shell_is_preferred() {
        let call = call_one(&[function("Read"), function("Bash")], "make test").expect("a call");
        assert_eq!((call.name.as_str(), call.arguments), ("Bash", json!({"command": "make test"})));
        assert_eq!(call_one(&[function("Read"), function("Write")], COMMAND).expect("a call").name, "Read");
        assert_eq!(call_one(&[], COMMAND), None);
    }
}
