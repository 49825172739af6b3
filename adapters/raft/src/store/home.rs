//! The directory of a node.
//!
//! ```text
//! DIR/LIVE                      the layout, and the name of the directory with the state (JSON)
//! DIR/state-000001/             the database with the state, and in the layout `One` also the log
//! DIR/NODE                      the number of the node that owns the directory
//! DIR/CLUSTER                   the id of the cluster that the node belongs to (JSON)
//! DIR/NEW                       exists while a new directory is being created
//! DIR/log/                      the database with the log, in the layout `Two`
//! DIR/snapshots/<id>/           a complete snapshot: a database in `db`, and the file `SNAPSHOT`
//! DIR/incoming/                 the snapshot that is being received
//! ```
//!
//! A name is made durable after the file or directory that it refers to. So a crash leaves at most
//! a file or directory that nothing refers to, which the next open removes, or a snapshot that is
//! newer than the state, which the next open installs.

use std::path::PathBuf;
use std::sync::Arc;

use minikv::Options;
use minikv::fs::{DiskFs, Fs};
use serde::{Deserialize, Serialize};

use crate::store::error::{Error, Result};
use crate::store::files;

pub(crate) const LIVE: &str = "LIVE";
/// The file that contains the number of the node that owns the directory.
pub(crate) const OWNER: &str = "NODE";
/// The file that exists while the directory of a new node is being created.
pub(crate) const NEW: &str = "NEW";
const FORMAT: u32 = 1;
pub(crate) const SMALL_FILE_BYTES: u64 = 1 << 20;

/// Whether the log and the state share a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// The log and the state are in one database, so a sync of the log also covers the state.
    One,
    /// The log and the state each have their own database, so a flush or compaction of one does not
    /// affect the other.
    #[default]
    Two,
}

/// The options of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Options of the databases. The store sets `create_if_missing` itself.
    pub database: Options,
    /// The layout of a new store. An existing store keeps its layout; opening an existing store
    /// with a different layout is an error.
    pub layout: Option<Layout>,
    /// The filesystem. The default is the filesystem of the operating system.
    pub fs: Arc<dyn Fs>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions { database: Options::default(), layout: None, fs: Arc::new(DiskFs) }
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct LiveFile {
    format: u32,
    pub(crate) layout: Layout,
    pub(crate) state: String,
}

/// The parts of a store that never change.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) layout: Layout,
}

pub(crate) fn state_name(number: u64) -> String {
    format!("state-{number:06}")
}

impl Home {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn snapshots(&self) -> PathBuf {
        self.dir.join("snapshots")
    }

    pub(crate) fn incoming(&self) -> PathBuf {
        self.dir.join("incoming")
    }

    /// Durably selects the state with this number as the state that the next open uses.
    pub(crate) fn set_live(&self, number: u64) -> Result<()> {
        let live = LiveFile { format: FORMAT, layout: self.layout, state: state_name(number) };
        let content = serde_json::to_vec(&live).map_err(|e| Error::format(LIVE, e.to_string()))?;
        files::replace(&*self.fs, &self.dir, LIVE, &files::with_sum(content))
    }
}

pub(crate) fn read_live(home: &Home) -> Result<Option<LiveFile>> {
    let path = home.path(LIVE);
    if !home.fs.exists(&path).map_err(Error::file("query", &path))? {
        return Ok(None);
    }
    let (content, _) = files::read_summed(&*home.fs, &path, SMALL_FILE_BYTES)?;
    let live: LiveFile = serde_json::from_slice(&content)
        .map_err(|e| Error::format(path.display().to_string(), e.to_string()))?;
    if live.format != FORMAT {
        let what = format!("the format is {}, but this build knows {FORMAT}", live.format);
        return Err(Error::format(path.display().to_string(), what));
    }
    Ok(Some(live))
}
