//! Escalations in GitHub (AL-2): a comment on the run's issue, a failed commit status, an issue that needs a human.
//!
//! Each is done once: what was done is remembered in the store, and before something is made it is looked for by a mark
//! in its text, because a crash may have come between the two.

use estop_core::ids::Name;
use estop_store::{AlertCommit, AlertMemory, Alerts};
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderValue, Method, StatusCode};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::alert_event::EscalationSeen;
use crate::channel::{GitHub, HeaderError};
use crate::escalation::{self, LABELS};
use crate::message::Message;
use crate::net::{Answer, Call, Network};
use crate::outcome::{SendOutcome, of_answer};
use crate::render::markdown;

/// Under this prefix it is remembered what was done; old ones are swept.
pub(crate) const REF: &str = "ref/";
/// GitHub's API as we know it.
const API_VERSION: &str = "2022-11-28";
/// The type GitHub recommends, and the one its description names.
const ACCEPTED: &str = "application/vnd.github+json, application/json;q=0.9";
/// Entries of a list that are looked through. The list begins when the escalation did, so its own are among the first.
const PAGE: u32 = 20;

/// What was done for an escalation. `false` or none = not yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Done {
    comment: bool,
    status: bool,
    issue: Option<u64>,
}

/// The sink: a repository, the way there, and the memory of what was done.
pub(crate) struct Sink<'a> {
    pub(crate) network: &'a Network,
    pub(crate) github: &'a GitHub,
    pub(crate) store: &'a dyn Alerts,
    pub(crate) channel: &'a str,
    pub(crate) now: i64,
}

