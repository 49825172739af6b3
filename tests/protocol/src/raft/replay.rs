//! The replay of a trace of the real store against the model.

use std::collections::BTreeMap;

use crate::disk::{Refusal, refuse};
use crate::raft::explore::{ALWAYS, CLEAN, INSTALLS, STARTS, keeps};
use crate::raft::files::{Entry, Index, Place, Term};
use crate::raft::found::find;
use crate::raft::laws::Laws;
use crate::raft::replica::{Move, Replica};
use crate::raft::take::take;

/// A node as it was found by an open of the real store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    pub vote: Term,
    /// The entries that are not purged.
    pub log: BTreeMap<Index, Term>,
    pub purged: Index,
    pub applied: Index,
    pub snapshot: Index,
}

/// A step of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A step of the model. The number of a state or a snapshot that is removed does not matter.
    Took(Move),
    /// Power was lost. What has survived is not known.
    LostPower,
    /// The store was opened, and this was found.
    Opened(Sight),
}

/// Replays a trace that begins with a new node. Returns the number of states in which the model may
/// be at its end.
///
/// # Errors
/// The index of the first step that the model does not allow, and the reason.
pub fn replay_node(laws: &Laws, trace: &[Seen]) -> Result<usize, (usize, Refusal)> {
    let mut nodes = vec![Replica::new(laws)];
    for (at, seen) in trace.iter().enumerate() {
        nodes = advance(laws, &nodes, seen).map_err(|why| (at, why))?;
    }
    Ok(nodes.len())
}

/// Returns all states to which a step may lead from one of the states.
fn advance(laws: &Laws, nodes: &[Replica], seen: &Seen) -> Result<Vec<Replica>, Refusal> {
    let (mut next, mut why) = (Vec::new(), Refusal("no state is left".into()));
    for node in nodes {
        for after in follow(laws, node, seen) {
            match after {
                Ok(after) if next.contains(&after) => {}
                Ok(after) => next.push(after),
                Err(refusal) => why = refusal,
            }
        }
    }
    if next.is_empty() { Err(why) } else { Ok(next) }
}

fn follow(laws: &Laws, node: &Replica, seen: &Seen) -> Vec<Result<Replica, Refusal>> {
    match seen {
        Seen::Opened(sight) => vec![open(laws, node, sight)],
        Seen::LostPower => {
            let images = node.files.images().into_iter();
            let loss = |image| take(laws, node, &Move::PowerLoss(Box::new(image)));
            images.map(loss).collect()
        }
        Seen::Took(Move::Remove(place)) => {
            let is_alike =
                |other: &Place| std::mem::discriminant(other) == std::mem::discriminant(place);
            let places = node.files.places().filter(is_alike);
            places.map(|place| take(laws, node, &Move::Remove(place))).collect()
        }
        Seen::Took(step) => vec![take(laws, node, step)],
    }
}

/// Opens the store, and compares what it finds with what the real store has found.
fn open(laws: &Laws, node: &Replica, sight: &Sight) -> Result<Replica, Refusal> {
    let found = find(laws, &node.files)?;
    let mut node = node.clone();
    for name in ALWAYS.iter().filter(|name| ![STARTS, CLEAN, INSTALLS].contains(*name)) {
        if !keeps(name, &node, &found) {
            return refuse(format!("broken: {name}"));
        }
    }
    node = take(laws, &node, &Move::Open)?;
    if found.installs {
        let steps = [Move::CopyState, Move::NameState, Move::TakeOver, Move::SetLive];
        for step in steps.iter().chain([&Move::Installed]) {
            node = take(laws, &node, step)?;
        }
    }
    node = take(laws, &node, &Move::Opened)?;
    let index = |entry: Entry| entry.index;
    let log = node.life()?.view.clone();
    let (purged, applied) = (index(node.purged()), index(node.applied()));
    let snapshot = index(found.snapshot);
    let expected = Sight { vote: found.vote, log, purged, applied, snapshot };
    match expected == *sight {
        true => Ok(node),
        false => refuse(format!("an open finds {sight:?}, not {expected:?}")),
    }
}
