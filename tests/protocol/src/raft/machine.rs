//! The state machine: entries are applied, and snapshots are made.

use crate::disk::{Refusal, refuse};
use crate::raft::files::{Copy, Entry, Index, Part, Place};
use crate::raft::laws::{Breach, Laws};
use crate::raft::replica::{Making, Move, Replica};

/// Applies the entries up to an index as one batch.
///
/// # Errors
/// The reason why the step is not allowed.
pub fn apply(laws: &Laws, node: &mut Replica, upto: Index) -> Result<(), Refusal> {
    let (life, applied) = (node.life()?, node.applied());
    if !life.is_open || life.installing.is_some() || upto <= applied.index {
        return refuse("nothing is applied now");
    }
    let mut waiting = life.queue.iter().chain(&life.batch).flat_map(|job| &job.entries);
    if waiting.any(|entry| entry.index <= upto) && !laws.lack(Breach::AppliedBeforeDurable) {
        return refuse("entries are applied before they are durable");
    }
    let mut entries = Vec::new();
    for index in applied.index + 1..=upto {
        let Some(term) = life.view.get(&index) else { return refuse("an entry is missing") };
        entries.push(Entry { term: *term, index });
    }
    for entry in &entries {
        match node.chosen.get(usize::from(entry.index) - 1) {
            Some(chosen) if chosen != entry => return refuse("another entry is committed"),
            Some(_) => {}
            None => node.chosen.push(*entry),
        }
    }
    node.life_mut()?.committed = upto;
    let is_split = laws.lack(Breach::ApplyInTwoBatches);
    let state = node.state_mut()?;
    state.write(|content| {
        content.machine.extend(&entries);
        if !is_split {
            content.applied = entries[entries.len() - 1];
        }
    });
    Ok(())
}

/// Writes the id of the last entry, which an application in two batches has left out.
///
/// # Errors
/// The reason why the step is not allowed.
pub fn apply_rest(laws: &Laws, node: &mut Replica) -> Result<(), Refusal> {
    let applied = node.applied();
    let state = node.state_mut()?;
    let last = state.now().and_then(|content| content.machine.last().copied()).unwrap_or_default();
    if !laws.lack(Breach::ApplyInTwoBatches) || last <= applied {
        return refuse("entries are applied as one batch");
    }
    state.write(|content| content.applied = last);
    Ok(())
}

/// Takes a step of making a snapshot.
///
/// # Errors
/// The reason why the step is not allowed.
pub fn build(laws: &Laws, node: &mut Replica, step: &Move) -> Result<(), Refusal> {
    let life = node.life()?;
    if *step == Move::Build {
        return begin(node);
    }
    let Some((id, done)) = life.building else { return refuse("no snapshot is made") };
    // The sync of the live state is not needed: an open installs a newer snapshot.
    let is_next = matches!(
        (step, done),
        (Move::Describe, Making::Copied)
            | (Move::SyncState, Making::Described)
            | (Move::Publish, Making::Described | Making::Safe)
            | (Move::Built, Making::Renamed)
    );
    if !is_next {
        return refuse(format!("{step:?} after {done:?}"));
    }
    let next = match step {
        Move::Describe => {
            let head = if laws.lack(Breach::HeadUnsynced) { Part::Named } else { Part::Durable };
            let copy = node.files.copies.get_mut(&id);
            copy.into_iter().for_each(|copy| copy.parts[2] = head);
            Making::Described
        }
        Move::SyncState => {
            node.state_mut()?.sync();
            Making::Safe
        }
        Move::Publish => {
            node.files.set(Place::Building(id), false);
            node.files.set(Place::Kept(id), true);
            Making::Renamed
        }
        _ => return built(laws, node, id),
    };
    node.life_mut()?.building = Some((id, next));
    Ok(())
}

/// Returns a number for a new snapshot.
pub fn free_id(node: &Replica) -> u8 {
    (1..=u8::MAX).find(|id| !node.files.copies.contains_key(id)).unwrap_or(u8::MAX)
}

fn begin(node: &mut Replica) -> Result<(), Refusal> {
    let (life, applied, id) = (node.life()?, node.applied(), free_id(node));
    let newest = life.snapshot.and_then(|id| node.files.copies.get(&id)).map(|copy| copy.last);
    let is_busy = life.building.is_some() || life.installing.is_some();
    if !life.is_open || is_busy || applied == Entry::default() || newest == Some(applied) {
        return refuse("no snapshot is made now");
    }
    let machine = node.state_mut()?.now().map_or_else(Vec::new, |state| state.machine.clone());
    let parts = [Part::Durable, Part::Durable, Part::Missing];
    node.files.copies.insert(id, Copy { last: applied, machine, parts });
    node.files.set(Place::Building(id), true);
    node.life_mut()?.building = Some((id, Making::Copied));
    Ok(())
}

fn built(laws: &Laws, node: &mut Replica, id: u8) -> Result<(), Refusal> {
    let last = node.files.copies.get(&id).map_or(Entry::default(), |copy| copy.last);
    if !laws.lack(Breach::SnapshotNameUnsynced) {
        node.files.settle(|place| matches!(place, Place::Building(_) | Place::Kept(_)));
    }
    node.promised.snapshot = last;
    let life = node.life_mut()?;
    (life.building, life.snapshot) = (None, Some(id));
    Ok(())
}
