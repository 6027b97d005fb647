//! The OpenAPI document (UI-3): put together from the handlers, completed with what is the same everywhere: who may
//! call each route, and which problems it can answer.

mod docs;

use std::sync::LazyLock;

use axum::Router;
use bytes::Bytes;
use estop_core::guard::Guard;
use serde_json::{Value, json};
use utoipa::PartialSchema;
use utoipa::openapi::{InfoBuilder, OpenApiBuilder};
use utoipa_axum::router::OpenApiRouter;

use crate::access::{Needs, ROUTES, role_name};
use crate::problem::{FieldError, Kind, ProblemOut};
use crate::state::App;
use crate::{
    admin_tokens, agents, alerts, background, backtest, budgets, cases, emergency, events, health, hooks,
    journal, keys, metrics, mute, policy, presets, prooftest, recordings, runs, sessions, spend,
};

/// Every handler with its part of the document.
fn routes() -> OpenApiRouter<App> {
    let info = InfoBuilder::new()
        .title("estop")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("Looking and steering. Errors are problem documents (RFC 9457)."));
    OpenApiRouter::with_openapi(OpenApiBuilder::new().info(info).build())
        .merge(emergency::routes())
        .merge(background::routes())
        .merge(prooftest::routes())
        .merge(agents::routes())
        .merge(agents::kill_switch::routes())
        .merge(backtest::routes())
        .merge(policy::routes())
        .merge(presets::routes())
        .merge(hooks::routes())
        .merge(runs::routes())
        .merge(recordings::routes())
        .merge(keys::routes())
        .merge(admin_tokens::routes())
        .merge(sessions::routes())
        .merge(events::routes())
        .merge(journal::routes())
        .merge(cases::routes())
        .merge(mute::routes())
        .merge(alerts::routes())
        .merge(spend::routes())
        .merge(budgets::routes())
        .merge(health::routes())
        .merge(metrics::routes())
        .merge(docs::routes())
}

/// The handlers.
pub(crate) fn handlers() -> Router<App> {
    routes().into()
}

/// The document, written once.
pub(crate) struct Document {
    pub(crate) value: Value,
    pub(crate) bytes: Bytes,
}

pub(crate) static DOCUMENT: LazyLock<Document> = LazyLock::new(|| {
    let mut value = serde_json::to_value(routes().into_openapi()).unwrap_or_default();
    complete(&mut value);
    let bytes = serde_json::to_vec_pretty(&value).unwrap_or_default().into();
    Document { value, bytes }
});

fn complete(document: &mut Value) {
    let schemas = &mut document["components"]["schemas"];
    schemas["Problem"] = schema::<ProblemOut<'_>>();
    schemas["FieldError"] = schema::<FieldError>();
    schemas["PolicyRules"] = policy::policy_schema();
    schemas["PolicyChange"] = policy::change_schema();
    schemas["TimeZone"] = policy::zone_schema();
    let snoozable: Vec<&str> = Guard::snoozable().map(Guard::name).collect();
    let pattern = json!(format!("^({})$", snoozable.join("|")));
    schemas["SnoozeIn"]["properties"]["guard"]["pattern"] = pattern.clone();
    let woken = &mut document["paths"]["/api/agents/{id}/snooze"]["delete"]["parameters"];
    for parameter in
        woken.as_array_mut().into_iter().flatten().filter(|parameter| parameter["name"] == "guard")
    {
        parameter["schema"]["pattern"] = pattern.clone();
    }
    document["components"]["securitySchemes"] = json!({
        "token": {"type": "http", "scheme": "bearer", "description": "A token of a person."},
        "key": {"type": "http", "scheme": "bearer", "description": "A key of an agent: it acts for that agent alone."},
        "ticket": {"type": "apiKey", "in": "header", "name": "x-estop-ticket",
            "description": "A ticket of a supervised run: it acts for that run alone."},
    });
    for (path, methods) in ROUTES {
        for (method, needs) in *methods {
            let operation = &mut document["paths"][*path][method.to_ascii_lowercase()];
            if operation.is_object() {
                complete_operation(operation, path, method, *needs);
            }
        }
    }
}

