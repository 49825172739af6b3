//! The cluster that a node belongs to, checked on every message between nodes.
//!
//! A cluster has a random id, which the node that creates the cluster makes. Before that node
//! begins, it *claims* all other members, and before a node joins, the leader claims it: the node
//! stores the id. A node that was never claimed takes no messages, so a member whose directory was
//! emptied is noticed: it must be removed and join again, as it has forgotten its votes and the
//! entries that it confirmed.
//!
//! A directory made by an older version has data and no id. As soon as every member runs this
//! version, the leader makes an id and claims the others (see `caretaker.rs`). Until then such
//! nodes take messages that name no cluster.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};

use crate::service::error::{ApiError, ApiResult};
use crate::service::notices::notice;
use crate::store::cluster::{ClusterFile, is_cluster_id};
use crate::store::{Result, Store};

/// Header with the number of the sending node.
pub(crate) const FROM: HeaderName = HeaderName::from_static("raft-from");
/// Header with the id of the sender's cluster.
const CLUSTER: HeaderName = HeaderName::from_static("raft-cluster");
/// Header with the version of the messages between nodes. Versions before 1 had no such header.
const VERSION_HEADER: HeaderName = HeaderName::from_static("raft-version");
/// The version of the messages between nodes, including those of the stream. Messages of version 1
/// had no checksums.
pub(crate) const VERSION: u32 = 2;

/// The answer of a node that is asked who it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) version: u32,
    pub(crate) id: u64,
    pub(crate) cluster: Option<String>,
    /// Whether the node has a log or a vote.
    pub(crate) has_data: bool,
    /// Whether the node is making a cluster at the moment.
    pub(crate) is_busy: bool,
}

/// The message that gives a node the id of a cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    pub(crate) version: u32,
    pub(crate) cluster: String,
    pub(crate) from: u64,
    /// The address of the sender, as the cluster knows it.
    pub(crate) address: String,
    pub(crate) to: u64,
}

/// The number, the address and the cluster of this node.
pub(crate) struct Identity {
    pub(crate) id: u64,
    pub(crate) address: String,
    store: Arc<Store>,
    known: RwLock<Option<ClusterFile>>,
    has_data: AtomicBool,
    is_busy: AtomicBool,
    /// For each node, why it refused the last message, or why its last message was refused here.
    refusals: Mutex<Refusals>,
}

#[derive(Default)]
struct Refusals {
    sent: BTreeMap<u64, String>,
    received: BTreeMap<u64, String>,
}

/// Marks the node as making a cluster until it is dropped.
pub(crate) struct Busy<'a>(&'a AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Identity {
    pub(crate) fn new(id: u64, address: String, store: Arc<Store>) -> Result<Identity> {
        Ok(Identity {
            id,
            address,
            known: RwLock::new(store.cluster()?),
            store,
            has_data: AtomicBool::new(false),
            is_busy: AtomicBool::new(false),
            refusals: Mutex::default(),
        })
    }

    /// Records whether the node had a log or a vote when it started.
    pub(crate) fn set_has_data(&self, has_data: bool) {
        self.has_data.store(has_data, Ordering::SeqCst);
    }

    /// Returns the cluster of this node.
    pub(crate) fn known(&self) -> Option<ClusterFile> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn cluster(&self) -> Option<String> {
        self.known().map(|known| known.cluster)
    }

    pub(crate) fn hello(&self) -> Hello {
        Hello {
            version: VERSION,
            id: self.id,
            cluster: self.cluster(),
            has_data: self.has_data(),
            is_busy: self.is_busy.load(Ordering::SeqCst),
        }
    }

