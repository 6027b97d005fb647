//! Spans as OTLP writes them in JSON, named as OpenTelemetry's conventions for generative AI have it; what they have no name for
//! begins with `estop.`. Prompts and answers are in none of them.

use estop_core::event::CallKind;
use serde_json::{Value, json};

use crate::request_ends::{EndedRequest, RequestOutcome};

/// `SPAN_KIND_CLIENT`: a call to a model.
const CLIENT: u32 = 3;
/// `STATUS_CODE_ERROR`.
const ERROR: u32 = 2;

/// A request, ready to be written.
#[derive(Debug)]
pub(super) struct Span(Value);

impl Span {
    pub(super) fn of(ended: &EndedRequest<'_>) -> Span {
        let end_ms = ended.at;
        let start_ms = end_ms.saturating_sub_unsigned(ended.duration_ms.unwrap_or(0));
        let operation = operation(ended.call);
        let model = ended.model.as_deref();
        let (trace, parent) = match ended.trace_parent.filter(|parent| parent.is_sampled) {
            Some(parent) => (parent.trace_id(), parent.span_id()),
            None => (random_id::<16>(), String::new()),
        };
        let mut span = json!({
            "traceId": trace,
            "spanId": random_id::<8>(),
            "name": model.map_or_else(|| operation.to_owned(), |model| format!("{operation} {model}")),
            "kind": CLIENT,
            "startTimeUnixNano": nanos(start_ms),
            "endTimeUnixNano": nanos(end_ms),
            "attributes": attributes(ended),
        });
        if !parent.is_empty() {
            span["parentSpanId"] = parent.into();
        }
        if ended.outcome != RequestOutcome::Answered {
            span["status"] = json!({"code": ERROR, "message": ended.outcome.text()});
        }
        Span(span)
    }
}

/// The body of a request that exports these.
pub(super) fn request(spans: &[Span]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let spans: Vec<&Value> = spans.iter().map(|Span(span)| span).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": [text("service.name", "estop"), text("service.version", version)]},
        "scopeSpans": [{"scope": {"name": "estop", "version": version}, "spans": spans}],
    }]})
}

fn attributes(ended: &EndedRequest<'_>) -> Vec<Value> {
    let mut all = vec![
        text("gen_ai.operation.name", operation(ended.call)),
        text("gen_ai.agent.name", ended.agent),
        int("estop.request", ended.request.0),
        text("estop.outcome", ended.outcome.label()),
    ];
    all.extend(
        ended.provider.as_deref().map(|provider| text("gen_ai.provider.name", provider_name(provider))),
    );
    all.extend(ended.model.as_deref().map(|model| text("gen_ai.request.model", model)));
    all.extend(ended.run.map(|run| text("estop.run", run)));
    if ended.outcome != RequestOutcome::Answered {
        all.push(text("error.type", ended.outcome.label()));
    }
    if let Some(guard) = ended.outcome.refused_by() {
        all.push(text("estop.guard", guard.name()));
        return all;
    }
    let usage = &ended.usage;
    all.extend([
        int("gen_ai.usage.input_tokens", usage.input_tokens.into()),
        int("gen_ai.usage.output_tokens", usage.output_tokens.into()),
        double("estop.cost_usd", usage.usd.0 as f64 / 1e9),
        json!({"key": "estop.usage.estimated", "value": {"boolValue": usage.estimated}}),
    ]);
    let details = [
        ("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens),
        ("gen_ai.usage.cache_write.input_tokens", usage.cache_write_tokens),
        ("gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens),
    ];
    all.extend(
        details.into_iter().filter(|(_, tokens)| *tokens > 0).map(|(key, tokens)| int(key, tokens.into())),
    );
    let first_byte = ended.first_byte_ms.map(|ms| f64::from(ms) / 1e3);
    all.extend(first_byte.map(|seconds| double("gen_ai.response.time_to_first_chunk", seconds)));
    all
}

fn operation(call: CallKind) -> &'static str {
    match call {
        CallKind::Generation => "chat",
        CallKind::Embedding => "embeddings",
        CallKind::Other => "other",
    }
}

/// As the conventions call it, where the configuration's usual name differs.
fn provider_name(provider: &str) -> &str {
    match provider {
        "azure" => "azure.ai.openai",
        "gemini" => "gcp.gemini",
        "mistral" => "mistral_ai",
        "moonshot" => "moonshot_ai",
        "xai" => "x_ai",
        other => other,
    }
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// 64-bit numbers are text in this JSON.
fn int(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

fn double(key: &str, value: f64) -> Value {
    json!({"key": key, "value": {"doubleValue": value}})
}

fn nanos(ms: i64) -> String {
    (i128::from(ms) * 1_000_000).max(0).to_string()
}

fn random_id<const N: usize>() -> String {
    let mut bytes = [0; N];
    // Without random numbers TLS would not work either; an id of zeros is none.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
