//! Which role each route needs. The only place that says so: the guard refuses what is not in here, and a test holds
//! it against the OpenAPI document.

use estop_store::TokenRole;

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Whoever can reach the port.
    Anyone,
    /// A person with at least this role. Keys of agents open nothing here.
    Role(TokenRole),
    /// A person with a token of at least this role, also over the owner's socket: unlocking is hard (KS-5).
    Token(TokenRole),
    /// A person with at least this role, or an agent by its key, about itself alone.
    Agent(TokenRole),
    /// The same, or a run by its ticket, about itself alone.
    Ticket(TokenRole),
}

impl Needs {
    /// The role a person needs; `None` = nobody is asked.
    pub(crate) fn role(self) -> Option<TokenRole> {
        match self {
            Needs::Anyone => None,
            Needs::Role(role) | Needs::Token(role) | Needs::Agent(role) | Needs::Ticket(role) => Some(role),
        }
    }
}

const ANYONE: Needs = Needs::Anyone;
const VIEWER: Needs = Needs::Role(TokenRole::Viewer);
const OPERATOR: Needs = Needs::Role(TokenRole::Operator);
const ADMIN: Needs = Needs::Role(TokenRole::Admin);
const ADMIN_TOKEN: Needs = Needs::Token(TokenRole::Admin);
const AGENT: Needs = Needs::Agent(TokenRole::Operator);
const TICKET: Needs = Needs::Ticket(TokenRole::Operator);

