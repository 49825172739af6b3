//! The calls of the log: votes, appends, truncations and purges, and the thread that writes.

use crate::disk::{Refusal, refuse};
use crate::raft::files::{Entry, Index, Place, Term};
use crate::raft::laws::{Breach, Laws};
use crate::raft::replica::{Call, Installing, Job, Replica};

/// Checks that openraft may make a call of the log.
fn check_free(node: &Replica) -> Result<(), Refusal> {
    let life = node.life()?;
    match life.is_open && life.call == Call::None && life.owes.is_none() {
        true => Ok(()),
        false => refuse("openraft waits for an earlier call, or makes another one first"),
    }
}

/// Queues a vote.
///
/// # Errors
/// The reason why the step is not allowed.
pub fn save_vote(laws: &Laws, node: &mut Replica, term: Term) -> Result<(), Refusal> {
    check_free(node)?;
    if term <= node.promised.vote {
        return refuse("the vote is not a later one");
    }
    let life = node.life_mut()?;
    let job = Job { vote: Some(term), entries: Vec::new(), committed: 0 };
    let at = if laws.lack(Breach::VoteOvertakes) { 0 } else { life.queue.len() };
    life.queue.insert(at, job);
    life.call = Call::Writing;
    Ok(())
}

/// Queues entries.
///
/// # Errors
/// The reason why the step is not allowed.
pub fn append(laws: &Laws, node: &mut Replica, entries: &[Entry]) -> Result<(), Refusal> {
    check_free(node)?;
    let purged = node.purged();
    let contradicts = |entry: &Entry| {
        node.chosen.get(usize::from(entry.index) - 1).is_some_and(|chosen| chosen != entry)
    };
    let life = node.life()?;
    let next = life.view.last_key_value().map_or(purged.index, |(index, _)| *index) + 1;
    let first = entries.first().map_or(0, |entry| entry.index);
    if first > next && !laws.lack(Breach::GapAccepted) || first < next {
        return refuse(format!("the next entry is {next}"));
    }
    let mut old = life.view.iter().map(|(index, term)| Entry { term: *term, index: *index });
    if old.any(|entry| contradicts(&entry)) || entries.iter().any(contradicts) {
        return refuse("entries that contradict chosen ones are truncated first");
    }
    let life = node.life_mut()?;
    life.view.extend(entries.iter().map(|entry| (entry.index, entry.term)));
    node.promised.dead.retain(|entry| !entries.contains(entry));
    let life = node.life_mut()?;
    let job = Job { vote: None, entries: entries.to_vec(), committed: life.committed };
    life.queue.push(job);
    if !laws.is_ahead {
        life.call = Call::Writing;
    }
    Ok(())
}

/// Writes the first jobs of the queue.
///
/// # Errors
/// The reason why the step is not allowed.
pub fn write(laws: &Laws, node: &mut Replica, count: usize) -> Result<(), Refusal> {
    let life = node.life_mut()?;
    if life.is_locked() && !laws.lack(Breach::TakeOverUnlocked) {
        return refuse("the log is written while a state is replaced");
    }
    if !life.batch.is_empty() || count == 0 || count > life.queue.len() {
        return refuse("the writer has no such jobs");
    }
    let batch: Vec<Job> = life.queue.drain(..count).collect();
    life.batch = batch.clone();
    node.log_mut()?.write(|content| {
        for job in &batch {
            content.vote = job.vote.unwrap_or(content.vote);
            content.log.extend(job.entries.iter().map(|entry| (entry.index, entry.term)));
            content.committed = job.committed.max(content.committed);
        }
    });
    let is_early = |job: &Job| match job.vote {
        Some(_) => laws.lack(Breach::VoteUnsynced),
        None => laws.lack(Breach::AppendUnsynced),
    };
    if batch.iter().any(is_early) {
        finish(node)?;
    }
    Ok(())
}

/// Syncs what the writer has written, and reports it.
///
/// # Errors
/// The reason why the step is not allowed.
pub fn report(laws: &Laws, node: &mut Replica) -> Result<(), Refusal> {
    let life = node.life()?;
    if life.batch.is_empty() || life.is_locked() && !laws.lack(Breach::TakeOverUnlocked) {
        return refuse("the writer has written nothing");
    }
    node.log_mut()?.sync();
    finish(node)
}

/// Reports the jobs that are written.
fn finish(node: &mut Replica) -> Result<(), Refusal> {
    let Ok(life) = &mut node.life else { return refuse("the store is not open") };
    let jobs = std::mem::take(&mut life.batch);
    for job in jobs {
        let was_last = life.queue.is_empty();
        let is_live = |entry: &&Entry| life.view.get(&entry.index) == Some(&entry.term);
        let entries = job.entries.iter().filter(is_live);
        node.promised.log.extend(entries.map(|entry| (entry.index, entry.term)));
        if let Some(vote) = job.vote {
            node.promised.vote = vote;
            // Whoever asks for votes claims the entries that it has appended.
            node.promised.log.extend(life.view.iter().map(|(index, term)| (*index, *term)));
        }
        if life.call == Call::Writing && (job.vote.is_some() || was_last) {
            life.call = Call::None;
        }
    }
    Ok(())
}