impl Sink<'_> {
    /// Does what is left to do for a message.
    pub(crate) async fn send(&self, message: &Message) -> SendOutcome {
        let done = match &message.escalation {
            Some(seen) => self.escalate(message, seen).await,
            None => self.plain_issue(message).await,
        };
        done.map_or_else(|failed| failed, SendOutcome::Delivered)
    }

    async fn escalate(&self, message: &Message, seen: &EscalationSeen) -> Result<String, SendOutcome> {
        let mut done = self.recall(&seen.id)?;
        let mut skipped = Vec::new();
        if !done.comment {
            if let Some(number) = escalation::issue_number(seen) {
                skip(self.comment(message, seen, number).await, "comment", &mut skipped)?;
            }
            done.comment = true;
            self.remember(&seen.id, &done)?;
        }
        if !done.status {
            if let Some(commit) = self.commit(seen).await? {
                skip(self.status(message, seen, &commit).await, "status", &mut skipped)?;
            }
            done.status = true;
            self.remember(&seen.id, &done)?;
        }
        if done.issue.is_none() {
            let (title, body) = escalation::issue(message, seen);
            done.issue = Some(self.issue(message.at, &seen.id, &title, &body).await?);
            self.remember(&seen.id, &done)?;
        }
        let number = done.issue.unwrap_or_default();
        let skipped = if skipped.is_empty() { String::new() } else { format!("; {}", skipped.join("; ")) };
        Ok(format!("issue #{number}{skipped}"))
    }

    /// A message that is no escalation of one run: how many were held back.
    async fn plain_issue(&self, message: &Message) -> Result<String, SendOutcome> {
        let title = format!("[needs-human] {}", message.title);
        let facts: Vec<String> =
            message.facts.iter().map(|fact| format!("- {}: {}", fact.label, markdown(&fact.text))).collect();
        let body = format!("{}\n\n{}\n", facts.join("\n"), escalation::marker(&message.id));
        let number = self.issue(message.at, &message.id, &title, &body).await?;
        Ok(format!("issue #{number}"))
    }

    async fn comment(
        &self,
        message: &Message,
        seen: &EscalationSeen,
        number: u64,
    ) -> Result<(), SendOutcome> {
        let path = format!("/issues/{number}/comments");
        let found = self.get(&format!("{path}?per_page={PAGE}&since={}", since(message.at))).await?;
        if holds(&found, &escalation::marker(&seen.id)) {
            return Ok(());
        }
        self.post(&path, &json!({"body": escalation::comment(message, seen)})).await?;
        Ok(())
    }

    /// The commit whose status is set: the one that is named, or the newest of the branch.
    async fn commit(&self, seen: &EscalationSeen) -> Result<Option<String>, SendOutcome> {
        if let Some(commit) = seen.commit.as_deref().filter(|commit| is_sha(commit)) {
            return Ok(Some(commit.to_owned()));
        }
        let Some(branch) = seen.branch.as_deref().filter(|branch| is_branch(branch)) else { return Ok(None) };
        let call = self.call(Method::GET, &format!("/commits/{branch}"), None)?;
        let call =
            Call { headers: call.headers.into_iter().filter(|(name, _)| *name != ACCEPT).collect(), ..call };
        let call = call.with("accept", HeaderValue::from_static("application/vnd.github.sha"));
        let answer = self.network.call(call).await.map_err(SendOutcome::failed)?;
        match answer.status {
            StatusCode::OK => {
                let sha = String::from_utf8_lossy(&answer.body).trim().to_owned();
                Ok(is_sha(&sha).then_some(sha))
            }
            // A branch that was never pushed has no status.
            StatusCode::NOT_FOUND | StatusCode::UNPROCESSABLE_ENTITY | StatusCode::CONFLICT => Ok(None),
            _ => Err(self.refused(&answer)),
        }
    }

    async fn status(
        &self,
        message: &Message,
        seen: &EscalationSeen,
        commit: &str,
    ) -> Result<(), SendOutcome> {
        let (context, description) = escalation::status(message, seen);
        let mut body = json!({"state": "failure", "context": context, "description": description});
        if let Some(link) = &message.link {
            body["target_url"] = json!(link);
        }
        self.post(&format!("/statuses/{commit}"), &body).await?;
        Ok(())
    }

    /// Opens an issue, or finds the one that was opened before a crash; its number, 0 if only that it is there is known.
    async fn issue(&self, at: i64, id: &str, title: &str, body: &str) -> Result<u64, SendOutcome> {
        let labels = LABELS.join(",");
        let list =
            format!("/issues?state=all&sort=created&direction=desc&labels={labels}&since={}", since(at));
        let found = self.get(&format!("{list}&per_page={PAGE}")).await?;
        let mark = escalation::marker(id);
        if holds(&found, &mark) {
            let issues: Vec<Value> = serde_json::from_slice(&found.body).unwrap_or_default();
            let is_it = |issue: &&Value| issue["body"].as_str().is_some_and(|body| body.contains(&mark));
            return Ok(issues.iter().find(is_it).and_then(|issue| issue["number"].as_u64()).unwrap_or(0));
        }
        let answer = self.post("/issues", &json!({"title": title, "body": body, "labels": LABELS})).await?;
        let made: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        Ok(made["number"].as_u64().unwrap_or(0))
    }

    async fn get(&self, path: &str) -> Result<Answer, SendOutcome> {
        let call = self.call(Method::GET, path, None)?;
        self.checked(call).await
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Answer, SendOutcome> {
        let call = self.call(Method::POST, path, Some(body))?;
        self.checked(call).await
    }

    async fn checked(&self, call: Call) -> Result<Answer, SendOutcome> {
        let answer = self.network.call(call).await.map_err(SendOutcome::failed)?;
        if answer.status.is_success() { Ok(answer) } else { Err(self.refused(&answer)) }
    }

    fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Call, SendOutcome> {
        let GitHub { api, token, owner, repo } = self.github;
        let endpoint = api.below(&format!("/repos/{owner}/{repo}{path}"));
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))
            .map_err(|_| SendOutcome::failed(HeaderError::Token))?;
        bearer.set_sensitive(true);
        let mut call = Call::post(endpoint, body.unwrap_or(&Value::Null));
        if body.is_none() {
            (call.headers, call.body) = (Vec::new(), bytes::Bytes::new());
        }
        call.method = method;
        call.headers.push((AUTHORIZATION, bearer));
        call.headers.push((ACCEPT, HeaderValue::from_static(ACCEPTED)));
        Ok(call.with("x-github-api-version", HeaderValue::from_static(API_VERSION)))
    }

    /// What a refusal means. GitHub says 403 or 429 when there were too many requests, and when to come again.
    fn refused(&self, answer: &Answer) -> SendOutcome {
        let is_limited = matches!(answer.status, StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
        let is_spent = answer.seconds("x-ratelimit-remaining") == Some(0);
        let reset =
            answer.seconds("x-ratelimit-reset").map(|at| at.saturating_mul(1000).saturating_sub(self.now));
        match of_answer(answer) {
            SendOutcome::Failed { detail, after_ms } if is_limited => {
                let reset = reset.filter(|_| is_spent).map(|ms| ms.max(1000));
                SendOutcome::Failed { detail, after_ms: after_ms.or(reset).or(Some(60_000)) }
            }
            other @ (SendOutcome::Failed { .. } | SendOutcome::Delivered(_) | SendOutcome::Refused(_)) => {
                other
            }
        }
    }

    fn name(&self, id: &str) -> Name {
        format!("{REF}github/{}/{id}", self.channel).into()
    }

    fn recall(&self, id: &str) -> Result<Done, SendOutcome> {
        let name = self.name(id);
        let kept = self.store.alert_memory(&name).map_err(SendOutcome::failed)?;
        let done = kept.iter().find(|(kept, _)| *kept == name);
        Ok(done.and_then(|(_, value)| serde_json::from_str(value).ok()).unwrap_or_default())
    }

    fn remember(&self, id: &str, done: &Done) -> Result<(), SendOutcome> {
        let memory = vec![AlertMemory { name: self.name(id), value: Some(json!(done).to_string()) }];
        let commit = AlertCommit { at: self.now, alerts: Vec::new(), memory };
        self.store.commit_alerts(commit).map(|_| ()).map_err(SendOutcome::failed)
    }
}

