//! HTTP requests to other nodes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio_rustls::rustls::ClientConfig;

use crate::service::error::ErrorBody;
use crate::service::sums;
use crate::service::text::MAX_ENCODED_BYTES;

/// Maximum size of a response, in bytes. Pages of a range and chunks of a snapshot are smaller.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// Largest path of a request with its query, in bytes, which has a key in it.
pub(crate) const MAX_PATH_BYTES: usize = MAX_ENCODED_BYTES + 100;

/// A client for requests to nodes, with their certificate authority and token. Clones share
/// connections.
#[derive(Clone)]
pub(crate) struct Wire {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    scheme: &'static str,
    token: Option<Arc<HeaderValue>>,
}

/// A request.
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    /// `host:port`.
    pub(crate) to: &'a str,
    /// The path, followed by the query if there is one.
    pub(crate) path: &'a str,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
    pub(crate) timeout: Duration,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
    /// Whether the answer has a checksum, which is the right one.
    pub(crate) is_checked: bool,
}

impl Answer {
    /// Returns the description of the error that the answer reports.
    pub(crate) fn message(&self) -> String {
        match serde_json::from_slice::<ErrorBody>(&self.body) {
            Ok(body) => body.error,
            Err(_) => format!("status {}", self.status),
        }
    }
}

/// The reason why a request got no response.
#[derive(Debug)]
pub(crate) struct WireError {
    what: String,
    /// Whether there was no connection, so that nothing was sent.
    pub(crate) is_unsent: bool,
}

impl WireError {
    fn new(what: String) -> WireError {
        WireError { what, is_unsent: false }
    }

    fn of_request(to: &str, error: &hyper_util::client::legacy::Error) -> WireError {
        let is_unsent = error.is_connect();
        WireError { is_unsent, ..WireError::new(format!("{to}: {}", with_causes(error))) }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for WireError {}

impl Wire {
    /// Creates a client. The client uses TLS if `tls` is given.
    pub(crate) fn new(tls: Option<ClientConfig>, token: Option<Arc<HeaderValue>>) -> Wire {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.enforce_http(false);
        http.set_connect_timeout(Some(Duration::from_secs(2)));
        let tls = tls.unwrap_or_else(super::tls::no_authorities);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            // Shorter than the time after which a node closes an idle connection.
            .pool_idle_timeout(Duration::from_secs(5))
            .build(connector);
        Wire { client, scheme, token }
    }

    fn request(
        &self,
        method: Method,
        to: &str,
        path: &str,
        headers: Vec<(HeaderName, HeaderValue)>,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, WireError> {
        let uri = format!("{}://{to}{path}", self.scheme);
        let wrong = |error: axum::http::Error| WireError::new(format!("{uri}: {error}"));
        let mut request =
            Request::builder().method(method).uri(&uri).body(Full::new(body)).map_err(wrong)?;
        request.headers_mut().extend(headers.into_iter().map(|(name, value)| (Some(name), value)));
        if let Some(token) = &self.token {
            request.headers_mut().insert(header::AUTHORIZATION, (**token).clone());
        }
        Ok(request)
    }

    /// Opens a connection and switches it to the protocol `protocol`. Returns the other side's
    /// answer if it refuses.
    pub(crate) async fn upgrade(
        &self,
        to: &str,
        path: &str,
        mut headers: Vec<(HeaderName, HeaderValue)>,
        protocol: HeaderValue,
    ) -> Result<Result<Upgraded, Answer>, WireError> {
        headers.push((header::CONNECTION, HeaderValue::from_static("upgrade")));
        headers.push((header::UPGRADE, protocol));
        let request = self.request(Method::POST, to, path, headers, Bytes::new())?;
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|error| WireError::of_request(to, &error))?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return read(to, answer).await.map(Err);
        }
        let upgraded = hyper::upgrade::on(answer).await;
        upgraded.map(Ok).map_err(|error| WireError::new(format!("{to}: {}", with_causes(&error))))
    }

    /// Sends a GET whose answer has no end. Returns the body, or the answer if its status is not
    /// 200. `timeout` is the time until the head of the answer arrives.
    pub(crate) async fn open(
        &self,
        to: &str,
        path: &str,
        timeout: Duration,
    ) -> Result<Result<Incoming, Answer>, WireError> {
        let request = self.request(Method::GET, to, path, Vec::new(), Bytes::new())?;
        let answer = tokio::time::timeout(timeout, self.client.request(request)).await;
        let answer = answer.map_err(|_| late(to, timeout))?;
        let answer = answer.map_err(|error| WireError::of_request(to, &error))?;
        match answer.status() {
            StatusCode::OK => Ok(Ok(answer.into_body())),
            _ => read(to, answer).await.map(Err),
        }
    }

    pub(crate) async fn send(&self, call: Call<'_>) -> Result<Answer, WireError> {
        let Call { method, to, path, headers, body, timeout } = call;
        let request = self.request(method, to, path, headers, body)?;
        let exchange = async {
            let answer = self.client.request(request).await;
            read(to, answer.map_err(|error| WireError::of_request(to, &error))?).await
        };
        match tokio::time::timeout(timeout, exchange).await {
            Ok(result) => result,
            Err(_) => Err(late(to, timeout)),
        }
    }
}

fn late(to: &str, timeout: Duration) -> WireError {
    WireError::new(format!("{to}: no answer within {} ms", timeout.as_millis()))
}

/// Reads the body of an answer.
async fn read(to: &str, answer: axum::http::Response<Incoming>) -> Result<Answer, WireError> {
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
    let body = body.map_err(|error| WireError::new(format!("{to}: {}", with_causes(&*error))))?;
    let (status, body) = (head.status, body.to_bytes());
    let sum = sums::given(&head.headers);
    let is_checked = sum.is_some_and(|sum| sum == sums::of_answer(status, &body));
    Ok(Answer { status, body, is_checked })
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
