//! Work that goes on after its request: background responses, batches, fine-tuning, runs of threads, videos. A response is
//! done when it is first polled, unless its model is `fake-hold`; everything else runs until it is cancelled.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// More are forgotten, the oldest first.
const JOBS_MAX: usize = 10_000;
/// The model whose responses never end by themselves.
const HELD: &str = "fake-hold";

/// All work so far, by id.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    list: BTreeMap<String, Job>,
    order: std::collections::VecDeque<String>,
}

#[derive(Clone, Debug)]
struct Job {
    kind: Kind,
    model: String,
    status: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Response,
    Batch,
    MessageBatch,
    FineTuning,
    ThreadRun,
    Video,
    GeminiBatch,
}

impl Jobs {
    /// The answer to a request that begins work, looks at some or cancels it; `None` for every other.
    pub(crate) fn answer(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        number: u64,
    ) -> Option<(u16, Value)> {
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        if let Some(kind) = begun(method, &segments, body) {
            let id = format!("{}{number}", kind.prefix());
            let model = body.and_then(|body| body["model"].as_str()).unwrap_or_default().to_owned();
            self.order.push_back(id.clone());
            if self.order.len() > JOBS_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.list.remove(&oldest);
            }
            let job = Job { kind, model, status: kind.first() };
            let shown = job.shown(&id);
            self.list.insert(id, job);
            return Some((200, shown));
        }
        let named = |segment: &&&str| self.list.contains_key(segment.split(':').next().unwrap_or_default());
        let id = segments.iter().rev().find(named)?.split(':').next()?.to_owned();
        let is_cancel = segments.last().is_some_and(|last| *last == "cancel" || last.ends_with(":cancel"));
        let job = self.list.get_mut(&id)?;
        match (method, is_cancel) {
            ("POST", true) if job.is_over() => {
                Some((400, json!({"error": {"message": format!("Cannot cancel: it is {}.", job.status)}})))
            }
            ("POST", true) if job.kind == Kind::Video => {
                Some((404, json!({"error": {"message": "There is no such call."}})))
            }
            ("POST", true) => {
                job.status = job.kind.cancelled();
                Some((200, job.shown(&id)))
            }
            ("GET", _) => {
                if job.kind == Kind::Response && !job.is_over() {
                    job.status = if job.model == HELD { "in_progress" } else { "completed" };
                }
                Some((200, job.shown(&id)))
            }
            _ => None,
        }
    }
}

fn begun(method: &str, segments: &[&str], body: Option<&Value>) -> Option<Kind> {
    if method != "POST" {
        return None;
    }
    let from_end = |n: usize| segments.len().checked_sub(n + 1).and_then(|at| segments.get(at)).copied();
    match (from_end(2), from_end(1), from_end(0)?) {
        (_, _, "responses") => {
            let says = |key: &str| body.is_some_and(|body| body[key] == true);
            (says("background") && !says("stream")).then_some(Kind::Response)
        }
        (_, Some("messages"), "batches") => Some(Kind::MessageBatch),
        (_, _, "batches") => Some(Kind::Batch),
        (_, Some("fine_tuning"), "jobs") => Some(Kind::FineTuning),
        (Some("threads"), _, "runs") => Some(Kind::ThreadRun),
        (_, _, "videos") => Some(Kind::Video),
        (_, _, last) if last.ends_with(":batchGenerateContent") => Some(Kind::GeminiBatch),
        _ => None,
    }
}

impl Kind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Response => "resp_bg",
            Self::Batch => "batch_",
            Self::MessageBatch => "msgbatch_",
            Self::FineTuning => "ftjob-",
            Self::ThreadRun => "run_",
            Self::Video => "video_",
            Self::GeminiBatch => "gb",
        }
    }

    fn first(self) -> &'static str {
        match self {
            Self::Response | Self::ThreadRun | Self::Video => "queued",
            Self::Batch => "validating",
            Self::MessageBatch => "in_progress",
            Self::FineTuning => "validating_files",
            Self::GeminiBatch => "BATCH_STATE_PENDING",
        }
    }

    fn cancelled(self) -> &'static str {
        match self {
            Self::Response | Self::FineTuning => "cancelled",
            Self::Batch | Self::ThreadRun | Self::Video => "cancelling",
            Self::MessageBatch => "canceling",
            Self::GeminiBatch => "BATCH_STATE_CANCELLED",
        }
    }
}

impl Job {
    fn is_over(&self) -> bool {
        matches!(self.status, "completed" | "cancelled" | "BATCH_STATE_CANCELLED")
    }

    fn shown(&self, id: &str) -> Value {
        let Self { kind, model, status } = self;
        match kind {
            Kind::Response => {
                let is_done = *status == "completed";
                let output = json!([{"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": "done", "annotations": []}]}]);
                let usage = json!({"input_tokens": 1_000, "output_tokens": 2_000, "total_tokens": 3_000,
                    "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}});
                json!({"id": id, "object": "response", "created_at": 1_767_225_600, "status": status,
                    "background": true, "error": null, "model": model, "metadata": {},
                    "output": if is_done { output } else { json!([]) },
                    "usage": if is_done { usage } else { Value::Null }})
            }
            Kind::MessageBatch => {
                json!({"id": id, "type": "message_batch", "processing_status": status, "results_url": null})
            }
            Kind::GeminiBatch => json!({"name": format!("batches/{id}"), "metadata": {"state": status}}),
            Kind::ThreadRun => {
                json!({"id": id, "object": "thread.run", "thread_id": "thread_1", "status": status})
            }
            Kind::Batch | Kind::FineTuning | Kind::Video => {
                json!({"id": id, "model": model, "status": status})
            }
        }
    }
}