    /// Marks this node as making a cluster. Two nodes that do so at the same time each see the mark
    /// of the other, so at most one of them goes on.
    pub(crate) fn make_busy(&self) -> ApiResult<Busy<'_>> {
        match self.is_busy.swap(true, Ordering::SeqCst) {
            false => Ok(Busy(&self.is_busy)),
            true => Err(ApiError::Unavailable("the node is making a cluster already".into())),
        }
    }

    /// Returns the id of this node's cluster. Makes the id first if there is none.
    pub(crate) fn make_cluster(&self) -> Result<String> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known {
            return Ok(known.cluster.clone());
        }
        let made = ClusterFile::random()?;
        self.store.set_cluster(&made)?;
        Ok(known.insert(made).cluster.clone())
    }

    /// Takes the id that another member of this node's cluster has.
    pub(crate) fn adopt(&self, cluster: &str) -> Result<()> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            let file = ClusterFile::claimed(cluster, "an earlier leader".into());
            self.store.set_cluster(&file)?;
            *known = Some(file);
        }
        Ok(())
    }

    /// Takes the id that another node gives, if this node may belong to that cluster. `member` is
    /// the address that this node knows for the sender, if the sender is a member of its cluster.
    pub(crate) fn accept(&self, claim: &Claim, member: Option<&str>) -> ApiResult<()> {
        let refused = |what| Err(ApiError::with(StatusCode::CONFLICT, what));
        let Claim { version, cluster, from, address, to } = claim;
        if *version != VERSION || !is_cluster_id(cluster) {
            return refused(format!("a claim of version {version}; this node knows {VERSION}"));
        }
        if *to != self.id {
            let what = format!("this is node {}, not node {to}", self.id);
            return Err(ApiError::with(StatusCode::NOT_FOUND, what));
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some(known) if known.cluster == *cluster => return Ok(()),
            Some(known) => return refused(self.other_cluster(&known.cluster, *from, cluster)),
            None => {}
        }
        if self.has_data() && member != Some(address.as_str()) {
            return refused(format!(
                "node {} has the data of a cluster in which there is no node {from} at {address}",
                self.id
            ));
        }
        let file = ClusterFile::claimed(cluster, format!("node {from} at {address}"));
        self.store.set_cluster(&file).map_err(ApiError::internal)?;
        *known = Some(file);
        Ok(())
    }

    fn has_data(&self) -> bool {
        self.has_data.load(Ordering::SeqCst)
    }

    fn other_cluster(&self, own: &str, from: u64, theirs: &str) -> String {
        let (id, address) = (self.id, &self.address);
        format!(
            "node {id} at {address} belongs to the cluster {own}, and node {from} to the cluster \
             {theirs}: an address in one of the clusters is wrong"
        )
    }

    /// Returns the headers of a message to another node.
    pub(crate) fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let mut headers =
            vec![(FROM, HeaderValue::from(self.id)), (VERSION_HEADER, HeaderValue::from(VERSION))];
        let cluster = self.cluster().and_then(|id| HeaderValue::try_from(id).ok());
        headers.extend(cluster.map(|id| (CLUSTER, id)));
        headers
    }

    /// Checks that a message comes from a node of the same cluster, which speaks the same version.
    pub(crate) fn check(&self, headers: &HeaderMap) -> ApiResult<()> {
        let from = sender(headers);
        let checked = self.check_headers(headers, from.unwrap_or(0));
        let refusal = checked.as_ref().err().map(ApiError::message);
        if let Some(from) = from {
            let mut refusals = self.refusals();
            note(&mut refusals.received, from, refusal, &format!("refuses node {from}"));
        }
        checked
    }

    fn check_headers(&self, headers: &HeaderMap, from: u64) -> ApiResult<()> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let refused = |what| Err(ApiError::with(StatusCode::CONFLICT, what));
        let version = text(VERSION_HEADER).unwrap_or("0");
        if version != VERSION.to_string() {
            return refused(format!(
                "messages of version {version}; this node knows {VERSION}: stop all nodes, then \
                 start all of them with one version of minikv-raft"
            ));
        }
        let theirs = text(CLUSTER).filter(|id| is_cluster_id(id));
        match (self.cluster(), theirs) {
            (Some(own), Some(theirs)) if own == theirs => Ok(()),
            (Some(own), Some(theirs)) => refused(self.other_cluster(&own, from, theirs)),
            (Some(own), None) => refused(format!(
                "the message names no cluster, and node {} belongs to the cluster {own}: the \
                 sender runs an older version, or is not a node",
                self.id
            )),
            (None, None) if self.has_data() => Ok(()),
            (None, Some(theirs)) if self.has_data() => refused(format!(
                "the directory of node {} has no id of a cluster yet, and node {from} belongs to \
                 the cluster {theirs}",
                self.id
            )),
            (None, _) => refused(self.lost()),
        }
    }

    fn lost(&self) -> String {
        lost(self.id, &self.address)
    }

    /// Records that the node `to` has taken a message, or why it has refused one.
    pub(crate) fn sent(&self, to: u64, refusal: Option<String>) {
        note(&mut self.refusals().sent, to, refusal, &format!("is refused by node {to}"));
    }

    /// Lists the refusals between this node and others, as sentences.
    pub(crate) fn refused(&self) -> Vec<String> {
        let refusals = self.refusals();
        let sent = refusals.sent.iter().map(|(id, what)| format!("refused by node {id}: {what}"));
        let received = refusals.received.iter().map(|(id, what)| format!("refuses {id}: {what}"));
        sent.chain(received).collect()
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that a member has no data, and how to bring it back.
pub(crate) fn lost(id: u64, address: &str) -> String {
    format!(
        "node {id} at {address} has an empty directory, so it is not the member that it was: \
         remove it with `minikv-raft leave {id}`, then add it with `minikv-raft join \
         {id}={address}`"
    )
}

/// Maximum number of nodes for which a refusal is kept.
const MAX_REFUSALS: usize = 64;

/// Records a refusal, and prints it the first time.
fn note(of: &mut BTreeMap<u64, String>, id: u64, refusal: Option<String>, verb: &str) {
    match refusal {
        None => drop(of.remove(&id)),
        Some(what) if of.get(&id) == Some(&what) => {}
        // Whoever can reach this node chooses the number.
        Some(_) if of.len() >= MAX_REFUSALS && !of.contains_key(&id) => {}
        Some(what) => {
            notice(format_args!("this node {verb}: {what}"));
            of.insert(id, what);
        }
    }
}

/// Returns the number of the node that sent a request.
pub(crate) fn sender(headers: &HeaderMap) -> Option<u64> {
    headers.get(FROM).and_then(|id| id.to_str().ok()).and_then(|id| id.parse().ok())
}
