//! The status of a cluster, as one node knows it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::service::leading::{leader, was_removed};
use crate::service::node::Node;

/// The status of the cluster, as one node knows it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Status {
    /// The number of this node.
    pub id: u64,
    /// The address of this node.
    pub address: String,
    /// The id of the cluster, or `None` if this node belongs to no cluster yet.
    #[serde(default)]
    pub cluster: Option<String>,
    /// The role of this node: `Leader`, `Follower`, `Candidate`, `Learner`, or `Removed` for a
    /// leader that is no longer a member.
    pub role: String,
    /// The current term of this node.
    pub term: u64,
    /// The number of the leader, if this node knows a leader.
    pub leader: Option<u64>,
    /// The index of the last entry in this node's log.
    pub last_log: Option<u64>,
    /// The index of the last entry that this node has applied.
    pub applied: Option<u64>,
    /// The index of the last entry in this node's latest snapshot.
    pub snapshot: Option<u64>,
    /// The index of the last entry that was purged from the log.
    pub purged: Option<u64>,
    /// The nodes that vote: one set of nodes, or two sets during a change of the membership.
    pub voters: Vec<BTreeSet<u64>>,
    /// All nodes, with their addresses.
    pub nodes: BTreeMap<u64, String>,
    /// For each node, the index of the last log entry that the node has. Empty unless this node is
    /// the leader.
    pub replicated: BTreeMap<u64, Option<u64>>,
    /// The layout of this node: log and state in one database, or in two.
    pub layout: String,
    /// The reason why Raft has stopped on this node, if it has.
    pub failure: Option<String>,
    /// The reason why this node cannot serve requests at present, which `/health` reports.
    #[serde(default)]
    pub problem: Option<String>,
    /// Messages between this node and others that are refused at present, such as those of another
    /// cluster.
    #[serde(default)]
    pub refused: Vec<String>,
}

pub(crate) fn status(node: &Node) -> Status {
    let metrics = node.raft.metrics().borrow().clone();
    let membership = metrics.membership_config.membership();
    let is_removed = was_removed(&metrics, node.id);
    let leader = leader(&metrics, node.id);
    let replicated = metrics.replication.unwrap_or_default();
    Status {
        id: node.id,
        address: node.identity.address.clone(),
        cluster: node.identity.cluster(),
        role: if is_removed { "Removed".into() } else { format!("{:?}", metrics.state) },
        term: metrics.current_term,
        leader,
        last_log: metrics.last_log_index,
        applied: metrics.last_applied.map(|id| id.index),
        snapshot: metrics.snapshot.map(|id| id.index),
        purged: metrics.purged.map(|id| id.index),
        voters: membership.get_joint_config().clone(),
        nodes: membership.nodes().map(|(id, node)| (*id, node.addr.clone())).collect(),
        replicated: replicated.iter().map(|(id, at)| (*id, at.map(|at| at.index))).collect(),
        layout: format!("{:?}", node.store.layout()).to_lowercase(),
        failure: node.failure(),
        problem: node.problem(),
        refused: node.identity.refused(),
    }
}
