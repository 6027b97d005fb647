//! Makes the page from the document. Every text is escaped.

mod kind;

use serde_json::Value;

use crate::access::ROUTES;
use crate::problem::Kind;
use kind::{escaped, kind_of, prose, put, text};

/// Groups of routes, in the order people look for them. Others follow.
const GROUPS: [&str; 12] = [
    "emergency",
    "agents",
    "kill switch",
    "policy",
    "keys",
    "runs",
    "cases",
    "journal",
    "spend",
    "access",
    "health",
    "documentation",
];

/// A route as the page shows it.
struct Route<'a> {
    path: &'static str,
    method: &'static str,
    operation: &'a Value,
}

/// The whole page.
pub(super) fn render(document: &Value) -> String {
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
        <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>estop API</title>\
        <link rel=\"stylesheet\" href=\"/api/docs.css\"></head><body><h1>estop API</h1>\
        <p>Send <code>Authorization: Bearer &lt;token&gt;</code>, for example:</p>\
        <pre>curl -H \"Authorization: Bearer $ESTOP_TOKEN\" 127.0.0.1:4101/api/agents</pre>\
        <p>Beside each route stands the role it needs; an operator may also do what a viewer may, an admin everything. For \
        machines: <a href=\"/api/openapi.json\">openapi.json</a>.</p>",
    );
    let routes = routes(document);
    let groups = groups(&routes);
    navigation(&mut page, &groups);
    let everywhere = everywhere(&routes);
    page.push_str("<p class=\"problems\">Any route may answer: ");
    problem_links(&mut page, everywhere.iter().copied());
    page.push_str("</p>");
    for (group, routes) in &groups {
        put(&mut page, &["<h2 id=\"", &anchor("", group), "\">", &escaped(&capital(group)), "</h2>"]);
        routes.iter().for_each(|route| operation(&mut page, route, &everywhere));
    }
    schemas(&mut page, document);
    problems(&mut page);
    page.push_str("</body></html>");
    page
}

fn routes(document: &Value) -> Vec<Route<'_>> {
    let of = |path: &'static str, method: &'static str| Route {
        path,
        method,
        operation: &document["paths"][path][method.to_ascii_lowercase()],
    };
    ROUTES
        .iter()
        .flat_map(|(path, methods)| methods.iter().map(move |(method, _)| of(path, method)))
        .collect()
}

/// The routes of each group.
fn groups<'r>(routes: &'r [Route<'r>]) -> Vec<(&'r str, Vec<&'r Route<'r>>)> {
    let group = |route: &Route<'r>| text(&route.operation["tags"][0]);
    let mut names: Vec<&str> = GROUPS.to_vec();
    for route in routes {
        if !names.contains(&group(route)) {
            names.push(group(route));
        }
    }
    let of = |name| (name, routes.iter().filter(|route| group(route) == name).collect::<Vec<_>>());
    names.into_iter().map(of).filter(|(_, routes)| !routes.is_empty()).collect()
}

