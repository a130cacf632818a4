//! Who may ask, and what a browser may do with the answer.
//!
//! The server listens on loopback alone, but a browser on this machine will send requests for any page it shows. A name
//! that an attacker's server resolves to 127.0.0.1 has its own `Host` (refused: 421); a page elsewhere that embeds an
//! address of ours is marked by the browser as cross-site (refused: 403), and could not read the answer anyway.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::Problem;
use super::routes::Shared;

/// What goes with every answer. Nothing inline, nothing from elsewhere, nothing framed.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Checks a request, and dresses the answer.
pub(super) async fn guard(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match refusal(&shared, &request) {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refusal(shared: &Shared, request: &Request) -> Option<Problem> {
    let (headers, uri) = (request.headers(), request.uri());
    if !host(headers, shared.port)
        || uri
            .authority()
            .is_some_and(|a| !ours(a.as_str(), shared.port))
    {
        return Some(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "the request names another host",
            &format!("open http://127.0.0.1:{}/", shared.port),
        ));
    }
    if headers
        .get("sec-fetch-site")
        .is_some_and(|v| v == "cross-site")
    {
        return Some(Problem::new(
            StatusCode::FORBIDDEN,
            "another site sent this request",
            "open the page itself",
        ));
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return Some(Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET is answered",
            "the question goes into the query",
        ));
    }
    if body(headers) {
        return Some(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "a request has no body here",
            "the question goes into the query",
        ));
    }
    let most = shared.desk.limits.query_bytes;
    (uri.query().map_or(0, str::len) > most).then(|| {
        Problem::new(
            StatusCode::URI_TOO_LONG,
            &format!("the query is longer than {most} bytes"),
            "give only the settings that differ from the defaults",
        )
    })
}

/// Whether exactly one `Host` is given and is ours.
fn host(headers: &HeaderMap, port: u16) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let first = hosts.next().and_then(|h| h.to_str().ok());
    first.is_some_and(|h| ours(h, port)) && hosts.next().is_none()
}

/// A name of the loopback address, with our port; only port 80 may be left out.
fn ours(host: &str, port: u16) -> bool {
    let names = ["localhost", "127.0.0.1", "[::1]"];
    let bare = host.strip_suffix(&format!(":{port}"));
    let bare = bare.or((port == 80).then_some(host));
    bare.is_some_and(|b| names.iter().any(|n| b.eq_ignore_ascii_case(n)))
}

fn body(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH);
    length.is_some_and(|l| l != "0") || headers.contains_key(header::TRANSFER_ENCODING)
}

#[cfg(test)]
mod tests {
    use super::ours;

    #[test]
    fn only_names_of_loopback_with_the_port() {
        for host in ["localhost:81", "LOCALHOST:81", "127.0.0.1:81", "[::1]:81"] {
            assert!(ours(host, 81), "{host}");
        }
        let others = [
            "",
            "localhost",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.0.0.1:811",
            "evil.example:81",
            "::1:81",
            "localhost.evil.example:81",
            "evil.example@127.0.0.1:81",
            "127.0.0.2:81",
            " localhost:81",
        ];
        for host in others {
            assert!(!ours(host, 81), "{host}");
        }
        assert!(ours("localhost", 80) && !ours("evil.example", 80));
    }
}
