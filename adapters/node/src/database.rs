//! Databases and snapshots.

use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use minikv::{Bytes, Db, ReadOptions, Readable, Snapshot, WriteBatch, WriteOptions};
use minikv_instrument::advise;
use napi::bindgen_prelude::{AsyncTask, Unknown};
use napi::{CleanupEnvHook, Env};
use napi_derive::napi;

use crate::changes::NativeChanges;
use crate::error::Fault;
use crate::frames;
use crate::iterator::NativeIterator;
use crate::job::{Job, Reply, at_once, guarded, start};
use crate::options::OpenOptions;
use crate::slot::{Handle, Opening, Slot, either};
use crate::space::{Space, SpaceName, Spaces, Target, names_of};
use crate::tools;
use crate::view::{Range, View};
use crate::walk::{Plan, Source, Walk};

/// Flags of a call, with the same values as in `lib/binding.js`.
const HAS_LOWER: u32 = 1;
const WITH_LOWER: u32 = 2;
const HAS_UPPER: u32 = 4;
const WITH_UPPER: u32 = 8;
const REVERSE: u32 = 16;
const KEYS: u32 = 32;
const VALUES: u32 = 64;
const FILL_CACHE: u32 = 128;
const AS_BUFFER: u32 = 256;

/// Size, in bytes, above which a clear with a limit or a snapshot writes its batch of deletions.
const CLEAR_BYTES: usize = 16 << 10;

/// Returns the range whose bounds are encoded in `bounds` (see `frames`), the lower bound first.
fn range_of(bounds: &[u8], flags: u32) -> Result<Range, Fault> {
    let mut keys = frames::keys(bounds)?.into_iter();
    let mut bound = |has: u32, with: u32| match keys.next_if(flags & has != 0) {
        Some(key) if flags & with != 0 => Bound::Included(key),
        Some(key) => Bound::Excluded(key),
        None => Bound::Unbounded,
    };
    Ok((bound(HAS_LOWER, WITH_LOWER), bound(HAS_UPPER, WITH_UPPER)))
}

/// An extension of iterators: `next_if` advances the iterator only if the next item is `wanted`.
trait NextIf: Iterator {
    fn next_if(&mut self, wanted: bool) -> Option<Self::Item> {
        if wanted { self.next() } else { None }
    }
}

impl<I: Iterator> NextIf for I {}

/// Returns the plan of a walk over the range whose bounds are encoded in `bounds`.
pub fn plan_of(bounds: &[u8], flags: u32) -> Result<Plan, Fault> {
    Ok(Plan {
        range: range_of(bounds, flags)?,
        is_reverse: flags & REVERSE != 0,
        with_keys: flags & KEYS != 0,
        with_values: flags & VALUES != 0,
        fill_cache: flags & FILL_CACHE != 0,
    })
}

fn read_options(flags: u32) -> ReadOptions {
    ReadOptions::default().fill_cache(flags & FILL_CACHE != 0)
}

/// A snapshot: the database as it was at one point in time.
#[napi]
pub struct NativeSnapshot {
    moment: Option<Snapshot>,
}

#[napi]
impl NativeSnapshot {
    /// Releases the snapshot, so that the database can drop old entries.
    #[napi(catch_unwind)]
    pub fn close(&mut self) {
        self.moment = None;
    }
}

/// A database, which may be open or closed, or one of its keyspaces.
#[napi]
pub struct NativeDatabase {
    slot: Arc<Slot>,
    /// The keyspace that calls read and write; `None` for the database itself.
    space: Option<Arc<Space>>,
    /// Hook that closes the database when its Node.js environment ends.
    hook: Option<CleanupEnvHook<Weak<Slot>>>,
}

impl NativeDatabase {
    /// Returns the open database.
    ///
    /// # Errors
    /// [`Fault::NotOpen`] if the database is not open.
    pub fn handle(&self) -> Result<Arc<Handle>, Fault> {
        self.slot.get()
    }

    /// Returns the keyspace that calls read and write.
    ///
    /// # Errors
    /// [`Fault::NotOpen`] if the database is not open; those of [`Space::known`].
    pub fn space(&self) -> Result<Option<SpaceName>, Fault> {
        self.space.as_ref().map(|space| space.known(&self.slot.get()?)).transpose()
    }

    /// Returns what a call reads at `snapshot` or, if there is none, now.
    fn view(&self, snapshot: Option<&NativeSnapshot>) -> Result<View, Fault> {
        Ok(View::new(self.moment(snapshot)?, self.space()?.as_ref())?)
    }