/// What GitHub does not take for good, such as a comment on an issue that is gone, does not keep the rest from being done.
fn skip(done: Result<(), SendOutcome>, what: &str, skipped: &mut Vec<String>) -> Result<(), SendOutcome> {
    let detail = match done {
        Ok(()) => return Ok(()),
        Err(SendOutcome::Refused(detail)) => detail,
        Err(SendOutcome::Failed { detail, .. }) if detail.starts_with("404") || detail.starts_with("410") => {
            detail
        }
        Err(other @ (SendOutcome::Failed { .. } | SendOutcome::Delivered(_))) => return Err(other),
    };
    skipped.push(format!("no {what}: {detail}"));
    Ok(())
}

fn holds(answer: &Answer, mark: &str) -> bool {
    // In JSON as GitHub writes it, `<` may be escaped; the id inside never is.
    let body = String::from_utf8_lossy(&answer.body);
    let inner = mark.trim_start_matches("<!-- ").trim_end_matches(" -->");
    body.match_indices(inner).any(|(at, _)| {
        let rest = &body[at + inner.len()..];
        !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    })
}

/// A moment for a query, a little earlier: clocks differ.
fn since(at: i64) -> String {
    let moment = jiff::Timestamp::from_second(at.div_euclid(1000) - 600);
    moment.map(|moment| moment.to_string()).unwrap_or_default()
}

fn is_sha(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_hexdigit())
}

/// A branch that is a path as it stands.
fn is_branch(text: &str) -> bool {
    let fits = |part: &str| {
        let is_fit = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_fit)
    };
    text.len() <= 200 && text.split('/').all(fits)
}
