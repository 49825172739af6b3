//! Opens a store: creates the store if it is missing, removes what a crash left behind, and
//! completes interrupted work.

use std::path::Path;
use std::sync::{Arc, Mutex, RwLock};

use minikv::Db;
use minikv::fs::Fs;

use crate::store::cluster::CLUSTER;
use crate::store::disk::Store;
use crate::store::error::{Error, Result};
use crate::store::home::{
    Home, LIVE, Layout, NEW, OWNER, SMALL_FILE_BYTES, StoreOptions, read_live, state_name,
};
use crate::store::state::{Current, Log, State};
use crate::store::writer::Writer;
use crate::store::{damage, ends, files, install, snapshot};

impl Store {
    /// Opens the store in the directory `dir`. Creates a store if the directory is empty or
    /// missing.
    ///
    /// # Errors
    /// [`Error::Refused`] if the directory contains anything other than a store, or a store with a
    /// different layout; [`Error::Damaged`] if the files have lost something that the node has
    /// promised to keep; errors of the databases and of files.
    pub fn open(dir: impl AsRef<Path>, options: StoreOptions) -> Result<Arc<Store>> {
        let StoreOptions { database, layout, fs } = options;
        let dir = fs.absolute(dir.as_ref()).map_err(Error::file("resolve", dir.as_ref()))?;
        let database = database.fs(fs.clone());
        let mut home = Home { fs, dir, options: database, layout: layout.unwrap_or_default() };
        files::create_dir(&*home.fs, &home.dir)?;
        let number = match read_live(&home)? {
            None => create(&home)?,
            Some(live) => {
                if layout.is_some_and(|wanted| wanted != live.layout) {
                    return Err(Error::Refused(format!(
                        "{}: the layout is {:?}, not {:?}",
                        home.dir.display(),
                        live.layout,
                        home.layout
                    )));
                }
                home.layout = live.layout;
                let number = live.state.strip_prefix("state-").and_then(|n| n.parse().ok());
                number.ok_or_else(|| {
                    Error::format(LIVE, format!("`{}` is not the name of a state", live.state))
                })?
            }
        };
        Store::open_state_and_log(home, number)
    }

    /// Opens the existing store with this live state, and completes interrupted work.
    fn open_state_and_log(home: Home, number: u64) -> Result<Arc<Store>> {
        let live = home.path(&state_name(number));
        if !home.fs.exists(&live).map_err(Error::file("query", &live))? {
            let what = format!("{}: missing, but `{LIVE}` names it", live.display());
            return Err(Error::Damaged { what });
        }
        // A damaged log is noticed before anything changes.
        let log = match home.layout {
            Layout::One => None,
            Layout::Two => {
                let dir = home.path("log");
                Some(damage::open_strictly(&*home.fs, &dir, &home.options, home.layout)?)
            }
        };
        let state = Arc::new(State::open(&home, number, false)?);
        let log = Log::of(log.as_ref().unwrap_or(state.db()))?;
        settle(&home, &log)?;
        remove_leftovers(&home, number)?;
        let newest = snapshot::clean(&home)?;
        let current = Arc::new(RwLock::new(Current { state, log }));
        let store = Store {
            home,
            writer: Writer::start(current.clone())?,
            current,
            snapshot: Mutex::new(newest.clone()),
            incoming: Mutex::new(None),
            received: Mutex::default(),
        };
        let installed = newest.as_ref().map(snapshot::read_last_log_id).transpose()?.flatten();
        if let Some(newest) = newest
            && installed > store.state().applied()?
        {
            install::replace_state(&store, &newest)?;
        }
        {
            let current = store.current();
            ends::check(&current.log, &current.state, installed)?;
        }
        store.finish_purge()?;
        Ok(Arc::new(store))
    }

    /// Returns whether [`Store::open`] would create a new store in `dir`.
    pub(crate) fn is_new(fs: &dyn Fs, dir: &Path) -> Result<bool> {
        let path = dir.join(LIVE);
        Ok(!fs.exists(&path).map_err(Error::file("query", &path))?)
    }