    /// Returns the state of the database that a call reads: `snapshot` or, if there is none, the
    /// current state.
    fn moment(&self, snapshot: Option<&NativeSnapshot>) -> Result<Snapshot, Fault> {
        match snapshot {
            Some(snapshot) => snapshot.moment.clone().ok_or(Fault::SnapshotNotOpen),
            None => Ok(self.slot.get()?.snapshot()),
        }
    }

    /// Runs `prepare` on the event loop, and then starts `work` on a libuv thread with the result
    /// of `prepare`.
    fn start<T: Send + 'static>(
        &self,
        env: Env,
        prepare: impl FnOnce(&Self) -> Result<T, Fault>,
        work: impl FnOnce(T) -> Result<Reply, Fault> + Send + 'static,
    ) -> napi::Result<AsyncTask<Job>> {
        let with = guarded(|| prepare(self)).map_err(|fault| fault.into_error(env))?;
        Ok(start(move || work(with)))
    }

    /// Starts `work` on a libuv thread with the open database.
    fn with(
        &self,
        env: Env,
        work: impl FnOnce(&Handle) -> Result<Reply, Fault> + Send + 'static,
    ) -> napi::Result<AsyncTask<Job>> {
        self.start(env, |this| this.slot.get(), |handle| work(&handle))
    }

    /// Starts a job that looks up `keys`, which are encoded as frames. The job replies with the
    /// values found, encoded by `encode`.
    fn look_up_many(
        &self,
        env: Env,
        keys: &[u8],
        flags: u32,
        snapshot: Option<&NativeSnapshot>,
        encode: impl Fn(&[Option<Bytes>]) -> Result<Vec<u8>, Fault> + Send + 'static,
    ) -> napi::Result<AsyncTask<Job>> {
        self.start(
            env,
            |this| Ok((this.view(snapshot)?, frames::keys(keys)?)),
            move |(view, keys)| {
                let values = view.reading(read_options(flags)).multi_get(&keys)?;
                Ok(Reply::Frames(encode(&values)?))
            },
        )
    }

    /// Starts `work` on a libuv thread with the open database, which must be open for writing.
    fn with_writer(
        &self,
        env: Env,
        work: impl FnOnce(&Db) -> Result<(), Fault> + Send + 'static,
    ) -> napi::Result<AsyncTask<Job>> {
        self.with(env, |handle| {
            work(handle.writer()?)?;
            Ok(Reply::Nothing)
        })
    }
}

#[napi]
impl NativeDatabase {
    /// Returns a database that is not open yet.
    #[napi(constructor, catch_unwind)]
    pub fn new() -> NativeDatabase {
        NativeDatabase { slot: Arc::default(), space: None, hook: None }
    }

    /// Opens the database.
    #[napi(catch_unwind)]
    pub fn open(
        &mut self,
        env: Env,
        path: String,
        options: OpenOptions,
    ) -> napi::Result<AsyncTask<Job>> {
        if self.hook.is_none() {
            let close = |slot: Weak<Slot>| drop(slot.upgrade().map(|slot| slot.close()));
            self.hook = Some(env.add_env_cleanup_hook(Arc::downgrade(&self.slot), close)?);
        }
        let slot = self.slot.clone();
        Ok(start(move || {
            slot.open(Opening {
                path: PathBuf::from(path),
                options: options.to_options(),
                is_read_only: options.read_only,
                is_shared: options.multithreading,
            })?;
            Ok(Reply::Nothing)
        }))
    }

    /// Closes the database. All calls must have ended, and all iterators and snapshots must be
    /// closed.
    #[napi(catch_unwind)]
    pub fn close(&mut self, env: Env) -> napi::Result<AsyncTask<Job>> {
        if let Some(hook) = self.hook.take() {
            env.remove_env_cleanup_hook(hook)?;
        }
        let slot = self.slot.clone();
        Ok(start(move || slot.close().map(|()| Reply::Nothing)))
    }

    /// Writes the batch encoded in `frames`.
    #[napi(catch_unwind)]
    pub fn write(&self, env: Env, frames: &[u8], sync: bool) -> napi::Result<AsyncTask<Job>> {
        self.start(
            env,
            |this| {
                let handle = this.slot.get()?;
                let mut batch = WriteBatch::with_capacity(frames.len());
                let space = this.space()?;
                let space = space.map(|space| handle.writer()?.space(&space).map_err(Fault::from));
                batch.fill(frames, space.transpose()?.as_ref())?;
                Ok((handle, batch))
            },
            move |(handle, batch)| {
                handle.writer()?.writing(WriteOptions::default().sync(sync)).write(batch)?;
                Ok(Reply::Nothing)
            },
        )
    }

