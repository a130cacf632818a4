//! An error as the browser is told: the command line's own texts as JSON, under a status of HTTP.
//!
//! 400: no question at all (an unknown setting, one given twice). 422: a question that cannot be answered, exit 2 or 3 on
//! the command line. 503: too much asked at once, or too long. 500: a bug.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::error::{Cause, Error, Place};
use crate::report::json;

/// An error and its status.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    pub(super) error: Error,
}

impl Problem {
    /// A usage error of this status.
    pub(super) fn new(status: StatusCode, message: &str, help: &str) -> Self {
        Self {
            status,
            error: Error::usage(message).help(help),
        }
    }

    /// Not a question.
    pub(super) fn malformed(error: Error) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            error,
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let status = match error.cause {
            Cause::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Cause::Interrupted => StatusCode::SERVICE_UNAVAILABLE,
            Cause::Infeasible | Cause::Usage | Cause::Data | Cause::Device => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
        };
        Self { status, error }
    }
}

/// The body.
#[derive(Serialize)]
struct Body<'a> {
    error: Told<'a>,
}

#[derive(Serialize)]
struct Told<'a> {
    message: &'a str,
    place: Option<Spot<'a>>,
    help: Option<&'a str>,
    exit_code: u8,
}

/// A place in one of the embedded files: nothing else has places here.
#[derive(Serialize)]
struct Spot<'a> {
    file: &'a str,
    line: usize,
}

impl<'a> Spot<'a> {
    fn of(place: &'a Place) -> Self {
        let before = place.text.bytes().take(place.span.start);
        Self {
            file: &place.file,
            line: before.filter(|b| *b == b'\n').count() + 1,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let error = &self.error;
        let body = Body {
            error: Told {
                message: &error.message,
                place: error.place.as_deref().map(Spot::of),
                help: error.help.as_deref(),
                exit_code: error.exit_code(),
            },
        };
        let text = json::pretty(&body).unwrap_or_default();
        let kind = [(header::CONTENT_TYPE, "application/json")];
        let mut response = (self.status, kind, text).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            let soon = header::HeaderValue::from_static("1");
            response.headers_mut().insert(header::RETRY_AFTER, soon);
        }
        response
    }
}