/// Every route: path, and who may call each of its methods.
pub(crate) const ROUTES: &[(&str, &[(&str, Needs)])] = &[
    ("/healthz", &[("GET", ANYONE)]),
    ("/readyz", &[("GET", ANYONE)]),
    ("/metrics", &[("GET", VIEWER)]),
    ("/api/openapi.json", &[("GET", ANYONE)]),
    ("/api/docs", &[("GET", ANYONE)]),
    ("/api/docs.css", &[("GET", ANYONE)]),
    ("/api/session", &[("POST", ANYONE), ("GET", VIEWER), ("DELETE", VIEWER)]),
    ("/api/sessions", &[("GET", ADMIN)]),
    ("/api/sessions/{id}", &[("DELETE", ADMIN)]),
    ("/api/agents", &[("GET", VIEWER), ("POST", ADMIN)]),
    ("/api/agents/{id}", &[("GET", VIEWER), ("PATCH", ADMIN), ("DELETE", ADMIN)]),
    ("/api/agents/{id}/activate", &[("POST", OPERATOR)]),
    ("/api/agents/{id}/deactivate", &[("POST", OPERATOR)]),
    ("/api/agents/{id}/pause", &[("POST", OPERATOR)]),
    ("/api/agents/{id}/resume", &[("POST", OPERATOR)]),
    ("/api/agents/{id}/snooze", &[("POST", ADMIN), ("DELETE", OPERATOR)]),
    ("/api/agents/{id}/recording", &[("POST", ADMIN), ("DELETE", OPERATOR)]),
    ("/api/recordings", &[("GET", VIEWER)]),
    ("/api/agents/{id}/kill-switch", &[("GET", VIEWER), ("PATCH", ADMIN)]),
    ("/api/agents/{id}/score", &[("GET", VIEWER)]),
    ("/api/agents/{id}/backtest", &[("POST", VIEWER)]),
    ("/api/agents/{id}/policy", &[("GET", VIEWER), ("PUT", ADMIN), ("PATCH", ADMIN), ("DELETE", ADMIN)]),
    ("/api/agents/{id}/keys", &[("GET", ADMIN), ("POST", ADMIN)]),
    ("/api/agents/{id}/keys/{key_id}", &[("DELETE", ADMIN)]),
    ("/api/policy/check", &[("POST", VIEWER)]),
    ("/api/presets", &[("GET", VIEWER)]),
    ("/api/preset", &[("GET", VIEWER), ("PUT", ADMIN), ("DELETE", ADMIN)]),
    ("/api/runs", &[("GET", VIEWER), ("POST", AGENT)]),
    ("/api/runs/watch", &[("POST", TICKET)]),
    ("/api/runs/{id}", &[("GET", VIEWER)]),
    ("/api/runs/{id}/activate", &[("POST", OPERATOR)]),
    ("/api/runs/{id}/sleep", &[("POST", TICKET)]),
    ("/api/runs/{id}/wake", &[("POST", TICKET)]),
    ("/api/runs/{id}/complete", &[("POST", AGENT)]),
    ("/api/runs/{id}/extend", &[("POST", OPERATOR)]),
    ("/api/hooks/session-start", &[("POST", TICKET)]),
    ("/api/hooks/prompt-submit", &[("POST", TICKET)]),
    ("/api/hooks/pre-tool-use", &[("POST", TICKET)]),
    ("/api/hooks/post-tool-use", &[("POST", TICKET)]),
    ("/api/hooks/turn-end", &[("POST", TICKET)]),
    ("/api/hooks/subagent-end", &[("POST", TICKET)]),
    ("/api/hooks/session-end", &[("POST", TICKET)]),
    ("/api/hooks/{client}/{event}", &[("POST", TICKET)]),
    ("/api/tokens", &[("GET", ADMIN), ("POST", ADMIN)]),
    ("/api/tokens/{id}", &[("DELETE", ADMIN)]),
    ("/api/events", &[("GET", VIEWER)]),
    ("/api/events/{seq}/evidence", &[("GET", VIEWER), ("DELETE", ADMIN)]),
    ("/api/journal/checkpoint", &[("POST", OPERATOR)]),
    ("/api/journal/export", &[("GET", OPERATOR)]),
    ("/api/journal/verify", &[("GET", OPERATOR)]),
    ("/api/incidents", &[("GET", VIEWER)]),
    ("/api/incidents/{id}", &[("GET", VIEWER), ("PATCH", OPERATOR)]),
    ("/api/incidents/{id}/evidence", &[("DELETE", ADMIN)]),
    ("/api/incidents/{id}/mute", &[("POST", ADMIN), ("DELETE", ADMIN)]),
    ("/api/escalations", &[("GET", VIEWER)]),
    ("/api/escalations/{id}", &[("GET", VIEWER), ("PATCH", OPERATOR)]),
    ("/api/alerts/channels", &[("GET", VIEWER)]),
    ("/api/alerts/channels/{name}/test", &[("POST", OPERATOR)]),
    ("/api/alerts/deliveries", &[("GET", VIEWER)]),
    ("/api/alerts/rules", &[("GET", VIEWER)]),
    ("/api/alerts/rules/{id}", &[("GET", VIEWER), ("PUT", ADMIN), ("DELETE", ADMIN)]),
    ("/api/alerts/mutes", &[("GET", VIEWER), ("POST", OPERATOR)]),
    ("/api/alerts/mutes/{id}", &[("GET", VIEWER), ("PUT", OPERATOR), ("DELETE", OPERATOR)]),
    ("/api/spend", &[("GET", VIEWER)]),
    ("/api/budgets/renew", &[("POST", ADMIN)]),
    ("/api/stats", &[("GET", VIEWER)]),
    ("/api/background", &[("GET", VIEWER)]),
    ("/api/emergency/status", &[("GET", VIEWER)]),
    ("/api/emergency/kill", &[("POST", OPERATOR)]),
    ("/api/emergency/restart", &[("POST", ADMIN_TOKEN)]),
    ("/api/emergency/clear", &[("POST", ADMIN_TOKEN)]),
    ("/api/emergency/heartbeat", &[("POST", OPERATOR)]),
    ("/api/emergency/prooftest", &[("POST", OPERATOR)]),
];

/// The methods of a path; `None` = the table does not know it.
pub(crate) fn methods_of(path: &str) -> Option<&'static [(&'static str, Needs)]> {
    ROUTES.iter().find(|(known, _)| *known == path).map(|(_, methods)| *methods)
}

/// Who may call this. `HEAD` is a `GET` without its answer.
pub(crate) fn needs(methods: &[(&str, Needs)], method: &str) -> Option<Needs> {
    let method = if method == "HEAD" { "GET" } else { method };
    methods.iter().find(|(known, _)| *known == method).map(|(_, needs)| *needs)
}

/// For the `Allow` header.
pub(crate) fn allow(methods: &[(&str, Needs)]) -> String {
    let mut names: Vec<&str> = methods.iter().map(|(method, _)| *method).collect();
    if names.contains(&"GET") {
        names.push("HEAD");
    }
    names.join(", ")
}
