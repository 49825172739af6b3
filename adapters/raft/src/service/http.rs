//! The HTTP routes for clients: entries, batches, ranges and sessions.

use minikv::Readable;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use crate::command::{self, Command, Condition, Op, Outcome, RequestId};
use crate::kv::Answered;
use crate::service::error::{ApiError, ApiResult};
use crate::service::node::Node;
use crate::service::query::{Query, body_of, json};
use crate::service::reads::Read;
use crate::service::text::{MAX_ENCODED_BYTES, Text, decode_percent, encode_percent};

pub(crate) const SESSION: &str = "minikv-session";
pub(crate) const SEQUENCE: &str = "minikv-sequence";

const MAX_KEY_BYTES: usize = 32 << 10;
const MAX_PAGE: usize = 10_000;
const PAGE_BYTES: usize = 4 << 20;
const PREFIX: &str = "/v1/kv/";

/// The response to a write.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Written {
    /// Whether all conditions held.
    pub(crate) succeeded: bool,
    /// The index of the write's log entry: of the first attempt, if the request was repeated.
    pub(crate) index: u64,
}

/// Several changes, which are made only if all conditions hold.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody {
    #[serde(default)]
    pub(crate) conditions: Vec<ConditionBody>,
    pub(crate) ops: Vec<OpBody>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConditionBody {
    pub(crate) key: Text,
    #[serde(deserialize_with = "present")]
    pub(crate) expected: Option<Text>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpBody {
    pub(crate) key: Text,
    #[serde(deserialize_with = "present")]
    pub(crate) value: Option<Text>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompareBody {
    pub(crate) key: Text,
    #[serde(deserialize_with = "present")]
    pub(crate) expected: Option<Text>,
    #[serde(deserialize_with = "present")]
    pub(crate) value: Option<Text>,
}

/// Parses a field that may be null but must not be missing. Otherwise, a condition without the
/// field `expected` would be taken as the condition that the key is absent, and a change without
/// the field `value` as a deletion.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Text>, D::Error> {
    Option::deserialize(deserializer)
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) key: Text,
    pub(crate) value: Text,
}

/// A page of a range.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Page {
    pub(crate) entries: Vec<Entry>,
    /// Whether there are more entries. To get them, the client repeats the request with `after` set
    /// to the last key.
    pub(crate) more: bool,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct SessionBody {
    pub(crate) session: u64,
}

pub(crate) fn routes() -> Router<Arc<Node>> {
    Router::new()
        .route("/v1/kv/{*key}", get(get_entry).put(put_entry).delete(delete_entry))
        .route(PREFIX, get(get_entry).put(put_entry).delete(delete_entry))
        .route("/v1/batch", post(batch))
        .route("/v1/compare-and-set", post(compare_and_set))
        .route("/v1/range", get(range))
        .route("/v1/sessions", post(open_session))
}

fn checked_key(key: Bytes) -> ApiResult<Bytes> {
    match key.len() {
        0 => Err(ApiError::bad("a key has at least one byte")),
        1..=MAX_KEY_BYTES => Ok(key),
        bytes => {
            let what = format!("a key of {bytes} bytes; {MAX_KEY_BYTES} are allowed");
            Err(ApiError::with(StatusCode::PAYLOAD_TOO_LARGE, what))
        }
    }
}

/// Checks a change. A key that does not fit into a URI could not be read. It may be deleted, as
/// earlier versions gave such keys values.
fn checked_op(key: Bytes, value: Option<Bytes>) -> ApiResult<Op> {
    let key = checked_key(key)?;
    let may_be_long = value.is_some() && 3 * key.len() > MAX_ENCODED_BYTES;
    let bytes = if may_be_long { encode_percent(&key).len() } else { 0 };
    if bytes > MAX_ENCODED_BYTES {
        let what =
            format!("a key of {bytes} bytes, percent-encoded; {MAX_ENCODED_BYTES} are allowed");
        return Err(ApiError::with(StatusCode::PAYLOAD_TOO_LARGE, what));
    }
    Ok(Op { key, value })
}

fn key_of(uri: &Uri) -> ApiResult<Bytes> {
    let encoded = uri.path().strip_prefix(PREFIX).unwrap_or_default();
    match decode_percent(encoded) {
        Some(key) => checked_key(key.into()),
        None => Err(ApiError::bad(format!("`{encoded}` is not percent-encoded"))),
    }
}

/// Returns the id of a request, if the headers contain one.
fn request_id(headers: &HeaderMap) -> ApiResult<Option<RequestId>> {
    let number = |name: &str| match headers.get(name) {
        None => Ok(None),
        Some(value) => {
            let number = value.to_str().ok().and_then(|text| text.parse::<u64>().ok());
            number.map(Some).ok_or_else(|| ApiError::bad(format!("{name} is not a number")))
        }
    };
    match (number(SESSION)?, number(SEQUENCE)?) {
        (None, None) => Ok(None),
        (Some(session), Some(sequence)) => Ok(Some(RequestId { session, sequence })),
        _ => Err(ApiError::bad(format!("{SESSION} and {SEQUENCE} go together"))),
    }
}

async fn write(node: &Arc<Node>, headers: &HeaderMap, command: Command) -> ApiResult<Answered> {
    let request = command::Request { id: request_id(headers)?, command };
    node.counters.writes.fetch_add(1, Ordering::Relaxed);
    node.writes.apply(request).await
}