/// Deletes the entries from an index on.
///
/// # Errors
/// The reason why the step is not allowed.
pub fn truncate(laws: &Laws, node: &mut Replica, from: Index) -> Result<(), Refusal> {
    check_free(node)?;
    let (applied, chosen) = (node.applied(), node.chosen.clone());
    let is_misled = from <= applied.index;
    let life = node.life_mut()?;
    if !life.is_idle() && !laws.lack(Breach::TruncateOvertakes) || life.is_locked() {
        return refuse("a truncation waits for earlier entries");
    }
    if is_misled && !laws.lack(Breach::TruncateApplied) {
        return refuse("the state contains an entry that is to be truncated");
    }
    let dead = life.view.split_off(&from).into_iter();
    let dead: Vec<_> = dead.map(|(index, term)| Entry { term, index }).collect();
    let is_chosen = dead.iter().any(|entry| chosen.contains(entry));
    if dead.is_empty() || is_chosen && !is_misled {
        return refuse("no leader wants these entries truncated");
    }
    life.call = Call::Truncating(dead);
    node.promised.log.split_off(&from);
    node.log_mut()?.write(|content| drop(content.log.split_off(&from)));
    Ok(())
}

/// Syncs a truncation, and reports it.
///
/// # Errors
/// The reason why the step is not allowed.
pub fn truncated(laws: &Laws, node: &mut Replica) -> Result<(), Refusal> {
    let life = node.life_mut()?;
    let Call::Truncating(dead) = std::mem::replace(&mut life.call, Call::None) else {
        return refuse("nothing is truncated");
    };
    if !laws.lack(Breach::TruncateUnsynced) {
        node.log_mut()?.sync();
    }
    node.promised.dead.extend(dead);
    Ok(())
}

/// Writes the mark of a purge.
///
/// # Errors
/// The reason why the step is not allowed.
pub fn purge(laws: &Laws, node: &mut Replica, upto: Index) -> Result<(), Refusal> {
    let life = node.life()?;
    let is_owed = life.owes.is_some_and(|owed| owed.index == upto);
    if !is_owed {
        check_free(node)?;
    }
    if life.call != Call::None || life.is_locked() {
        return refuse("openraft waits for an earlier call, or a state is replaced");
    }
    let Some(entry) = node.chosen.get(usize::from(upto).wrapping_sub(1)).copied() else {
        return refuse("only committed entries are purged");
    };
    let snapshot = life.snapshot.and_then(|id| node.files.copies.get(&id));
    if entry <= node.purged() || !is_owed && snapshot.is_none_or(|s| s.last < entry) {
        return refuse("only entries in a snapshot are purged");
    }
    if entry > node.applied() && !laws.lack(Breach::PurgeOvertakesInstall) {
        let is_safe = |(id, step): (u8, Installing)| {
            let is_after = node.files.copies.get(&id).is_some_and(|copy| copy.last >= entry);
            is_after && step >= Installing::Safe && node.files.is_durable(Place::Kept(id))
        };
        if !life.installing.is_some_and(is_safe) {
            return refuse("a purge waits until a snapshot with the entries is durable");
        }
    }
    let life = node.life_mut()?;
    (life.call, life.owes) = (Call::Purging(entry), None);
    life.view.retain(|index, _| *index > upto);
    node.promised.log.retain(|index, _| *index > upto);
    let deletes_first = laws.lack(Breach::PurgeDeletesFirst);
    node.log_mut()?.write(|content| match deletes_first {
        true => content.log.retain(|index, _| *index > upto),
        false => content.purged = entry,
    });
    Ok(())
}

/// Syncs the mark of a purge, deletes the entries, and reports the purge.
///
/// # Errors
/// The reason why the step is not allowed.
pub fn purged(laws: &Laws, node: &mut Replica) -> Result<(), Refusal> {
    let life = node.life_mut()?;
    let Call::Purging(entry) = life.call else { return refuse("nothing is purged") };
    if life.is_locked() {
        return refuse("a purge waits until the state is replaced");
    }
    life.call = Call::None;
    let log = node.log_mut()?;
    log.write(|content| content.purged = entry);
    if !laws.lack(Breach::PurgeUnsynced) {
        log.sync();
    }
    log.write(|content| content.log.retain(|index, _| *index > entry.index));
    node.promised.purged = entry;
    Ok(())
}
