//! Whether a client's file has entries of ours, of any kind: hooks, MCP servers behind the gate, trust in our hooks.

use std::path::Path;

use estop_wire::hooks::HookClient;

use super::settings::{Removed, Scope, mcp_locations, targets};
use super::{codex, mcp, paths};

/// Whether something of ours stands in this text of this file.
pub(super) fn stand_in(client: HookClient, path: &Path, text: &str) -> bool {
    let is_here = |place: &str| paths::resolved(place).is_ok_and(|resolved| resolved == path);
    [Scope::User, Scope::Project, Scope::System].into_iter().any(|scope| {
        // Our commands are known by their end, whatever the words before it are.
        let hooks = targets(client, scope, &["estop".to_owned()]).unwrap_or_default();
        let mut hooks = hooks.iter().filter(|target| is_here(&target.path));
        let servers = mcp_locations(client, scope).unwrap_or_default();
        let mut servers = servers.iter().filter(|place| is_here(place.path));
        hooks.any(|target| target.remove(text).is_ok_and(|removed| removed != Removed::Unchanged))
            || servers.any(|place| mcp::has_gated(place, text))
    }) || (super::needs_trust(client) && codex::trusts_ours(text))
}