fn schema<T: PartialSchema>() -> Value {
    serde_json::to_value(T::schema()).unwrap_or_default()
}

fn complete_operation(operation: &mut Value, path: &str, method: &str, needs: Needs) {
    operation["operationId"] = json!(operation_id(path, method));
    operation["x-estop-role"] = json!(needs.role().map_or("anyone", role_name));
    match needs {
        Needs::Anyone => {}
        Needs::Role(_) | Needs::Token(_) => operation["security"] = json!([{"token": []}]),
        Needs::Agent(_) => operation["security"] = json!([{"token": []}, {"key": []}]),
        Needs::Ticket(_) => operation["security"] = json!([{"token": []}, {"key": []}, {"ticket": []}]),
    }
    for kind in problems_of(operation, path, method, needs) {
        let (status, _, title) = kind.parts();
        let responses = &mut operation["responses"];
        if responses.get(status.as_str()).is_none() {
            let content =
                json!({"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}});
            responses[status.as_str()] = json!({"description": title, "content": content});
        }
    }
}

/// `get_agents_id_policy`: unique, because path and method are.
fn operation_id(path: &str, method: &str) -> String {
    let words = path.split(['/', '{', '}', '-', '.']).filter(|word| !word.is_empty() && *word != "api");
    let words: Vec<&str> = words.collect();
    format!("{}_{}", method.to_ascii_lowercase(), words.join("_"))
}

/// Which problems a route can answer.
fn problems_of(operation: &Value, path: &str, method: &str, needs: Needs) -> Vec<Kind> {
    let mut kinds =
        vec![Kind::BadRequest, Kind::WrongHost, Kind::TooManyHeaders, Kind::Internal, Kind::Unavailable];
    let has_body = operation.get("requestBody").is_some();
    let is_login = path == "/api/session" && method == "POST";
    if needs != Needs::Anyone || is_login {
        kinds.extend([Kind::Unauthenticated, Kind::Forbidden, Kind::TooManyAttempts]);
    }
    if path.contains('{')
        || has_parameter(operation, "agent")
        || path.starts_with("/api/runs")
        || path == "/api/budgets/renew"
    {
        kinds.push(Kind::NotFound);
    }
    if has_body {
        kinds.extend([Kind::TooLarge, Kind::NotJson]);
    } else if method == "POST" && path.starts_with("/api/emergency/") {
        // A body is read there too: it may have the token.
        kinds.push(Kind::TooLarge);
    }
    if method != "GET" && !path.starts_with("/api/session") {
        kinds.push(Kind::Conflict);
    }
    if has_parameter(operation, "if-match") {
        kinds.extend([Kind::ChangedInBetween, Kind::IfMatchMissing]);
    }
    kinds
}

fn has_parameter(operation: &Value, name: &str) -> bool {
    let parameters = operation["parameters"].as_array();
    parameters.is_some_and(|parameters| parameters.iter().any(|parameter| parameter["name"] == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ui_3_the_table_of_roles_and_the_document_name_the_same_routes() {
        let paths = DOCUMENT.value["paths"].as_object().expect("the document has paths");
        let documented: Vec<String> = paths
            .iter()
            .flat_map(|(path, item)| {
                let methods = item.as_object().into_iter().flatten();
                methods.map(move |(method, _)| format!("{} {path}", method.to_uppercase()))
            })
            .collect();
        let table: Vec<String> = ROUTES
            .iter()
            .flat_map(|(path, methods)| methods.iter().map(move |(method, _)| format!("{method} {path}")))
            .collect();
        for route in &documented {
            assert!(table.contains(route), "{route} has a handler and no role: add it to access/table.rs");
        }
        for route in &table {
            assert!(
                documented.contains(route),
                "{route} has a role and no handler: take it out of access/table.rs"
            );
        }
    }
}