    /// Returns a promise of the value of `key`, or of `undefined` if `key` is absent.
    #[napi(catch_unwind)]
    pub fn get(
        &self,
        env: Env,
        key: &[u8],
        flags: u32,
        snapshot: Option<&NativeSnapshot>,
    ) -> napi::Result<AsyncTask<Job>> {
        self.start(
            env,
            |this| Ok((this.view(snapshot)?, key.to_vec())),
            move |(view, key)| get(&view, &key, flags),
        )
    }

    /// Returns the value of `key`, or `undefined` if `key` is absent.
    #[napi(catch_unwind)]
    pub fn get_sync<'env>(
        &self,
        env: &'env Env,
        key: &[u8],
        flags: u32,
        snapshot: Option<&NativeSnapshot>,
    ) -> napi::Result<Unknown<'env>> {
        at_once(env, || match (snapshot, &self.space) {
            (Some(_), _) | (_, Some(_)) => get(&self.view(snapshot)?, key, flags),
            (None, None) => {
                let handle = self.slot.get()?;
                let value = handle.reading(read_options(flags)).get(key)?;
                Ok(reply_of(value, flags))
            }
        })
    }

    /// Returns a promise of the values of `keys`. Keys and values are encoded as frames.
    #[napi(catch_unwind)]
    pub fn get_many(
        &self,
        env: Env,
        keys: &[u8],
        flags: u32,
        snapshot: Option<&NativeSnapshot>,
    ) -> napi::Result<AsyncTask<Job>> {
        self.look_up_many(env, keys, flags, snapshot, frames::values)
    }

    /// Returns a promise of one byte for each key in `keys`: 1 if the key is present, or 0 if the
    /// key is absent.
    #[napi(catch_unwind)]
    pub fn has_many(
        &self,
        env: Env,
        keys: &[u8],
        flags: u32,
        snapshot: Option<&NativeSnapshot>,
    ) -> napi::Result<AsyncTask<Job>> {
        self.look_up_many(env, keys, flags, snapshot, |values| {
            Ok(values.iter().map(|value| u8::from(value.is_some())).collect())
        })
    }

    /// Deletes the keys in a range that are present in `snapshot`. If `limit` is given, deletes
    /// only the first `limit` of these keys, or the last `limit` of them if the flags contain
    /// `REVERSE`.
    #[napi(catch_unwind)]
    pub fn clear(
        &self,
        env: Env,
        bounds: &[u8],
        flags: u32,
        limit: Option<u32>,
        snapshot: Option<&NativeSnapshot>,
    ) -> napi::Result<AsyncTask<Job>> {
        self.start(
            env,
            |this| {
                // Without a snapshot, deletes the keys that are present when the deletion begins.
                let moment = snapshot.map(|_| this.moment(snapshot)).transpose()?;
                Ok((this.slot.get()?, range_of(bounds, flags)?, moment, this.space()?))
            },
            move |(handle, range, moment, space)| {
                let db = handle.writer()?;
                if limit.is_none() && moment.is_none() {
                    match space {
                        Some(space) => db.space(&space)?.delete_range(range)?,
                        None => db.delete_range(range)?,
                    };
                } else {
                    let moment = moment.unwrap_or_else(|| db.snapshot());
                    let view = View::new(moment, space.as_ref())?;
                    let is_reverse = flags & REVERSE != 0;
                    let keys =
                        FirstKeys { view, space, is_reverse, limit: limit.unwrap_or(u32::MAX) };
                    keys.delete(db, range)?;
                }
                Ok(Reply::Nothing)
            },
        )
    }

    /// Returns the sequence number of the last write that is visible to reads.
    #[napi(catch_unwind)]
    pub fn sequence(&self, env: Env) -> napi::Result<f64> {
        let sequence = guarded(|| Ok(either!(&*self.slot.get()?, db => db.sequence())));
        // Sequence numbers below 2^53 are exact. Larger ones are rounded, and JavaScript only
        // compares them.
        sequence.map(|sequence| sequence as f64).map_err(|fault| fault.into_error(env))
    }

    /// Returns a snapshot of the database as it is now.
    #[napi(catch_unwind)]
    pub fn snapshot(&self, env: Env) -> napi::Result<NativeSnapshot> {
        match guarded(|| self.moment(None)) {
            Ok(moment) => Ok(NativeSnapshot { moment: Some(moment) }),
            Err(fault) => Err(fault.into_error(env)),
        }
    }

    /// Returns an iterator over a range.
    #[napi(catch_unwind)]
    pub fn iterator(
        &self,
        env: Env,
        bounds: &[u8],
        flags: u32,
        snapshot: Option<&NativeSnapshot>,
    ) -> napi::Result<NativeIterator> {
        let walk = guarded(|| {
            let plan = plan_of(bounds, flags)?;
            Ok(Walk::new(Source::View(self.view(snapshot)?, None), plan))
        });
        walk.map(NativeIterator::new).map_err(|fault| fault.into_error(env))
    }

    /// Returns a promise of the approximate number of bytes that a range takes in the table files.
    #[napi(catch_unwind)]
    pub fn approximate_size(
        &self,
        env: Env,
        bounds: &[u8],
        flags: u32,
    ) -> napi::Result<AsyncTask<Job>> {
        self.start(
            env,
            |this| Ok((this.slot.get()?, range_of(bounds, flags)?, this.space()?)),
            |(handle, range, space)| {
                let bytes = either!(&*handle, db => match space {
                    Some(space) => db.space(&space)?.approximate_size(range),
                    None => db.approximate_size(range),
                })?;
                Ok(Reply::Number(bytes as f64))
            },
        )
    }

    /// Compacts a range.
    #[napi(catch_unwind)]
    pub fn compact_range(
        &self,
        env: Env,
        bounds: &[u8],
        flags: u32,
    ) -> napi::Result<AsyncTask<Job>> {
        self.start(
            env,
            |this| Ok((this.slot.get()?, range_of(bounds, flags)?, this.space()?)),
            |(handle, range, space)| {
                let db = handle.writer()?;
                match space {
                    Some(space) => db.space(&space)?.compact_range(range)?,
                    None => db.compact_range(range)?,
                }
                Ok(Reply::Nothing)
            },
        )
    }

    /// Returns a property, or `undefined` if the name is unknown.
    #[napi(catch_unwind)]
    pub fn property<'env>(&self, env: &'env Env, name: String) -> napi::Result<Unknown<'env>> {
        at_once(env, || {
            let text = either!(&*self.slot.get()?, db => db.property(&name));
            Ok(text.map_or(Reply::Nothing, |text| Reply::Text(text.into())))
        })
    }

    /// Copies the database, as it is now, to `path`.
    #[napi(catch_unwind)]
    pub fn checkpoint(&self, env: Env, path: String) -> napi::Result<AsyncTask<Job>> {
        self.with_writer(env, move |db| Ok(db.checkpoint(path)?))
    }

    /// Makes all writes so far durable.
    #[napi(catch_unwind)]
    pub fn sync(&self, env: Env) -> napi::Result<AsyncTask<Job>> {
        self.with_writer(env, |db| Ok(db.sync()?))
    }

    /// Lets the database accept writes again after an error stopped them.
    #[napi(catch_unwind)]
    pub fn resume(&self, env: Env) -> napi::Result<AsyncTask<Job>> {
        self.with_writer(env, |db| Ok(db.resume()?))
    }

    /// Updates a read-only database to the current state of its writer. Returns a promise of
    /// whether anything changed.
    #[napi(catch_unwind)]
    pub fn refresh(&self, env: Env) -> napi::Result<AsyncTask<Job>> {
        self.with(env, |handle| {
            Ok(Reply::Flag(match handle {
                Handle::Reader(db) => db.refresh()?.changed,
                Handle::Writer(_) => false,
            }))
        })
    }

    /// Returns a promise of the database's counters and sizes, as JSON.
    #[napi(catch_unwind)]
    pub fn stats(&self, env: Env) -> napi::Result<AsyncTask<Job>> {
        self.with(env, |handle| Reply::report(either!(handle, db => db.stats())))
    }

    /// Returns a promise of the filters that would pay off, as JSON.
    #[napi(catch_unwind)]
    pub fn filter_advice(&self, env: Env) -> napi::Result<AsyncTask<Job>> {
        self.with(env, |handle| Reply::report(either!(handle, db => advise(db))?))
    }

    /// Returns a promise of the steps of a get of `key`, as JSON.
    #[napi(catch_unwind)]
    pub fn explain(
        &self,
        env: Env,
        key: &[u8],
        snapshot: Option<&NativeSnapshot>,
    ) -> napi::Result<AsyncTask<Job>> {
        self.start(
            env,
            |this| Ok((this.view(snapshot)?, key.to_vec())),
            |(view, key)| Reply::report(view.explain(&key)?),
        )
    }

    /// Adds a backup of the database to a folder, and then removes all backups there except the
    /// latest `keep`. Returns a promise of the new backup, as JSON.
    #[napi(catch_unwind)]
    pub fn backup(
        &self,
        env: Env,
        folder: String,
        keep: Option<f64>,
    ) -> napi::Result<AsyncTask<Job>> {
        self.with(env, move |handle| {
            let made = handle.writer()?.backup(&folder)?;
            if let Some(keep) = keep {
                // JavaScript has checked that the number is a positive integer.
                tools::backups(&folder)?.keep(keep as usize)?;
            }
            Reply::report(made)
        })
    }

    /// Returns the keyspace `name` of this database, which must be open when the keyspace is used:
    /// the one that has entries, unless `is_expiring` says which.
    #[napi(catch_unwind)]
    pub fn keyspace(&self, name: &[u8], is_expiring: Option<bool>) -> NativeDatabase {
        let space = Some(Arc::new(Space::new(name, is_expiring)));
        NativeDatabase { slot: self.slot.clone(), space, hook: None }
    }

    /// Finds the keyspace in the database, even if it was found before. Returns a promise of
    /// whether it is an expiring one.
    #[napi(catch_unwind)]
    pub fn find(&self, env: Env) -> napi::Result<AsyncTask<Job>> {
        self.start(
            env,
            |this| Ok((this.slot.clone(), this.space.clone())),
            |(slot, space)| {
                let space = space.map(|space| space.find(&slot.get()?)).transpose()?;
                Ok(Reply::Flag(space.is_some_and(|space| space.is_expiring)))
            },
        )
    }

    /// Returns whether this is an expiring keyspace. Reads from the database, if nothing has found
    /// the keyspace since the database was opened.
    #[napi(catch_unwind)]
    pub fn is_expiring(&self, env: Env) -> napi::Result<bool> {
        let space = guarded(|| self.space()).map_err(|fault| fault.into_error(env))?;
        Ok(space.is_some_and(|space| space.is_expiring))
    }

    /// Returns a promise of the names of the keyspaces that have entries, encoded as frames: of the
    /// expiring ones, or of the others.
    #[napi(catch_unwind)]
    pub fn keyspaces(&self, env: Env, is_expiring: bool) -> napi::Result<AsyncTask<Job>> {
        self.with(env, move |handle| {
            let names = either!(handle, db => names_of(&db.keyspaces()?, is_expiring));
            Ok(Reply::Frames(frames::values(&names)?))
        })
    }

    /// Returns a promise of the time at which the entry of `key` expires, in milliseconds since
    /// 1970; of infinity, if it never does; of `undefined`, if `key` is absent.
    #[napi(catch_unwind)]
    pub fn expiry(
        &self,
        env: Env,
        key: &[u8],
        snapshot: Option<&NativeSnapshot>,
    ) -> napi::Result<AsyncTask<Job>> {
        self.start(
            env,
            |this| Ok((this.view(snapshot)?, key.to_vec())),
            |(view, key)| view.expiry(&key),
        )
    }

    /// Returns the changes that were committed after the sequence number `since`.
    #[napi(catch_unwind)]
    pub fn changes(&self, env: Env, since: f64) -> napi::Result<NativeChanges> {
        // JavaScript has checked that the number is an integer and not negative.
        let since = since as u64;
        let changes = guarded(|| Ok(either!(&*self.slot.get()?, db => db.changes_since(since))?));
        changes.map(NativeChanges::new).map_err(|fault| fault.into_error(env))
    }
}