    /// Permanently assigns the store to the node `id`. A node with another number must not use the
    /// store, because it could vote again in a term in which the first node has already voted.
    ///
    /// # Errors
    /// [`Error::Refused`] if the store belongs to another node; [`Error::Damaged`] if the file is
    /// damaged; errors of the file.
    pub(crate) fn claim(&self, id: u64) -> Result<()> {
        let (fs, path) = (&*self.home.fs, self.home.path(OWNER));
        if !fs.exists(&path).map_err(Error::file("query", &path))? {
            return files::replace(fs, &self.home.dir, OWNER, format!("{id}\n").as_bytes());
        }
        let content = files::read(fs, &path, SMALL_FILE_BYTES)?;
        let (owner, path) = (String::from_utf8_lossy(&content), path.display());
        match owner.trim().parse::<u64>() {
            Ok(owner) if owner == id => Ok(()),
            Ok(owner) => Err(Error::Refused(format!(
                "{path}: this is the directory of node {owner}, not of node {id}"
            ))),
            Err(_) => {
                let what = format!("{path}: damaged: {owner:?} is not the number of a node");
                Err(Error::Damaged { what })
            }
        }
    }
}

/// Creates the databases of a new node. The file `NEW` exists until `LIVE` is written. In a
/// directory that contains other files, this function creates a node only if `NEW` exists: a node
/// that has lost `LIVE` must not be created again, because it may have voted.
fn create(home: &Home) -> Result<u64> {
    let fs = &*home.fs;
    let names = files::list(fs, &home.dir)?;
    let is_new = names.iter().any(|name| name == NEW);
    let is_of_store = |name: &&String| {
        name.starts_with("state-") || [OWNER, CLUSTER, "log", "snapshots"].contains(&name.as_str())
    };
    if let Some(name) = names.iter().find(is_of_store).filter(|_| !is_new) {
        let dir = home.dir.display();
        let what = format!("{dir}: the file {LIVE} is missing, but `{name}` of a node is there");
        return Err(Error::Damaged { what });
    }
    if !is_new && !names.is_empty() {
        return Err(Error::Refused(format!(
            "{}: not empty, and without the file {LIVE}: not a store",
            home.dir.display()
        )));
    }
    files::write(fs, &home.path(NEW), b"")?;
    files::sync_dir(fs, &home.dir)?;
    for name in [state_name(1).as_str(), "log"] {
        files::remove_tree(fs, &home.path(name))?;
    }
    drop(State::open(home, 1, true)?);
    if home.layout == Layout::Two {
        drop(Db::open(home.path("log"), home.options.clone().create_if_missing(true))?);
    }
    files::sync_dir(fs, &home.dir)?;
    home.set_live(1)?;
    Ok(1)
}

/// Makes durable what a killed process has left: names and writes that a loss of power would undo.
/// openraft answers other nodes by what it reads, and without the names, leftovers are needed. A
/// snapshot that was moved has its new place only when both directories are synced.
fn settle(home: &Home, log: &Log) -> Result<()> {
    for dir in [home.dir.clone(), home.snapshots(), home.incoming()] {
        if home.fs.exists(&dir).map_err(Error::file("query", &dir))? {
            files::sync_dir(&*home.fs, &dir)?;
        }
    }
    Ok(log.db.sync()?)
}

/// Removes files left behind by an interrupted creation of the store, or by an interrupted transfer
/// or installation of a snapshot.
fn remove_leftovers(home: &Home, number: u64) -> Result<()> {
    let fs = &*home.fs;
    let live = state_name(number);
    for name in files::list(fs, &home.dir)? {
        let path = home.path(&name);
        if name == NEW || name.ends_with(".new") {
            fs.remove(&path).map_err(Error::file("remove", &path))?;
        } else if name == "incoming" || name.starts_with("state-") && name != live {
            files::remove_tree(fs, &path)?;
        }
    }
    Ok(())
}