fn navigation(page: &mut String, groups: &[(&str, Vec<&Route<'_>>)]) {
    page.push_str("<nav>");
    for (group, routes) in groups {
        put(
            page,
            &["<div><a class=\"group\" href=\"#", &anchor("", group), "\">", &escaped(&capital(group))],
        );
        page.push_str("</a><ul>");
        for Route { method, path, .. } in routes {
            put(page, &["<li><a href=\"#", &anchor(method, path), "\">", &chip(method), path, "</a></li>"]);
        }
        page.push_str("</ul></div>");
    }
    page.push_str(
        "<div><a class=\"group\" href=\"#schemas\">Schemas</a></div>\
        <div><a class=\"group\" href=\"#problems\">Problems</a></div></nav>",
    );
}

/// Problems every route can answer: said once.
fn everywhere<'r>(routes: &'r [Route<'r>]) -> Vec<(&'r str, &'r str)> {
    let Some((first, others)) = routes.split_first() else { return Vec::new() };
    let is_shared = |(status, _): &(&str, &str)| others.iter().all(|r| answers(r).any(|(s, _)| s == *status));
    answers(first).map(|(status, answer)| (status, text(&answer["description"]))).filter(is_shared).collect()
}

fn answers<'r>(route: &'r Route<'r>) -> impl Iterator<Item = (&'r str, &'r Value)> {
    let responses = route.operation["responses"].as_object().into_iter().flatten();
    responses.map(|(status, answer)| (status.as_str(), answer))
}

fn operation(page: &mut String, route: &Route<'_>, everywhere: &[(&str, &str)]) {
    let Route { path, method, operation } = route;
    let role = escaped(text(&operation["x-estop-role"]));
    let id = anchor(method, path);
    put(page, &["<section id=\"", &id, "\"><h3>", &chip(method), "<span class=\"path\">", path, "</span>"]);
    put(page, &["<span class=\"role\">", &role, "</span></h3><p>", &prose(text(&operation["summary"]))]);
    put(page, &[" ", &prose(text(&operation["description"])), "</p><table>"]);
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let place = escaped(text(&parameter["in"]));
        let name = format!("{} <small>{place}</small>", escaped(text(&parameter["name"])));
        row(page, &name, text(&parameter["description"]), &kind_of(&parameter["schema"]));
    }
    for (_, content) in contents(&operation["requestBody"]) {
        row(page, "body", "", &kind_of(&content["schema"]));
    }
    for (status, answer) in answers(route).filter(|(status, _)| *status < "400") {
        let kinds: Vec<String> = contents(answer).map(|(_, content)| kind_of(&content["schema"])).collect();
        let kinds = if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") };
        let name = format!("<span class=\"fine\">{}</span>", escaped(status));
        row(page, &name, text(&answer["description"]), &kinds);
    }
    page.push_str("</table>");
    let own = answers(route).map(|(status, answer)| (status, text(&answer["description"])));
    let mut own = own.filter(|problem| problem.0 >= "400" && !everywhere.contains(problem)).peekable();
    if own.peek().is_some() {
        page.push_str("<p class=\"problems\">Or: ");
        problem_links(page, own);
        page.push_str("</p>");
    }
    page.push_str("</section>");
}

fn problem_links<'p>(page: &mut String, problems: impl Iterator<Item = (&'p str, &'p str)>) {
    for (at, (status, title)) in problems.filter(|(status, _)| *status >= "400").enumerate() {
        let code = Kind::ALL.iter().map(|kind| kind.parts()).find(|parts| parts.2 == title);
        put(
            page,
            &[if at > 0 { " · " } else { "" }, "<a href=\"#", code.map_or("problems", |parts| parts.1)],
        );
        put(page, &["\">", &escaped(status), "</a> ", &escaped(title)]);
    }
}

fn schemas(page: &mut String, document: &Value) {
    page.push_str("<h2 id=\"schemas\">Schemas</h2>");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        put(page, &["<section id=\"schema-", &escaped(name), "\"><h3>", &escaped(name), "</h3><p>"]);
        put(page, &[&prose(text(&schema["description"])), "</p><table>"]);
        if schema["properties"].is_null() && schema["allOf"].is_null() {
            row(page, "one of", "", &kind_of(schema));
        }
        properties(page, schema);
        for part in schema["allOf"].as_array().into_iter().flatten() {
            if part["$ref"].is_string() {
                row(page, "all of", "", &kind_of(part));
            }
            properties(page, part);
        }
        page.push_str("</table></section>");
    }
}

fn properties(page: &mut String, schema: &Value) {
    let required = schema["required"].as_array();
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.is_some_and(|required| required.iter().any(|name| name == key));
        let name = format!("{}{}", escaped(key), if is_required { "" } else { " <small>optional</small>" });
        row(page, &name, text(&property["description"]), &kind_of(property));
    }
}

fn problems(page: &mut String) {
    page.push_str("<h2 id=\"problems\">Problems</h2><p>Errors are problem documents (RFC 9457).</p><table>");
    for kind in Kind::ALL {
        let (status, code, title) = kind.parts();
        put(page, &["<tr id=\"", code, "\"><th scope=\"row\">", status.as_str(), "</th><td><code>", code]);
        put(page, &["</code></td><td>", title, "</td></tr>"]);
    }
    page.push_str("</table>");
}

/// A row; `name` and `kind` are HTML.
fn row(page: &mut String, name: &str, description: &str, kind: &str) {
    put(page, &["<tr><th scope=\"row\">", name, "</th><td><code>", kind, "</code></td><td>"]);
    put(page, &[&prose(description), "</td></tr>"]);
}

fn contents(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value["content"].as_object().into_iter().flatten().map(|(kind, content)| (kind.as_str(), content))
}

fn chip(method: &str) -> String {
    format!("<span class=\"method {}\">{method}</span>", method.to_ascii_lowercase())
}

fn anchor(method: &str, path: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("{}{}", method.to_ascii_lowercase(), path.chars().map(plain).collect::<String>())
}

fn capital(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}
