//! Plugins for clients whose hooks are JavaScript: opencode and OpenClaw. They speak the generic form of `estop_wire::hooks`.

/// opencode's plugin, one file.
pub(super) const OPENCODE_PLUGIN: &str = include_str!("plugins/opencode.js");
/// OpenClaw's plugin: its code.
pub(super) const OPENCLAW_PLUGIN: &str = include_str!("plugins/openclaw/index.js");
/// OpenClaw's plugin: its manifest.
pub(super) const OPENCLAW_MANIFEST: &str = include_str!("plugins/openclaw/openclaw.plugin.json");
/// OpenClaw's plugin: its package.
pub(super) const OPENCLAW_PACKAGE: &str = include_str!("plugins/openclaw/package.json");

/// Stands in a plugin where the words of the command belong.
const PLACE: &str = r#"["estop:command"]"#;

/// The plugin with the command that starts estop.
pub(super) fn with_command(plugin: &str, words: &[String]) -> String {
    plugin.replace(PLACE, &serde_json::json!(words).to_string())
}
