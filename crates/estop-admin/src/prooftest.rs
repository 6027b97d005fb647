//! Trying out the stop on a canary, and when that was last done (KS-5).

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::system::proof_test::{ProofTest, ProofTestError, ProofTests};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Caller;
use crate::output::{Answer, moment};
use crate::problem::{Kind, Problem};
use crate::state::{App, at_once};

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(prooftest))
}

/// What a proof test found.
#[derive(Serialize, ToSchema)]
#[schema(as = ProofTest)]
struct ProofTestOut {
    /// Every step did what it must.
    passed: bool,
    at: String,
    by: String,
    /// Microseconds from the trigger to the last step.
    took_us: u64,
    steps: Vec<ProofStepOut>,
}

/// One step of a proof test.
#[derive(Serialize, ToSchema)]
#[schema(as = ProofStep)]
struct ProofStepOut {
    name: String,
    passed: bool,
    /// Microseconds from the trigger until it was seen; 0 = it came before the trigger.
    took_us: u64,
    /// What was seen.
    what: String,
}

impl From<ProofTest> for ProofTestOut {
    fn from(test: ProofTest) -> ProofTestOut {
        let passed = test.passed();
        let steps = test.steps.into_iter().map(|step| ProofStepOut {
            name: step.name.into(),
            passed: step.passed,
            took_us: step.took_us,
            what: step.what,
        });
        let steps = steps.collect();
        ProofTestOut { passed, at: moment(test.at), by: test.by.into(), took_us: test.took_us, steps }
    }
}

/// When the stop was last tried out.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LastProofTest)]
pub(crate) struct LastOut {
    /// The last one; null = never.
    last: Option<ProofTestOut>,
    /// There was none, it failed, or it is too long ago.
    overdue: bool,
    /// At least once in so many days; null = nobody wants to be told.
    every_days: Option<u32>,
}

impl LastOut {
    pub(crate) fn of(tests: ProofTests, now: i64) -> LastOut {
        let overdue = tests.is_overdue(now);
        LastOut { overdue, every_days: tests.every_days, last: tests.last.map(Into::into) }
    }
}

/// When the stop was last tried out, in a sentence.
pub(crate) fn sentence(tests: &ProofTests, when: impl Fn(i64) -> String) -> String {
    match &tests.last {
        None => "The emergency stop has never been tested.".to_owned(),
        Some(test) => {
            let how = if test.passed() { "worked" } else { "FAILED" };
            format!("Last tried {} by {}: it {how}, in {} ms.", when(test.at), test.by, test.took_us / 1000)
        }
    }
}

/// Tries out the stop on a canary: gate, open stream, upstream connection, process, latch and journal. Nobody else is
/// stopped. It takes some seconds.
#[utoipa::path(post, path = "/api/emergency/prooftest", tag = "emergency",
    responses((status = 200, body = ProofTestOut)))]
async fn prooftest(State(app): State<App>, Extension(caller): Extension<Caller>) -> Answer<ProofTestOut> {
    let operator = Arc::clone(&app.operator);
    at_once(move || match operator.proof_test(&caller.by) {
        Ok(test) => Ok(Json(test.into())),
        Err(ProofTestError::CannotBegin(why)) => {
            Err(Problem::new(Kind::Unavailable, format!("The proof test could not begin: {why}.")))
        }
        Err(no @ (ProofTestError::NotRunning | ProofTestError::UnderWay | ProofTestError::Interrupted)) => {
            Err(Problem::new(Kind::Conflict, no.to_string()))
        }
    })
    .await
}
