//! `estop uninstall CLIENT`: takes out exactly what `estop install` put in.

use super::Exit;
use super::install::{self, McpArgs, WhereArgs};

/// Remove estop's hooks from a coding agent's settings
#[derive(Debug, clap::Args)]
pub struct Args {
    /// claude-code, codex, gemini-cli, copilot, cline, qwen, cursor, opencode or openclaw; or `mcp`, for a client's MCP
    /// servers
    client: String,
    #[command(flatten)]
    mcp: McpArgs,
    #[command(flatten)]
    where_from: WhereArgs,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    install::remove(&args.client, &args.mcp, &args.where_from)
}
