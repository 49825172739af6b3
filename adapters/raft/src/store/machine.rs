//! The implementation of openraft's `RaftStateMachine`, on top of a program's own [`Machine`].

use minikv::Readable;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use openraft::storage::RaftStateMachine;
use openraft::{
    EntryPayload, ErrorSubject, ErrorVerb, LogId, OptionalSend, RaftLogId, RaftSnapshotBuilder,
    Snapshot, SnapshotMeta, StoredMembership,
};

use crate::store::build::build;
use crate::store::changes::Changes;
use crate::store::disk::Store;
use crate::store::error::{Error, Result, Stored};
use crate::store::snapshot::{self, SnapshotDir};
use crate::store::{StoreConfig, install, keys};

/// A program's state machine, which defines the effect of commands. The same commands must have the
/// same effect on every node: the effect must not depend on the time, on random numbers or on the
/// grouping of entries into calls.
pub trait Machine<C: StoreConfig>: Send + 'static {
    /// Applies the command of the entry `id`.
    ///
    /// # Errors
    /// Errors of the database, which stop the node. An invalid command from a client must lead to a
    /// response, not to an error.
    fn apply(&mut self, id: &LogId<u64>, command: C::D, changes: &mut Changes<'_>) -> Result<C::R>;

    /// Returns the response to an entry that contains no command.
    fn no_command(&self) -> C::R;

    /// Called when the changes of all entries up to `id` have become visible to reads.
    fn written(&mut self, _id: &LogId<u64>) {}

    /// Called after a snapshot has replaced the state.
    fn replaced(&mut self, _id: Option<&LogId<u64>>) {}
}

/// The implementation of openraft's state machine. Clones share the [`Machine`].
pub struct StateMachine<C: StoreConfig, M> {
    store: Arc<Store>,
    machine: Arc<Mutex<M>>,
    config: PhantomData<fn() -> C>,
}

impl<C: StoreConfig, M> Clone for StateMachine<C, M> {
    fn clone(&self) -> Self {
        let (store, machine) = (self.store.clone(), self.machine.clone());
        StateMachine { store, machine, config: PhantomData }
    }
}

impl<C: StoreConfig, M: Machine<C>> StateMachine<C, M> {
    /// Creates a state machine that keeps its state in `store`.
    pub fn new(store: Arc<Store>, machine: M) -> Self {
        StateMachine { store, machine: Arc::new(Mutex::new(machine)), config: PhantomData }
    }

    /// Applies entries. Writes the changed data, the id of the last entry and the membership in one
    /// batch.
    fn apply_all(&self, entries: Vec<C::Entry>) -> Result<Vec<C::R>> {
        let mut machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.store.current();
        let state = &current.state;
        let mut changes = Changes::new(state);
        let mut responses = Vec::with_capacity(entries.len());
        let (mut last, mut membership) = (None, None);
        for entry in entries {
            let id = *entry.get_log_id();
            responses.push(match entry.payload {
                EntryPayload::Blank => machine.no_command(),
                EntryPayload::Normal(command) => machine.apply(&id, command, &mut changes)?,
                EntryPayload::Membership(members) => {
                    membership = Some(StoredMembership::new(Some(id), members));
                    machine.no_command()
                }
            });
            last = Some(id);
        }
        let mut batch = changes.into_batch();
        let spaces = state.spaces();
        if let Some(last) = &last {
            batch.put_in(&spaces.state, keys::APPLIED, keys::encode_log_id(last));
        }
        if let Some(membership) = membership {
            let json = serde_json::to_vec(&membership)
                .map_err(|e| Error::format("a membership", e.to_string()))?;
            batch.put_in(&spaces.state, keys::MEMBERSHIP, json);
        }
        spaces.db.write(batch)?;
        if let Some(last) = &last {
            machine.written(last);
        }
        Ok(responses)
    }

    fn install(&self, meta: &SnapshotMeta<u64, C::Node>, snapshot: &SnapshotDir) -> Result<()> {
        let mut machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        install::install(&self.store, meta, snapshot)?;
        machine.replaced(meta.last_log_id.as_ref());
        Ok(())
    }
}

/// Runs blocking work on a thread that does not run async tasks.
pub(crate) async fn blocking<T: Send + 'static>(
    subject: ErrorSubject<u64>,
    verb: ErrorVerb,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Stored<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(|error| error.into_storage(subject, verb)),
        Err(panic) => {
            Err(Error::Refused(format!("a task of the store: {panic}")).into_storage(subject, verb))
        }
    }
}

impl<C: StoreConfig, M: Machine<C>> RaftStateMachine<C> for StateMachine<C, M> {
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> Stored<(Option<LogId<u64>>, StoredMembership<u64, C::Node>)> {
        let store = self.store.clone();
        blocking(ErrorSubject::StateMachine, ErrorVerb::Read, move || {
            let state = store.state();
            let membership = state.spaces().state.get(keys::MEMBERSHIP)?;
            Ok((state.applied()?, snapshot::decode_membership(membership.as_deref())?))
        })
        .await
    }

    async fn apply<I>(&mut self, entries: I) -> Stored<Vec<C::R>>
    where
        I: IntoIterator<Item = C::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<C::Entry> = entries.into_iter().collect();
        if let Some(last) = entries.last() {
            // openraft may apply entries before they are durable (see `log.rs`).
            let durable = self.store.writer.durable_to(last.get_log_id().index).await;
            durable.map_err(|e| e.into_storage(ErrorSubject::Logs, ErrorVerb::Write))?;
        }
        let machine = self.clone();
        blocking(ErrorSubject::StateMachine, ErrorVerb::Write, move || machine.apply_all(entries))
            .await
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Stored<Box<SnapshotDir>> {
        Ok(Box::new(SnapshotDir::none()))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<u64, C::Node>,
        snapshot: Box<SnapshotDir>,
    ) -> Stored<()> {
        let (machine, signature, meta) = (self.clone(), meta.signature(), meta.clone());
        blocking(ErrorSubject::Snapshot(Some(signature)), ErrorVerb::Write, move || {
            machine.install(&meta, &snapshot)
        })
        .await
    }

    async fn get_current_snapshot(&mut self) -> Stored<Option<Snapshot<C>>> {
        let store = self.store.clone();
        blocking(ErrorSubject::Snapshot(None), ErrorVerb::Read, move || {
            let Some(snapshot) = store.snapshot().clone() else { return Ok(None) };
            let meta = snapshot.head::<C::Node>()?.meta;
            Ok(Some(Snapshot { meta, snapshot: Box::new(snapshot) }))
        })
        .await
    }
}

impl<C: StoreConfig, M: Machine<C>> RaftSnapshotBuilder<C> for StateMachine<C, M> {
    async fn build_snapshot(&mut self) -> Stored<Snapshot<C>> {
        let store = self.store.clone();
        blocking(ErrorSubject::Snapshot(None), ErrorVerb::Write, move || {
            let (meta, snapshot) = build::<C::Node>(&store)?;
            Ok(Snapshot { meta, snapshot: Box::new(snapshot) })
        })
        .await
    }
}
