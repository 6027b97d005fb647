//! `opentelemetry:`: which requests become spans, and which collector they are sent to (OB-2).

use std::collections::BTreeMap;
use std::path::Path;

use estop_notify::Endpoint;
use rustls::pki_types::CertificateDer;
use secrecy::SecretString;
use serde::Deserialize;

use super::alerts::certificates;
use super::base_url::BaseUrl;
use super::env::Env;
use super::fault::ValueError;
use super::request_share::RequestShare;
use super::secrets;
use super::values::{FilePath, VariableName, given};

/// Where OTLP over HTTP takes spans, below the collector's URL.
const PATH: &str = "/v1/traces";
/// Chosen: a collector asks for one or two.
const HEADERS_MAX: usize = 8;
/// Headers of the exchange itself.
const OWN_HEADERS: [&str; 5] = ["host", "connection", "content-length", "content-type", "transfer-encoding"];

/// `opentelemetry:`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct OpenTelemetryIn {
    #[serde(deserialize_with = "given")]
    endpoint: Option<BaseUrl>,
    #[serde(deserialize_with = "given")]
    spans: Option<RequestShare>,
    pub(super) headers_env: BTreeMap<String, VariableName>,
    #[serde(deserialize_with = "given")]
    ca_file: Option<FilePath>,
}

/// Where spans are sent.
#[derive(Clone, Debug)]
pub struct SpanCollector {
    /// The collector, with the path that takes spans.
    pub endpoint: Endpoint,
    /// Requests whose client does not say itself whether they are traced: one in so many becomes a span. Those that were
    /// refused or failed in any case.
    pub one_in: u32,
    /// Sent with each batch: name and value.
    pub headers: Vec<(String, SecretString)>,
    /// Whom to trust; none = the usual authorities.
    pub ca: Vec<CertificateDer<'static>>,
}

/// What the section means; `None` if spans go nowhere.
pub(super) fn opentelemetry(given: &OpenTelemetryIn, env: &Env) -> Result<Option<SpanCollector>, ValueError> {
    let Some(url) = &given.endpoint else {
        let is_needed = [
            ("spans", given.spans.is_some()),
            ("headers_env", !given.headers_env.is_empty()),
            ("ca_file", given.ca_file.is_some()),
        ];
        return match is_needed.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(None),
            Some((key, _)) => {
                let message = format!("opentelemetry.{key} is set, and opentelemetry.endpoint is missing");
                let help = "Set `endpoint` to the collector's URL, such as http://127.0.0.1:4318.".to_owned();
                Err(ValueError::new(&["opentelemetry", key], message).with_help(help))
            }
        };
    };
    let one_in = match given.spans {
        Some(RequestShare::Off) => return Ok(None),
        Some(RequestShare::OneIn(number)) => number,
        None => 1,
    };
    let url = url.to_string();
    let path = if url.ends_with(PATH) { "" } else { PATH };
    let endpoint = Endpoint::parse(&format!("{url}{path}")).map_err(|error| {
        ValueError::new(&["opentelemetry", "endpoint"], format!("opentelemetry.endpoint: {error}"))
    })?;
    Ok(Some(SpanCollector { endpoint, one_in, headers: headers(given, env)?, ca: ca(given, env)? }))
}

fn headers(given: &OpenTelemetryIn, env: &Env) -> Result<Vec<(String, SecretString)>, ValueError> {
    let count = given.headers_env.len();
    if count > HEADERS_MAX {
        let message = format!("opentelemetry.headers_env has {count} headers; at most {HEADERS_MAX}");
        return Err(ValueError::new(&["opentelemetry", "headers_env"], message));
    }
    let header = |(name, variable): (&String, &VariableName)| {
        let keys = ["opentelemetry", "headers_env", name];
        let small = name.to_ascii_lowercase();
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        if small.is_empty() || !small.bytes().all(fits) || OWN_HEADERS.contains(&small.as_str()) {
            let message = "opentelemetry.headers_env: a name is no header that can be added";
            let help = "Write a header's name and the variable that holds its value: `authorization: OTLP_AUTHORIZATION`.";
            return Err(
                ValueError::new(&["opentelemetry", "headers_env"], message).with_help(help.to_owned())
            );
        }
        Ok((small, secrets::header_from_variable(variable, &keys, env)?))
    };
    given.headers_env.iter().map(header).collect()
}

fn ca(given: &OpenTelemetryIn, env: &Env) -> Result<Vec<CertificateDer<'static>>, ValueError> {
    let Some(file) = &given.ca_file else { return Ok(Vec::new()) };
    certificates(Path::new(&file.0), env).map_err(|error| {
        ValueError::new(&["opentelemetry", "ca_file"], format!("opentelemetry.ca_file: {error}"))
    })
}
