//! Which address is answered by what.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::desk::Desk;
use super::problem::Problem;
use super::question::Pair;
use super::{Limits, answers, choices, guard, site};

/// What all requests share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) port: u16,
    pub(super) desk: Desk,
}

type Asked = std::result::Result<Query<Vec<Pair>>, axum::extract::rejection::QueryRejection>;
type Answered = std::result::Result<Response, Problem>;

const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";
const TOML: &str = "application/toml; charset=utf-8";

/// Everything that is served.
pub(super) fn app(port: u16, limits: Limits) -> Router {
    let shared = Arc::new(Shared {
        port,
        desk: Desk::new(limits),
    });
    let mut router = Router::new();
    for file in site::FILES {
        let serve = move || async move { ([(header::CONTENT_TYPE, file.kind)], file.bytes) };
        router = router.route(file.path, get(serve));
    }
    router
        .route("/api/choices", get(offered))
        .route("/api/plan", get(plan))
        .route("/api/sweep", get(sweep))
        .route("/download/plan.json", get(plan_file))
        .route("/download/report.html", get(report_file))
        .route("/download/scenario.toml", get(scenario_file))
        .fallback(|| async { nothing() })
        .layer(from_fn_with_state(Arc::clone(&shared), guard::guard))
        .with_state(shared)
}

async fn offered(State(shared): State<Arc<Shared>>) -> Answered {
    let text = shared.desk.compute(choices::text).await?;
    Ok(([(header::CONTENT_TYPE, JSON)], text).into_response())
}

async fn plan(State(shared): State<Arc<Shared>>, asked: Asked) -> Answered {
    answer(&shared, asked, answers::plan, JSON).await
}

async fn sweep(State(shared): State<Arc<Shared>>, asked: Asked) -> Answered {
    answer(&shared, asked, answers::sweep, JSON).await
}

async fn plan_file(State(shared): State<Arc<Shared>>, asked: Asked) -> Answered {
    let found = answer(&shared, asked, answers::plan, JSON).await?;
    Ok(saved(found, "attachment; filename=\"plan.json\""))
}

async fn report_file(State(shared): State<Arc<Shared>>, asked: Asked) -> Answered {
    let found = answer(&shared, asked, answers::report, HTML).await?;
    Ok(saved(found, "attachment; filename=\"report.html\""))
}

async fn scenario_file(State(shared): State<Arc<Shared>>, asked: Asked) -> Answered {
    let found = answer(&shared, asked, answers::scenario, TOML).await?;
    Ok(saved(found, "attachment; filename=\"scenario.toml\""))
}

/// Reads the question at once, so that a wrong one costs no turn, and computes when it is its turn.
async fn answer(
    shared: &Shared,
    asked: Asked,
    ask: fn(&[Pair]) -> std::result::Result<answers::Work, Problem>,
    kind: &'static str,
) -> Answered {
    let Query(pairs) = asked.map_err(|_| unreadable())?;
    let text = shared.desk.compute(ask(&pairs)?).await?;
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

fn saved(mut response: Response, how: &'static str) -> Response {
    let how = header::HeaderValue::from_static(how);
    response
        .headers_mut()
        .insert(header::CONTENT_DISPOSITION, how);
    response
}

fn unreadable() -> Problem {
    let help = "write SETTING=VALUE with & between them, as in batch=8&policy=four-tier:hbm=0.3";
    Problem::new(StatusCode::BAD_REQUEST, "the query cannot be read", help)
}

fn nothing() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "nothing is served here", "open /")
}
