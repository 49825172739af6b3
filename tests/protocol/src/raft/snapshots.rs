//! Snapshots of other nodes: they are received and installed.

use crate::disk::{Refusal, refuse};
use crate::raft::files::{Content, Copy, Database, Entry, Files, Index, Part, Place};
use crate::raft::laws::{Breach, Laws};
use crate::raft::machine::free_id;
use crate::raft::replica::{Installing, Move, Replica};

/// Takes a step of receiving a snapshot.
///
/// # Errors
/// The reason why the step is not allowed.
pub fn receive(laws: &Laws, node: &mut Replica, step: &Move) -> Result<(), Refusal> {
    let life = node.life()?;
    match (step, life.transfer) {
        (Move::Offer(last), _) => offer(laws, node, *last),
        (Move::Receive, Some((id, count))) if count < 2 => {
            let part = match laws.lack(Breach::ReceivedUnsynced) {
                true => Part::Written,
                false => Part::Synced,
            };
            let copy = node.files.copies.get_mut(&id);
            copy.into_iter().for_each(|copy| copy.parts[usize::from(count)] = part);
            node.life_mut()?.transfer = Some((id, count + 1));
            Ok(())
        }
        (Move::Finish, Some((id, 2))) => finish(laws, node, id),
        _ => refuse("no transfer takes this step"),
    }
}

fn offer(laws: &Laws, node: &mut Replica, last: Index) -> Result<(), Refusal> {
    let (life, applied, vote) = (node.life()?, node.applied(), node.promised.vote);
    if !life.is_open || last <= applied.index || vote == 0 {
        return refuse("no leader offers such a snapshot");
    }
    let asked = life.installing.filter(|(_, step)| *step == Installing::Asked);
    let waiting = [life.received, asked.map(|(id, _)| id)];
    for index in node.chosen.len() as Index + 1..=last {
        node.chosen.push(Entry { term: vote, index });
    }
    let places: Vec<Place> = node.files.places().collect();
    for place in places {
        if let Place::Received(id) = place
            && (!waiting.contains(&Some(id)) || laws.lack(Breach::OfferRemovesReceived))
        {
            node.files.remove(place);
        }
    }
    let (id, machine) = (free_id(node), node.history(last).to_vec());
    let parts = [Part::Missing; 3];
    node.files.copies.insert(id, Copy { last: node.chosen[usize::from(last) - 1], machine, parts });
    node.files.set(Place::Received(id), true);
    node.life_mut()?.transfer = Some((id, 0));
    Ok(())
}

fn finish(laws: &Laws, node: &mut Replica, id: u8) -> Result<(), Refusal> {
    if let Some(copy) = node.files.copies.get_mut(&id) {
        if !laws.lack(Breach::ReceivedNamesUnsynced) {
            copy.parts.iter_mut().for_each(|part| *part = part.named());
        }
        copy.parts[2] = Part::Durable;
    }
    // A snapshot that openraft has not wanted is removed when another one is complete.
    if let Some(unwanted) = node.life()?.received {
        node.files.remove(Place::Received(unwanted));
    }
    let life = node.life_mut()?;
    (life.transfer, life.received) = (None, Some(id));
    Ok(())
}

/// Takes a step of installing a snapshot.
///
/// # Errors
/// The reason why the step is not allowed.
pub fn install(laws: &Laws, node: &mut Replica, step: &Move) -> Result<(), Refusal> {
    if *step == Move::Install {
        return ask(laws, node);
    }
    let life = node.life()?;
    let Some((id, done)) = life.installing else { return refuse("nothing is installed") };
    let is_next = match (step, done) {
        (Move::MoveIn, Installing::Asked) => life.building.is_none(),
        (Move::CopyState, Installing::Moved) => laws.lack(Breach::MoveUnsynced),
        (Move::TakeOver, Installing::Copied) => laws.lack(Breach::CopyNameUnsynced),
        (Move::MovedIn, Installing::Moved)
        | (Move::CopyState, Installing::Safe)
        | (Move::NameState, Installing::Copied)
        | (Move::TakeOver, Installing::Named)
        | (Move::SetLive, Installing::TakenOver)
        | (Move::Installed, Installing::Live) => true,
        _ => false,
    };
    match is_next {
        true => proceed(laws, node, step, id),
        false => refuse(format!("{step:?} after {done:?}")),
    }
}

/// Takes a step of the installation of the snapshot `id`.
fn proceed(laws: &Laws, node: &mut Replica, step: &Move, id: u8) -> Result<(), Refusal> {
    let next = match step {
        Move::MoveIn if !node.files.has(Place::Received(id)) => {
            node.promised.has_lost_received = true;
            return Ok(());
        }
        Move::MoveIn => {
            node.files.set(Place::Received(id), false);
            node.files.set(Place::Kept(id), true);
            Installing::Moved
        }
        Move::MovedIn => {
            node.files.settle(|place| !matches!(place, Place::State(_)));
            Installing::Safe
        }
        Move::CopyState => copy_state(laws, node, id)?,
        Move::NameState => {
            node.files.sync_root();
            Installing::Named
        }
        Move::TakeOver => take_over(laws, node)?,
        Move::SetLive => {
            let number = new_number(node)?;
            if laws.lack(Breach::LiveUnsynced) {
                node.files.live.push(None);
            }
            node.files.live.push(Some(number));
            Installing::Live
        }
        _ => return installed(laws, node, id),
    };
    node.life_mut()?.installing = Some((id, next));
    Ok(())
}