async fn write_ops(
    node: &Arc<Node>,
    headers: &HeaderMap,
    conditions: Vec<Condition>,
    ops: Vec<Op>,
) -> ApiResult<Response> {
    let (index, outcome) = write(node, headers, Command::Write { conditions, ops }).await?;
    match outcome {
        Outcome::Written(succeeded) => {
            let status = if succeeded { StatusCode::OK } else { StatusCode::PRECONDITION_FAILED };
            Ok((status, Json(Written { succeeded, index })).into_response())
        }
        Outcome::SessionExpired => {
            let what =
                "the session has expired: this attempt changed nothing; an earlier one may have";
            Err(ApiError::with(StatusCode::GONE, what))
        }
        Outcome::Superseded => {
            let what = "the session has a later request: this one was applied then or never";
            Err(ApiError::with(StatusCode::CONFLICT, what))
        }
        Outcome::Session(_) => {
            Err(ApiError::with(StatusCode::CONFLICT, "sequence numbers begin at 1"))
        }
    }
}

async fn get_entry(State(node): State<Arc<Node>>, uri: Uri) -> ApiResult<Response> {
    let (key, query) = (key_of(&uri)?, Query::parse(&uri, &["read"])?);
    let freshness = query.parsed("read")?.unwrap_or_default();
    node.counters.reads.fetch_add(1, Ordering::Relaxed);
    let value = node.read(freshness, move |node| Ok(node.store.state().data().get(&key)?)).await?;
    match value {
        Some(value) => {
            let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
            Ok((kind, value).into_response())
        }
        None => Err(ApiError::with(StatusCode::NOT_FOUND, "the key has no value")),
    }
}

async fn put_entry(
    State(node): State<Arc<Node>>,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> ApiResult<Response> {
    let op = checked_op(key_of(&uri)?, Some(body_of(body)?))?;
    Query::parse(&uri, &[])?;
    write_ops(&node, &headers, Vec::new(), vec![op]).await
}

async fn delete_entry(
    State(node): State<Arc<Node>>,
    uri: Uri,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let key = key_of(&uri)?;
    Query::parse(&uri, &[])?;
    write_ops(&node, &headers, Vec::new(), vec![Op { key, value: None }]).await
}

async fn batch(
    State(node): State<Arc<Node>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> ApiResult<Response> {
    let BatchBody { conditions, ops } = json(&headers, body)?;
    let condition = |body: ConditionBody| {
        let expected = body.expected.map(|value| value.0);
        Ok(Condition { key: checked_key(body.key.0)?, expected })
    };
    let op = |body: OpBody| checked_op(body.key.0, body.value.map(|value| value.0));
    let conditions = conditions.into_iter().map(condition).collect::<ApiResult<_>>()?;
    let ops = ops.into_iter().map(op).collect::<ApiResult<_>>()?;
    write_ops(&node, &headers, conditions, ops).await
}

async fn compare_and_set(
    State(node): State<Arc<Node>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> ApiResult<Response> {
    let CompareBody { key, expected, value } = json(&headers, body)?;
    let key = checked_key(key.0)?;
    let conditions =
        vec![Condition { key: key.clone(), expected: expected.map(|expected| expected.0) }];
    let ops = vec![checked_op(key, value.map(|value| value.0))?];
    write_ops(&node, &headers, conditions, ops).await
}

async fn open_session(State(node): State<Arc<Node>>) -> ApiResult<Json<SessionBody>> {
    match write(&node, &HeaderMap::new(), Command::OpenSession).await? {
        (_, Outcome::Session(session)) => Ok(Json(SessionBody { session })),
        (_, outcome) => Err(ApiError::internal(format!("a session was opened as {outcome:?}"))),
    }
}

async fn range(State(node): State<Arc<Node>>, uri: Uri) -> ApiResult<Json<Page>> {
    let query = Query::parse(&uri, &["prefix", "from", "to", "after", "limit", "read"])?;
    let limit: usize = query.parsed("limit")?.unwrap_or(100);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(ApiError::bad(format!("`limit` is from 1 to {MAX_PAGE}")));
    }
    let prefix = query.bytes("prefix").unwrap_or_default();
    let from = query.bytes("from").unwrap_or_default().max(prefix.clone());
    let (after, to) = (query.bytes("after"), query.bytes("to"));
    let freshness: Read = query.parsed("read")?.unwrap_or_default();
    node.counters.reads.fetch_add(1, Ordering::Relaxed);
    let page = node.read(freshness, move |node| {
        let state = node.store.state();
        let mut cursor = state.data().cursor()?;
        let mut valid = cursor.seek(after.as_ref().map_or(&from, |after| after.max(&from)))?;
        if valid && after.as_deref() == Some(cursor.key()) {
            valid = cursor.next()?;
        }
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while valid
            && cursor.key().starts_with(&prefix)
            && to.as_deref().is_none_or(|to| cursor.key() < to)
        {
            if entries.len() == limit || bytes >= PAGE_BYTES {
                return Ok(Page { entries, more: true });
            }
            bytes += cursor.key().len() + cursor.value().len();
            let key = Text(Bytes::copy_from_slice(cursor.key()));
            entries.push(Entry { key, value: Text(cursor.value_bytes()) });
            valid = cursor.next()?;
        }
        Ok(Page { entries, more: false })
    });
    Ok(Json(page.await?))
}