fn get(view: &View, key: &[u8], flags: u32) -> Result<Reply, Fault> {
    Ok(reply_of(view.reading(read_options(flags)).get(key)?, flags))
}

fn reply_of(value: Option<Bytes>, flags: u32) -> Reply {
    match value {
        Some(value) if flags & AS_BUFFER != 0 => Reply::Value(value),
        Some(value) => Reply::Text(value),
        None => Reply::Nothing,
    }
}

/// Up to `limit` keys that are present in a view: the first ones of a range, or the last ones if
/// `is_reverse` is true.
struct FirstKeys {
    view: View,
    space: Option<SpaceName>,
    is_reverse: bool,
    limit: u32,
}

impl FirstKeys {
    /// Deletes the keys.
    fn delete(self, db: &Db, range: Range) -> Result<(), Fault> {
        let options = ReadOptions::default().fill_cache(false);
        let space = self.space.map(|space| db.space(&space)).transpose()?;
        let mut entries = self.view.reading(options).range(range);
        let mut batch = WriteBatch::new();
        for _ in 0..self.limit {
            let entry = if self.is_reverse { entries.next_back() } else { entries.next() };
            let Some((key, _)) = entry.transpose()? else { break };
            match &space {
                Some(space) => batch.delete_in(space, key),
                None => batch.delete(key),
            }
            if batch.approximate_bytes() > CLEAR_BYTES {
                db.write(std::mem::take(&mut batch))?;
            }
        }
        Ok(db.write(batch)?)
    }
}
