//! The steps of the store: which are allowed in a state, and to which state they lead.
//!
//! An exploration and a replay of a trace both go through [`take`].

use crate::disk::{Refusal, refuse};
use crate::raft::files::{Entry, Place};
use crate::raft::found::find;
use crate::raft::laws::{Breach, Laws};
use crate::raft::replica::{Call, Installing, Life, Move, Replica};
use crate::raft::{machine, snapshots, writer};
use crate::state::Ending;

/// Returns the state after a step.
///
/// # Errors
/// The rule that does not allow the step.
pub fn take(laws: &Laws, before: &Replica, step: &Move) -> Result<Replica, Refusal> {
    let mut node = before.clone();
    match step {
        Move::SaveVote(term) => writer::save_vote(laws, &mut node, *term)?,
        Move::Append(entries) => writer::append(laws, &mut node, entries)?,
        Move::Write(count) => writer::write(laws, &mut node, *count)?,
        Move::Report => writer::report(laws, &mut node)?,
        Move::Truncate(from) => writer::truncate(laws, &mut node, *from)?,
        Move::Truncated => writer::truncated(laws, &mut node)?,
        Move::Purge(upto) => writer::purge(laws, &mut node, *upto)?,
        Move::Purged => writer::purged(laws, &mut node)?,
        Move::Apply(upto) => machine::apply(laws, &mut node, *upto)?,
        Move::ApplyRest => machine::apply_rest(laws, &mut node)?,
        Move::Build | Move::Describe | Move::SyncState | Move::Publish | Move::Built => {
            machine::build(laws, &mut node, step)?;
        }
        Move::Offer(_) | Move::Receive | Move::Finish => {
            snapshots::receive(laws, &mut node, step)?;
        }
        Move::Install | Move::MoveIn | Move::MovedIn | Move::CopyState => {
            snapshots::install(laws, &mut node, step)?;
        }
        Move::NameState | Move::TakeOver | Move::SetLive | Move::Installed => {
            snapshots::install(laws, &mut node, step)?;
        }
        Move::Remove(place) => snapshots::remove(laws, &mut node, *place)?,
        Move::Stop => {
            node.life()?;
            node.life = Err(Ending::Kill);
        }
        Move::PowerLoss(image) => {
            node.files = (**image).clone();
            node.life = Err(Ending::PowerLoss);
        }
        Move::Open => open(laws, &mut node)?,
        Move::Opened => opened(laws, &mut node)?,
    }
    Ok(node)
}

fn open(laws: &Laws, node: &mut Replica) -> Result<(), Refusal> {
    if node.life.is_ok() {
        return refuse("the store is open");
    }
    let found = find(laws, &node.files)?;
    let live = node.files.live.last().copied().flatten().unwrap_or(0);
    if !laws.lack(Breach::OpenNamesUnsynced) {
        node.files.sync_root();
        node.files.settle(|place| matches!(place, Place::Building(_) | Place::Kept(_)));
    }
    if !laws.lack(Breach::OpenLogUnsynced) {
        node.files.log_mut(live).into_iter().for_each(|log| log.sync());
    }
    if !laws.lack(Breach::OpenKeepsLeftovers) {
        snapshots::remove_leftovers(&mut node.files, live, found.kept);
    }
    let installs = found.installs && !laws.lack(Breach::OpenInstallsNothing);
    node.life = Ok(Life {
        is_open: false,
        state: live,
        queue: Vec::new(),
        batch: Vec::new(),
        view: Default::default(),
        committed: found.committed,
        snapshot: found.kept,
        transfer: None,
        received: None,
        building: None,
        installing: found.kept.filter(|_| installs).map(|id| (id, Installing::Safe)),
        call: Call::None,
        owes: None,
    });
    Ok(())
}

/// Ends an open: finishes a purge, and tells openraft what there is.
fn opened(laws: &Laws, node: &mut Replica) -> Result<(), Refusal> {
    let life = node.life()?;
    if life.is_open || life.installing.is_some() {
        return refuse("the store is not being opened, or a snapshot is not installed yet");
    }
    let (purged, applied) = (node.purged(), node.applied());
    let keeps_purged = laws.lack(Breach::OpenKeepsPurged);
    let log = node.log_mut()?;
    if !keeps_purged {
        log.write(|content| content.log.retain(|index, _| *index > purged.index));
    }
    let content = log.now().cloned().unwrap_or_default();
    let mut view = content.log;
    view.retain(|index, _| *index > purged.index);
    let last = view.last_key_value().map(|(index, term)| Entry { term: *term, index: *index });
    let last = last.unwrap_or_default().max(purged);
    // openraft answers others by what it has read, without another write.
    node.promised.vote = node.promised.vote.max(content.vote);
    node.promised.log.extend(view.iter().map(|(index, term)| (*index, *term)));
    let life = node.life_mut()?;
    (life.is_open, life.view) = (true, view);
    life.owes = Some(applied).filter(|applied| last < *applied);
    Ok(())
}