/// Takes note of openraft's request to install the snapshot that was received.
fn ask(laws: &Laws, node: &mut Replica) -> Result<(), Refusal> {
    let (life, applied, purged) = (node.life()?, node.applied(), node.purged());
    let Some(id) = life.received else { return refuse("no snapshot is complete") };
    let last = node.files.copies.get(&id).map_or(Entry::default(), |copy| copy.last);
    let waits = life.call != Default::default() || life.owes.is_some() || life.installing.is_some();
    if waits || last <= applied {
        return refuse("openraft does not install the snapshot now");
    }
    let is_other = life.view.get(&last.index).is_some_and(|term| *term != last.term);
    if is_other && !laws.lack(Breach::InstallBeforeTruncate) {
        return refuse("entries that contradict the snapshot are truncated first");
    }
    let life = node.life_mut()?;
    (life.received, life.installing) = (None, Some((id, Installing::Asked)));
    life.owes = Some(last).filter(|last| *last > purged);
    Ok(())
}

fn new_number(node: &Replica) -> Result<u8, Refusal> {
    Ok(node.life()?.state + 1)
}

fn copy_state(laws: &Laws, node: &mut Replica, id: u8) -> Result<Installing, Refusal> {
    let number = new_number(node)?;
    let Some(copy) = node.files.copies.get(&id) else { return refuse("the snapshot is gone") };
    let content =
        Content { machine: copy.machine.clone(), applied: copy.last, ..Content::default() };
    let mut versions = vec![Some(content)];
    if laws.lack(Breach::CopyUnsynced) {
        versions.insert(0, None);
    }
    node.files.states.insert(number, Database { versions });
    node.files.set(Place::State(number), true);
    Ok(Installing::Copied)
}

fn take_over(laws: &Laws, node: &mut Replica) -> Result<Installing, Refusal> {
    let number = new_number(node)?;
    let life = node.life()?;
    let is_quiet = life.batch.is_empty() && life.call == Default::default();
    if !is_quiet && !laws.lack(Breach::TakeOverUnlocked) {
        return refuse("a write to the log is under way");
    }
    if laws.has_two || laws.lack(Breach::LogNotTakenOver) {
        return Ok(Installing::TakenOver);
    }
    let log = node.log_mut()?.now().cloned().unwrap_or_default();
    if let Some(state) = node.files.states.get_mut(&number) {
        state.write(|content| {
            let Content { vote, log, purged, committed, .. } = log;
            *content = Content { vote, log, purged, committed, ..content.clone() };
        });
        if !laws.lack(Breach::TakeOverUnsynced) {
            state.sync();
        }
    }
    Ok(Installing::TakenOver)
}

fn installed(laws: &Laws, node: &mut Replica, id: u8) -> Result<(), Refusal> {
    let number = new_number(node)?;
    if !laws.lack(Breach::LiveNameUnsynced) {
        node.files.sync_root();
    }
    node.promised.snapshot = node.files.copies.get(&id).map_or(Entry::default(), |c| c.last);
    let life = node.life_mut()?;
    (life.state, life.snapshot, life.installing) = (number, Some(id), None);
    Ok(())
}

/// Removes a directory that is no longer used.
///
/// # Errors
/// The reason why the step is not allowed.
pub fn remove(laws: &Laws, node: &mut Replica, place: Place) -> Result<(), Refusal> {
    let life = node.life()?;
    let installing = life.installing;
    let is_used = match place {
        Place::State(number) => {
            let is_live = installing.is_some_and(|(_, step)| step == Installing::Live);
            let is_early = is_live && laws.lack(Breach::StateRemovedEarly);
            number == life.state && !is_early || number == life.state + 1 && installing.is_some()
        }
        Place::Kept(id) => {
            let is_early = laws.lack(Breach::OlderRemovedEarly);
            let newer = life.building.map(|(id, _)| id).or(installing.map(|(id, _)| id));
            newer == Some(id) || life.snapshot == Some(id) && !(is_early && newer.is_some())
        }
        Place::Building(_) | Place::Received(_) => true,
    };
    if is_used || !node.files.has(place) {
        return refuse(format!("{place:?} is used"));
    }
    node.files.remove(place);
    Ok(())
}

/// Removes what a crash has left behind, except for the live state and the newest snapshot.
pub fn remove_leftovers(files: &mut Files, live: u8, kept: Option<u8>) {
    let is_kept = |place: &Place| match place {
        Place::State(number) => *number == live,
        Place::Kept(id) => Some(*id) == kept,
        Place::Building(_) | Place::Received(_) => false,
    };
    let unused: Vec<Place> = files.places().filter(|place| !is_kept(place)).collect();
    unused.into_iter().for_each(|place| files.remove(place));
}
