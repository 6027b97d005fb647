//! Makes the page from the document. Every text is escaped.

use serde_json::Value;

use crate::access::ROUTES;
use crate::problem::Kind;

/// The whole page.
pub(super) fn render(document: &Value) -> String {
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
        <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>estop API</title>\
        <link rel=\"stylesheet\" href=\"/api/docs.css\"></head><body><h1>estop API</h1>\
        <p>Send <code>Authorization: Bearer &lt;token&gt;</code>. For machines: \
        <a href=\"/api/openapi.json\">openapi.json</a>.</p>",
    );
    navigation(&mut page);
    for (path, methods) in ROUTES {
        for (method, _) in *methods {
            operation(&mut page, document, path, method);
        }
    }
    schemas(&mut page, document);
    problems(&mut page);
    page.push_str("</body></html>");
    page
}

fn navigation(page: &mut String) {
    page.push_str("<nav><ul>");
    for (path, methods) in ROUTES {
        for (method, _) in *methods {
            put(page, &["<li><a href=\"#", &anchor(method, path), "\">", method, " ", path, "</a></li>"]);
        }
    }
    page.push_str(
        "<li><a href=\"#schemas\">Schemas</a></li><li><a href=\"#problems\">Problems</a></li></ul></nav>",
    );
}

fn operation(page: &mut String, document: &Value, path: &str, method: &str) {
    let operation = &document["paths"][path][method.to_ascii_lowercase()];
    let role = escaped(text(&operation["x-estop-role"]));
    let id = anchor(method, path);
    put(page, &["<section id=\"", &id, "\"><h3><span class=\"method\">", method, "</span>", path]);
    put(page, &["<span class=\"role\">", &role, "</span></h3><p>", &escaped(text(&operation["summary"]))]);
    put(page, &[" ", &escaped(text(&operation["description"])), "</p><table>"]);
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let name = format!("{} ({})", text(&parameter["name"]), text(&parameter["in"]));
        row(page, &name, text(&parameter["description"]), &type_of(&parameter["schema"]));
    }
    for (kind, content) in contents(&operation["requestBody"]) {
        row(page, "body", kind, &type_of(&content["schema"]));
    }
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let types: Vec<String> = contents(response).map(|(_, content)| type_of(&content["schema"])).collect();
        row(page, status, text(&response["description"]), &types.join(", "));
    }
    page.push_str("</table></section>");
}

fn schemas(page: &mut String, document: &Value) {
    page.push_str("<h2 id=\"schemas\">Schemas</h2>");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        put(page, &["<h3 id=\"schema-", &escaped(name), "\">", &escaped(name), "</h3><p>"]);
        put(page, &[&escaped(text(&schema["description"])), "</p><table>"]);
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            row(page, key, text(&property["description"]), &type_of(property));
        }
        page.push_str("</table>");
    }
}

fn problems(page: &mut String) {
    page.push_str("<h2 id=\"problems\">Problems</h2><dl>");
    for kind in Kind::ALL {
        let (status, code, title) = kind.parts();
        put(
            page,
            &[
                "<dt id=\"",
                code,
                "\"><code>",
                code,
                "</code> (",
                status.as_str(),
                ")</dt><dd>",
                title,
                ".</dd>",
            ],
        );
    }
    page.push_str("</dl>");
}

fn row(page: &mut String, name: &str, description: &str, kind: &str) {
    put(
        page,
        &["<tr><th scope=\"row\">", &escaped(name), "</th><td>", &escaped(description), "</td><td><code>"],
    );
    put(page, &[&escaped(kind), "</code></td></tr>"]);
}

fn contents(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value["content"].as_object().into_iter().flatten().map(|(kind, content)| (kind.as_str(), content))
}

/// A schema in a word or two.
fn type_of(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return reference.rsplit('/').next().unwrap_or_default().to_owned();
    }
    if schema["items"].is_object() {
        return format!("list of {}", type_of(&schema["items"]));
    }
    if let Some(one_of) = schema["oneOf"].as_array().or(schema["enum"].as_array()) {
        let types: Vec<String> =
            one_of.iter().map(|one| one.as_str().map_or_else(|| type_of(one), str::to_owned)).collect();
        return types.join(" | ");
    }
    match &schema["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().map(text).collect::<Vec<_>>().join(" | "),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

fn anchor(method: &str, path: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("{}{}", method.to_ascii_lowercase(), path.chars().map(plain).collect::<String>())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn put(page: &mut String, parts: &[&str]) {
    parts.iter().for_each(|part| page.push_str(part));
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}
