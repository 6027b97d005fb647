//! Which files hold each client's hooks, by scope, and what we write into them.

use estop_wire::hooks::{HookClient, HookEvent};

use super::entries::Entries;
use super::owned_file::OwnedFile;
use super::{Content, INSTALLED, Target, UnsupportedScope, command_line, mark};
use crate::clients::{Descriptor, HookForm, PluginFile, Scope, TIMEOUT_S};

/// Stands in a plugin where the words of the command belong.
const COMMAND_PLACE: &str = r#"["estop:command"]"#;

/// Whether a file in a repository cannot switch these hooks off.
pub fn survives_repository(client: HookClient, scope: Scope) -> bool {
    scope == Scope::System && Descriptor::of(client).is_some_and(|descriptor| descriptor.system_hooks_survive)
}

/// The files to change so that a client asks estop. `estop` are the words that start it.
pub fn targets(client: HookClient, scope: Scope, estop: &[String]) -> Result<Vec<Target>, UnsupportedScope> {
    let place = Descriptor::of(client).and_then(|found| Some((found, found.hooks.of(scope)?)));
    let (descriptor, path) = place.ok_or(UnsupportedScope { client, scope })?;
    let whole = |path: String, text: String, mark: &str| Target {
        path,
        is_executable: false,
        content: Content::OwnedFile(OwnedFile { text, mark: mark.to_owned() }),
    };
    Ok(match descriptor.hook_form {
        HookForm::Entries { template, entry, system_switch, .. } => {
            let entry = |(name, event): (&'static str, HookEvent)| {
                let command = serde_json::json!(command_line(estop, client, name)).to_string();
                (name, entry(event, &command))
            };
            let entries = Entries {
                client,
                template,
                entries: descriptor.registered().map(entry).collect(),
                switch: system_switch.filter(|_| scope == Scope::System),
            };
            vec![Target { path: path.to_owned(), is_executable: false, content: Content::Entries(entries) }]
        }
        HookForm::OwnFile => {
            let mark = format!(" hook {} preToolUse {INSTALLED}", client.name());
            vec![whole(path.to_owned(), own_file(descriptor, estop), &mark)]
        }
        HookForm::Scripts => {
            descriptor.registered().map(|(event, _)| script(client, path, event, estop)).collect()
        }
        HookForm::Plugin(files) => {
            let file = |file: &PluginFile| {
                let path =
                    if file.name.is_empty() { path.to_owned() } else { format!("{path}/{}", file.name) };
                whole(path, with_command(file.text, estop), file.mark)
            };
            files.iter().map(file).collect()
        }
    })
}

/// The plugin with the command that starts estop.
fn with_command(plugin: &str, words: &[String]) -> String {
    plugin.replace(COMMAND_PLACE, &serde_json::json!(words).to_string())
}

/// A file of its own in Copilot's folder of hooks.
fn own_file(descriptor: &'static Descriptor, estop: &[String]) -> String {
    let hook = |(event, _): (&str, HookEvent)| {
        let command = serde_json::json!(command_line(estop, descriptor.client, event));
        let keys = format!(r#""type": "command", "bash": {command}, "powershell": {command}"#);
        format!(r#"    "{event}": [{{{keys}, "timeoutSec": {TIMEOUT_S}}}]"#)
    };
    let hooks: Vec<String> = descriptor.registered().map(hook).collect();
    format!("{{\n  \"version\": 1,\n  \"hooks\": {{\n{}\n  }}\n}}\n", hooks.join(",\n"))
}

/// One program for each event, named like it.
fn script(client: HookClient, folder: &str, event: &str, estop: &[String]) -> Target {
    let (name, command) = (client.name(), command_line(estop, client, event));
    let text = format!(
        "#!/bin/sh\n# Installed by `estop install {name}`; `estop uninstall {name}` removes it.\nexec {command}\n"
    );
    let content = Content::OwnedFile(OwnedFile { text, mark: mark(client, event) });
    Target { path: format!("{folder}/{event}"), is_executable: true, content }
}
