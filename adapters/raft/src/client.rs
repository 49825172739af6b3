//! A client of the service. The client finds the leader, follows changes of the leader, and retries
//! each request until the deadline. Each write has an id within a session of the cluster, so that a
//! retried write is applied only once.

mod watch;

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::command::{Condition, Op};
use crate::service::Text;
use crate::service::api::{
    BatchBody, ConditionBody, ErrorBody, InitBody, JoinBody, LeaveBody, Listing, OpBody, Page,
    SessionBody, Written,
};
use crate::service::api::{SEQUENCE, SESSION};
use crate::service::tls::Trust;
use crate::service::wire::{Answer, Call, MAX_PATH_BYTES, Wire};
use crate::service::{Read, Status, encode_percent};
use crate::store::StoreOptions;

/// The reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientError {
    /// The cluster refused the request with this HTTP status and message.
    Refused(u16, String),
    /// The request was not served before the deadline. A write may already have been applied, or
    /// may be applied later.
    Deadline(String),
    /// A file could not be read, or an argument is invalid, such as a key that is too long for a
    /// request.
    Invalid(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Refused(status, what) => write!(f, "{what} ({status})"),
            ClientError::Deadline(what) => write!(f, "not served in time; last: {what}"),
            ClientError::Invalid(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ClientError {}

/// The result of a request.
pub type ClientResult<T> = std::result::Result<T, ClientError>;

/// Minimum time limit for one attempt. The time limit is usually a quarter of the deadline.
/// Attempts need a time limit because a leader that is cut off from the other nodes does not
/// answer.
const MIN_ATTEMPT: Duration = Duration::from_millis(500);
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
/// Number of attempts to read one chunk of a backup.
const CHUNK_ATTEMPTS: u32 = 5;
/// Number of bytes of a request for which its time limits grow by a second.
const BYTES_PER_SECOND: usize = 128 << 10;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// A client of a cluster. Thread-safe; requests may run concurrently.
pub struct Client {
    wire: Wire,
    deadline: Duration,
    /// Addresses of nodes, and the index of the next address to try.
    nodes: Mutex<Nodes>,
    /// Sessions that no running request uses.
    sessions: Mutex<Vec<ClientSession>>,
}

struct Nodes {
    addresses: Vec<String>,
    next: usize,
    leader: Option<String>,
}

struct ClientSession {
    number: u64,
    next: u64,
}

/// A request that may be sent several times.
#[derive(Clone)]
struct Ask<'a> {
    method: Method,
    path: &'a str,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
    /// Whether nodes other than the leader may answer.
    anywhere: bool,
    /// Whether one attempt may take all the time until the deadline.
    patient: bool,
}

/// The answer to a request that was served or refused.
struct Exchange {
    answer: Answer,
    /// The address of the node that answered.
    node: String,
    /// Whether an earlier attempt may have been applied, or may be applied later.
    is_repeated: bool,
}

/// Result of sending a request once.
enum Attempt {
    /// The node at this address served or refused the request.
    Answered(Answer, String),
    /// The node redirected to the leader. Holds the node's message.
    Redirected(String),
    /// The node cannot be reached, or cannot serve requests for now, and has changed nothing. Holds
    /// the reason.
    Unserved(String),
    /// The node did not answer, or does not know the outcome. Holds the reason.
    Unknown(String),
}

impl Client {
    /// Creates a client of a cluster. `addresses` lists nodes of the cluster as `host:port`; the
    /// address of one node is enough.
    ///
    /// # Errors
    /// [`ClientError::Invalid`] if there is no address, or a file of `trust` cannot be read.
    pub fn new(addresses: &[String], trust: &Trust, deadline: Duration) -> ClientResult<Client> {
        if addresses.is_empty() {
            return Err(ClientError::Invalid("no address of a node".into()));
        }
        let tls = trust.client_config().map_err(ClientError::Invalid)?;
        let token = trust.token().map_err(ClientError::Invalid)?;
        let nodes = Nodes { addresses: addresses.to_vec(), next: 0, leader: None };
        Ok(Client {
            wire: Wire::new(tls, token),
            deadline,
            nodes: Mutex::new(nodes),
            sessions: Mutex::new(Vec::new()),
        })
    }

    /// Returns the value of `key`, or `None` if the key is absent.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get(&self, key: &[u8], read: Read) -> ClientResult<Option<Bytes>> {
        let path = format!("/v1/kv/{}?read={}", encode_percent(key), name_of(read));
        let answer = self.ask(&get(&path, read == Read::Stale)).await?;
        match answer.status {
            StatusCode::OK => Ok(Some(answer.body)),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(refused(&answer)),
        }
    }

    /// Sets the value of `key`, and returns the index of the write's log entry.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn put(&self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> ClientResult<u64> {
        Ok(self.write_one(Method::PUT, &key.into(), value.into()).await?.1)
    }

    /// Deletes `key`, and returns the index of the deletion's log entry.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn delete(&self, key: impl Into<Bytes>) -> ClientResult<u64> {
        Ok(self.write_one(Method::DELETE, &key.into(), Bytes::new()).await?.1)
    }

    /// Sets the value of `key` to `value` if the current value is `expected`. Returns whether the
    /// current value was `expected`. An `expected` of `None` means that the key must be absent; a
    /// `value` of `None` deletes the key.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn compare_and_set(
        &self,
        key: impl Into<Bytes>,
        expected: Option<Bytes>,
        value: Option<Bytes>,
    ) -> ClientResult<bool> {
        let key = key.into();
        let condition = Condition { key: key.clone(), expected };
        Ok(self.write(vec![condition], vec![Op { key, value }]).await?.0)
    }

    /// Makes all changes in `ops` if all conditions hold. Returns whether the conditions held, and
    /// the index of the write's log entry.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn write(
        &self,
        conditions: Vec<Condition>,
        ops: Vec<Op>,
    ) -> ClientResult<(bool, u64)> {
        let condition = |condition: Condition| ConditionBody {
            key: Text(condition.key),
            expected: condition.expected.map(Text),
        };
        let op = |op: Op| OpBody { key: Text(op.key), value: op.value.map(Text) };
        let conditions = conditions.into_iter().map(condition).collect();
        let body = json(&BatchBody { conditions, ops: ops.into_iter().map(op).collect() })?;
        self.write_in_session(Method::POST, "/v1/batch", JSON, body).await
    }

    async fn write_one(
        &self,
        method: Method,
        key: &[u8],
        value: Bytes,
    ) -> ClientResult<(bool, u64)> {
        let path = format!("/v1/kv/{}", encode_percent(key));
        self.write_in_session(method, &path, OCTETS, value).await
    }

    async fn write_in_session(
        &self,
        method: Method,
        path: &str,
        kind: HeaderValue,
        body: Bytes,
    ) -> ClientResult<(bool, u64)> {
        let headers = vec![(header::CONTENT_TYPE, kind)];
        let ask = Ask { method, path, headers, body, anywhere: false, patient: false };
        let session = self.take_session().await?;
        let mut exchange = self.ask_in_session(&ask, session).await?;
        if exchange.answer.status == StatusCode::GONE && !exchange.is_repeated {
            // Nothing was applied: the session was idle for too long, as those that are left may
            // have been.
            let session = self.open_session().await?;
            exchange = self.ask_in_session(&ask, session).await?;
        }
        let answer = exchange.answer;
        match answer.status {
            StatusCode::OK | StatusCode::PRECONDITION_FAILED => {
                let written: Written = parse_any(&answer)?;
                Ok((written.succeeded, written.index))
            }
            _ => Err(refused(&answer)),
        }
    }

    /// Sends a write as the next one in `session`, and keeps the session unless it has expired.
    async fn ask_in_session(
        &self,
        ask: &Ask<'_>,
        mut session: ClientSession,
    ) -> ClientResult<Exchange> {
        let mut ask = ask.clone();
        ask.headers.push((HeaderName::from_static(SESSION), session.number.into()));
        ask.headers.push((HeaderName::from_static(SEQUENCE), session.next.into()));
        session.next += 1;
        let exchange = self.ask_node(&ask).await;
        let is_gone =
            matches!(&exchange, Ok(exchange) if exchange.answer.status == StatusCode::GONE);
        if !is_gone {
            // The session is reused even after a failure. The failed request may still be in
            // flight, but the next request in the session supersedes it.
            lock(&self.sessions).push(session);
        }
        exchange
    }

    /// Returns a page of the entries whose keys begin with `prefix` and come after `after`, and
    /// whether there are more such entries.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn range(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        read: Read,
    ) -> ClientResult<(Vec<(Bytes, Bytes)>, bool)> {
        let mut path = format!("/v1/range?limit={limit}&read={}", name_of(read));
        if let Some(after) = after {
            path += &format!("&after={}", encode_percent(after));
        }
        let parameter = format!("&prefix={}", encode_percent(prefix));
        // If both do not fit, the keys of the range are the first ones of the page.
        let is_after_prefix = after.is_some_and(|after| after.starts_with(prefix));
        if path.len() + parameter.len() <= MAX_PATH_BYTES || !is_after_prefix {
            path += &parameter;
        }
        let page: Page = parse(&self.ask(&get(&path, read == Read::Stale)).await?)?;
        let is_inside = |key: &[u8]| key.starts_with(prefix);
        let more = page.more && page.entries.last().is_none_or(|last| is_inside(&last.key.0));
        let entries = page.entries.into_iter().map(|entry| (entry.key.0, entry.value.0));
        Ok((entries.take_while(|(key, _)| is_inside(key)).collect(), more))
    }

    /// Returns the status of the cluster, as known to the first node that answers.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn status(&self) -> ClientResult<Status> {
        parse(&self.ask(&get("/v1/status", true)).await?)
    }

    /// Creates a cluster of `members`. If `members` is empty, the cluster consists of the node that
    /// receives the request.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn init(&self, members: &[(u64, String)]) -> ClientResult<Status> {
        let body = InitBody { members: members.iter().cloned().collect() };
        self.change("/v1/cluster/init", &body, true).await
    }

    /// Adds the node `id` at `address` to the cluster.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn join(&self, id: u64, address: &str) -> ClientResult<Status> {
        let body = JoinBody { id, address: address.into() };
        self.change("/v1/cluster/join", &body, false).await
    }

    /// Removes the node `id` from the cluster.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn leave(&self, id: u64) -> ClientResult<Status> {
        self.change("/v1/cluster/leave", &LeaveBody { id }, false).await
    }

    async fn change(
        &self,
        path: &str,
        body: &impl Serialize,
        anywhere: bool,
    ) -> ClientResult<Status> {
        let (method, body) = (Method::POST, json(body)?);
        let headers = vec![(header::CONTENT_TYPE, JSON)];
        let ask = Ask { method, path, headers, body, anywhere, patient: true };
        parse(&self.ask(&ask).await?)
    }

    /// Copies the leader's state into the empty directory `dir`, as a minikv database with a
    /// listing, and checks the copy. Returns the number of files, their total size in bytes, and
    /// the index of the last log entry that the state includes. The contents of the files are
    /// durable, but their directory entries may not be durable yet.
    ///
    /// # Errors
    /// [`ClientError::Invalid`] if the copy is damaged or cannot be written; see [`ClientError`].
    pub async fn backup_into(&self, dir: &Path) -> ClientResult<(usize, u64, u64)> {
        let (method, body) = (Method::POST, Bytes::new());
        let path = "/v1/backup";
        let ask = Ask { method, path, headers: Vec::new(), body, anywhere: false, patient: true };
        let Exchange { answer, node, .. } = self.ask_node(&ask).await?;
        let listing: Listing = parse(&answer)?;
        let copied = self.copy_files(&node, &listing, dir).await;
        // If nobody releases the backup, the node does so after a while.
        let path = format!("/v1/backup/{}", listing.id);
        let _ = self.send_to(&node, Method::DELETE, &path).await;
        let (total, index) = (copied?, listing.index.unwrap_or(0));
        let dir = dir.to_path_buf();
        let seal = move || crate::store::backup::seal(&dir, index, &StoreOptions::default());
        let sealed = tokio::task::spawn_blocking(seal).await;
        let sealed = sealed.map_err(|e| ClientError::Invalid(e.to_string()))?;
        sealed.map_err(|e| ClientError::Invalid(e.to_string()))?;
        Ok((listing.files.len(), total, index))
    }

    /// Copies the files of a backup from the node that made it. Returns their total size in bytes.
    async fn copy_files(&self, node: &str, listing: &Listing, dir: &Path) -> ClientResult<u64> {
        let mut total = 0;
        for (number, file) in listing.files.iter().enumerate() {
            if !file.has_good_name() {
                let what = format!("a file `{}` is no part of a backup", file.name);
                return Err(ClientError::Invalid(what));
            }
            let path = dir.join(&file.name);
            let failed = |e: io::Error| ClientError::Invalid(format!("{}: {e}", path.display()));
            let mut copy = File::create(&path).map_err(failed)?;
            let mut offset = 0;
            while offset < file.bytes {
                let path = format!("/v1/backup/{}/{number}/{offset}", listing.id);
                let chunk = self.read_chunk(node, &path).await?;
                if chunk.is_empty() {
                    return Err(ClientError::Invalid(format!("{} ends too early", file.name)));
                }
                copy.write_all(&chunk).map_err(failed)?;
                offset += chunk.len() as u64;
            }
            copy.sync_all().map_err(failed)?;
            total += offset;
        }
        Ok(total)
    }

    /// Reads a chunk of a file of a backup, if necessary several times.
    async fn read_chunk(&self, node: &str, path: &str) -> ClientResult<Bytes> {
        let mut attempts = 1;
        loop {
            match self.send_to(node, Method::GET, path).await {
                Ok(answer) if answer.status == StatusCode::OK => return Ok(answer.body),
                Ok(answer) if attempts == CHUNK_ATTEMPTS || !is_for_now(answer.status) => {
                    return Err(refused(&answer));
                }
                Err(error) if attempts == CHUNK_ATTEMPTS => return Err(error),
                _ => tokio::time::sleep(LONGEST_PAUSE).await,
            }
            attempts += 1;
        }
    }

    /// Sends a request without a body to one node, once.
    async fn send_to(&self, to: &str, method: Method, path: &str) -> ClientResult<Answer> {
        let (headers, body, timeout) = (Vec::new(), Bytes::new(), self.deadline);
        let answer = self.wire.send(Call { method, to, path, headers, body, timeout }).await;
        answer.map_err(|e| ClientError::Deadline(e.to_string()))
    }

    async fn take_session(&self) -> ClientResult<ClientSession> {
        let session = lock(&self.sessions).pop();
        match session {
            Some(session) => Ok(session),
            None => self.open_session().await,
        }
    }

    async fn open_session(&self) -> ClientResult<ClientSession> {
        let (method, body) = (Method::POST, Bytes::new());
        let path = "/v1/sessions";
        let ask = Ask { method, path, headers: Vec::new(), body, anywhere: false, patient: false };
        let opened: SessionBody = parse(&self.ask(&ask).await?)?;
        Ok(ClientSession { number: opened.session, next: 1 })
    }

    /// Sends a request repeatedly until a node serves or refuses the request.
    async fn ask(&self, ask: &Ask<'_>) -> ClientResult<Answer> {
        Ok(self.ask_node(ask).await?.answer)
    }

    /// Does the same as [`Client::ask`], and also returns the node, and whether an earlier attempt
    /// may have been applied.
    async fn ask_node(&self, ask: &Ask<'_>) -> ClientResult<Exchange> {
        check_path(ask.path)?;
        let deadline = Instant::now() + self.deadline + transfer(&ask.body);
        let (mut pause, mut is_repeated) = (FIRST_PAUSE, false);
        loop {
            let attempt = self.attempt(ask, deadline).await?;
            let is_unknown = matches!(attempt, Attempt::Unknown(_));
            let failure = match attempt {
                Attempt::Answered(answer, node) => {
                    return Ok(Exchange { answer, node, is_repeated });
                }
                Attempt::Redirected(_) if Instant::now() < deadline => continue,
                Attempt::Redirected(what) | Attempt::Unserved(what) | Attempt::Unknown(what) => {
                    what
                }
            };
            is_repeated |= is_unknown;
            if Instant::now() + pause >= deadline {
                return Err(ClientError::Deadline(failure));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Sends a request once, and updates the node to send the next attempt to.
    async fn attempt(&self, ask: &Ask<'_>, deadline: Instant) -> ClientResult<Attempt> {
        let to = self.target(ask.anywhere);
        let longest = match ask.patient {
            true => self.deadline,
            false => (self.deadline / 4).max(MIN_ATTEMPT),
        };
        let longest = longest + transfer(&ask.body);
        let call = Call {
            method: ask.method.clone(),
            to: &to,
            path: ask.path,
            headers: ask.headers.clone(),
            body: ask.body.clone(),
            timeout: deadline.saturating_duration_since(Instant::now()).min(longest),
        };
        match self.wire.send(call).await {
            Err(error) => {
                self.give_up(&to);
                let what = error.to_string();
                match error.is_unsent {
                    true => Ok(Attempt::Unserved(what)),
                    false => Ok(Attempt::Unknown(what)),
                }
            }
            Ok(answer) if answer.status == StatusCode::TEMPORARY_REDIRECT => {
                let body: ErrorBody = parse_any(&answer)?;
                self.follow(&to, body.leader.unwrap_or_default(), deadline).await;
                Ok(Attempt::Redirected(body.error))
            }
            Ok(answer) if is_for_now(answer.status) => {
                self.give_up(&to);
                match answer.status {
                    StatusCode::SERVICE_UNAVAILABLE => Ok(Attempt::Unserved(answer.message())),
                    _ => Ok(Attempt::Unknown(answer.message())),
                }
            }
            Ok(answer) => {
                if !ask.anywhere {
                    lock(&self.nodes).leader = Some(to.clone());
                }
                Ok(Attempt::Answered(answer, to))
            }
        }
    }

    /// Makes the next attempt use `leader`, to which the node `from` redirected. If `from` was
    /// known as the leader, the leader has just changed: waits briefly, to avoid a tight loop.
    async fn follow(&self, from: &str, leader: String, deadline: Instant) {
        let known = lock(&self.nodes).leader.replace(leader);
        if known.as_deref() == Some(from) && Instant::now() < deadline {
            tokio::time::sleep(FIRST_PAUSE).await;
        }
    }

    fn target(&self, anywhere: bool) -> String {
        let nodes = lock(&self.nodes);
        let next = || nodes.addresses[nodes.next % nodes.addresses.len()].clone();
        match &nodes.leader {
            Some(leader) if !anywhere => leader.clone(),
            _ => next(),
        }
    }

    /// Makes the next attempt use the next address. If `node` was known as the leader, forgets the
    /// leader.
    fn give_up(&self, node: &str) {
        let mut nodes = lock(&self.nodes);
        nodes.next += 1;
        if nodes.leader.as_deref() == Some(node) {
            nodes.leader = None;
        }
    }
}

/// Returns the additional time that a request with this body may take.
fn transfer(body: &Bytes) -> Duration {
    Duration::from_secs_f64(body.len() as f64 / BYTES_PER_SECOND as f64)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn get(path: &str, anywhere: bool) -> Ask<'_> {
    let (method, body) = (Method::GET, Bytes::new());
    Ask { method, path, headers: Vec::new(), body, anywhere, patient: false }
}

/// Checks that a path fits into a URI, so that it need not be tried at each node.
fn check_path(path: &str) -> ClientResult<()> {
    match path.len() {
        ..=MAX_PATH_BYTES => Ok(()),
        bytes => Err(ClientError::Invalid(format!(
            "a path of {bytes} bytes, with a percent-encoded key; {MAX_PATH_BYTES} are allowed"
        ))),
    }
}

fn name_of(read: Read) -> &'static str {
    match read {
        Read::Linearizable => "linearizable",
        Read::Lease => "lease",
        Read::Stale => "stale",
    }
}

/// Returns whether the status is temporary, so that another attempt may succeed.
fn is_for_now(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
            | StatusCode::INTERNAL_SERVER_ERROR
    )
}

fn json(body: &impl Serialize) -> ClientResult<Bytes> {
    let body = serde_json::to_vec(body).map_err(|e| ClientError::Invalid(e.to_string()))?;
    Ok(body.into())
}

fn refused(answer: &Answer) -> ClientError {
    ClientError::Refused(answer.status.as_u16(), answer.message())
}

fn parse_any<T: DeserializeOwned>(answer: &Answer) -> ClientResult<T> {
    serde_json::from_slice(&answer.body)
        .map_err(|e| ClientError::Refused(answer.status.as_u16(), format!("the answer: {e}")))
}

fn parse<T: DeserializeOwned>(answer: &Answer) -> ClientResult<T> {
    match answer.status {
        StatusCode::OK => parse_any(answer),
        _ => Err(refused(answer)),
    }
}
