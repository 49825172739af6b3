//! Checksums of the HTTP messages between nodes, and of their answers. Otherwise a damaged vote
//! would be taken for another one: TCP does not notice all damage, and TLS is not always used.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::service::error::ApiError;
use crate::service::identity::sender;
use crate::service::notices::notice;
use crate::service::stream::MAX_MESSAGE_BYTES;

/// Header with the CRC-32C of a message, or of an answer.
pub(crate) const SUM: HeaderName = HeaderName::from_static("raft-crc32c");

/// Returns the checksum of a message to `path`.
pub(crate) fn of_message(path: &str, body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(path.as_bytes()), body)
}

/// Returns the checksum of an answer.
pub(crate) fn of_answer(status: StatusCode, body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&status.as_u16().to_be_bytes()), body)
}

/// Returns the checksum that a message or an answer gives.
pub(crate) fn given(headers: &HeaderMap) -> Option<u32> {
    headers.get(SUM)?.to_str().ok()?.parse().ok()
}

/// Refuses a message that does not have its checksum, and adds the checksum of the answer.
pub(crate) async fn check(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let body = match to_bytes(body, MAX_MESSAGE_BYTES).await {
        Ok(body) => body,
        Err(error) => return ApiError::bad(format!("the body: {error}")).into_response(),
    };
    let path = head.uri.path();
    if head.method != Method::GET && given(&head.headers) != Some(of_message(path, &body)) {
        let from = sender(&head.headers).map_or("unknown".into(), |id| format!("node {id}"));
        let what = "does not have its checksum: it was damaged on the way";
        notice(format_args!("refuses a message of {from} to {path}, which {what}"));
        return ApiError::bad(format!("the message {what}")).into_response();
    }
    let response = next.run(Request::from_parts(head, Body::from(body))).await;
    let (mut head, body) = response.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return ApiError::internal("the answer cannot be read").into_response();
    };
    head.headers.insert(SUM, HeaderValue::from(of_answer(head.status, &body)));
    Response::from_parts(head, Body::from(body))
}
