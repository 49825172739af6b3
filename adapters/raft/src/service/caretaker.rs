//! A task that looks after the cluster: it gives an id to a cluster that an older version made, and
//! completes a change of the membership that an earlier leader left half done. It also looks for
//! the directory of the node.

use std::sync::{Arc, Weak};
use std::time::Duration;

use openraft::{ChangeMembers, ServerState};

use crate::service::error::{ApiError, ApiResult};
use crate::service::leading::forgets;
use crate::service::node::Node;
use crate::service::peers;

const INTERVAL: Duration = Duration::from_secs(1);
/// The number of intervals after which a change of the membership counts as abandoned. The request
/// that began the change completes it at once, if it can.
const ABANDONED_INTERVALS: u32 = 5;

/// Runs until the node is dropped or Raft has stopped.
pub(crate) async fn run(node: Weak<Node>) {
    let (mut is_settled, mut joint_intervals) = (false, 0);
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(node) = node.upgrade() else { return };
        if node.failure().is_some() {
            return;
        }
        node.check_home().await;
        if !is_settled {
            is_settled = settle(&node).await.unwrap_or(false);
        }
        joint_intervals = if has_joint_config(&node) { joint_intervals + 1 } else { 0 };
        if joint_intervals >= ABANDONED_INTERVALS {
            // openraft refuses this while the joint configuration is not committed. The change of
            // no node at all leads from the joint configuration to the new one.
            let none = ChangeMembers::AddVoterIds([].into());
            let forgets = forgets(&node.raft);
            tokio::select! {
                _ = node.raft.change_membership(none, false) => {}
                () = forgets => {}
            }
            joint_intervals = 0;
        }
    }
}

fn has_joint_config(node: &Node) -> bool {
    let metrics = node.raft.metrics();
    let metrics = metrics.borrow();
    metrics.state == ServerState::Leader
        && metrics.membership_config.membership().get_joint_config().len() > 1
}

/// Makes sure that all members have the id of the cluster. Returns whether they have.
async fn settle(node: &Arc<Node>) -> ApiResult<bool> {
    let others = node.other_members();
    if node.identity.cluster().is_none() {
        if !node.leads() || !node.identity.hello().has_data {
            return Ok(false);
        }
        make_id(node, &others).await?;
    }
    let Some(own) = node.identity.cluster() else { return Ok(false) };
    let mut all_have_it = true;
    for (id, address) in &others {
        let hello = peers::hello_of(node, *id, address).await;
        all_have_it &= match hello {
            Ok(hello) if hello.cluster.as_ref() == Some(&own) => true,
            Ok(hello) if hello.cluster.is_none() && hello.has_data => {
                peers::claim(node, &own, *id, address).await.is_ok()
            }
            _ => false,
        };
    }
    Ok(all_have_it && !others.is_empty())
}

/// Gives an id to a cluster that an older version made, if all members run this version. If an
/// earlier leader has begun to do so, continues with its id.
async fn make_id(node: &Arc<Node>, others: &[(u64, String)]) -> ApiResult<()> {
    let _busy = node.identity.make_busy()?;
    node.rounds.next().await?;
    let mut found = None;
    for (id, address) in others {
        let hello = peers::hello_of(node, *id, address).await?;
        if hello.is_busy {
            return Err(ApiError::Unavailable(format!("node {id} is making a cluster")));
        }
        found = found.or(hello.cluster);
    }
    let adopted = match found {
        Some(cluster) => node.identity.adopt(&cluster),
        None => node.identity.make_cluster().map(drop),
    };
    adopted.map_err(ApiError::internal)
}
