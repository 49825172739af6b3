//! Parsing of the parameters and bodies of requests.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use serde::de::DeserializeOwned;

use crate::service::error::{ApiError, ApiResult};
use crate::service::text::decode_percent;

/// The decoded parameters of a query string.
pub(crate) struct Query(Vec<(String, Bytes)>);

impl Query {
    pub(crate) fn parse(uri: &Uri, known: &[&str]) -> ApiResult<Query> {
        let mut parameters = Vec::new();
        let query = uri.query().unwrap_or_default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !known.contains(&name) {
                let known = known.join(", ");
                return Err(ApiError::bad(format!("`{name}` is unknown; there are {known}")));
            }
            if parameters.iter().any(|(earlier, _)| earlier == name) {
                return Err(ApiError::bad(format!("`{name}` is there twice")));
            }
            let Some(value) = decode_percent(value) else {
                return Err(ApiError::bad(format!("`{value}` is not percent-encoded")));
            };
            parameters.push((name.to_string(), Bytes::from(value)));
        }
        Ok(Query(parameters))
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<Bytes> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    pub(crate) fn parsed<T: DeserializeOwned>(&self, name: &str) -> ApiResult<Option<T>> {
        let Some(value) = self.bytes(name) else { return Ok(None) };
        let text = String::from_utf8_lossy(&value).into_owned();
        // The value of a number parameter is parsed as JSON. Any other value is parsed as a string.
        serde_json::from_str(&text)
            .or_else(|_| serde_json::from_value(text.clone().into()))
            .map(Some)
            .map_err(|_| ApiError::bad(format!("`{name}` cannot be `{text}`")))
    }
}

/// Parses a JSON body, which must have the type `application/json`. A page of another site can send
/// other types without asking, but not this one.
pub(crate) fn json<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> ApiResult<T> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let what = "a JSON body needs the header `content-type: application/json`";
        return Err(ApiError::with(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
    }
    serde_json::from_slice(&body_of(body)?).map_err(|e| ApiError::bad(format!("the body: {e}")))
}

pub(crate) fn body_of(body: Result<Bytes, BytesRejection>) -> ApiResult<Bytes> {
    body.map_err(|rejection| ApiError::with(rejection.status(), rejection.body_text()))
}
