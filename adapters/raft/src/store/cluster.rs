//! The file `CLUSTER`: the id of the cluster that a node belongs to. The node got the id when the
//! cluster was created or when the node joined; a directory without it is either new or was made by
//! an older version.
//!
//! ```text
//! {"format":1,"cluster":"<32 hexadecimal digits>","claimed_by":"<the node that gave the id>"}
//! crc32c <8 hexadecimal digits>
//! ```
//!
//! The first version of the file had no checksum.

use serde::{Deserialize, Serialize};

use crate::store::disk::Store;
use crate::store::error::{Error, Result};
use crate::store::files;
use crate::store::home::SMALL_FILE_BYTES;

pub(crate) const CLUSTER: &str = "CLUSTER";
const FORMAT: u32 = 1;

/// The cluster of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClusterFile {
    format: u32,
    /// The id of the cluster.
    pub(crate) cluster: String,
    /// The node that gave this node the id, or `None` if this node made the id.
    pub(crate) claimed_by: Option<String>,
}

impl ClusterFile {
    /// Creates the id of a new cluster.
    ///
    /// # Errors
    /// [`Error::Refused`] if the system has no random numbers.
    pub(crate) fn random() -> Result<ClusterFile> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|e| Error::Refused(format!("no random numbers from the system: {e}")))?;
        let cluster = format!("{:032x}", u128::from_be_bytes(random));
        Ok(ClusterFile { format: FORMAT, cluster, claimed_by: None })
    }

    /// Describes the cluster that the node `by` gave to this node.
    pub(crate) fn claimed(cluster: &str, by: String) -> ClusterFile {
        ClusterFile { format: FORMAT, cluster: cluster.into(), claimed_by: Some(by) }
    }
}

/// Returns whether `text` can be the id of a cluster.
pub(crate) fn is_cluster_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

impl Store {
    /// Returns the cluster of this node, or `None` if the node has no id of a cluster yet.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the file is damaged; [`Error::Format`] if it is of an unknown format;
    /// errors of the file.
    pub(crate) fn cluster(&self) -> Result<Option<ClusterFile>> {
        let (fs, path) = (&*self.home.fs, self.home.path(CLUSTER));
        if !fs.exists(&path).map_err(Error::file("query", &path))? {
            return Ok(None);
        }
        let (content, _) = files::read_summed(fs, &path, SMALL_FILE_BYTES)?;
        let place = path.display().to_string();
        let damaged = |what| Error::Damaged { what: format!("{place}: damaged: {what}") };
        let file: ClusterFile =
            serde_json::from_slice(&content).map_err(|e| damaged(e.to_string()))?;
        if file.format != FORMAT {
            let what = format!("the format is {}, but this build knows {FORMAT}", file.format);
            return Err(Error::format(place, what));
        }
        match is_cluster_id(&file.cluster) {
            true => Ok(Some(file)),
            false => Err(damaged(format!("`{}` is no id", file.cluster))),
        }
    }

    /// Durably records the cluster of this node.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn set_cluster(&self, file: &ClusterFile) -> Result<()> {
        let content =
            serde_json::to_vec(file).map_err(|e| Error::format(CLUSTER, e.to_string()))?;
        files::replace(&*self.home.fs, &self.home.dir, CLUSTER, &files::with_sum(content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreOptions;

    #[test]
    fn a_damaged_id_is_refused_and_not_taken_for_none() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path().join("node"), StoreOptions::default()).unwrap();
        assert_eq!(store.cluster().unwrap(), None);
        let made = ClusterFile::random().unwrap();
        store.set_cluster(&made).unwrap();
        assert_eq!(store.cluster().unwrap(), Some(made.clone()));
        assert_ne!(ClusterFile::random().unwrap().cluster, made.cluster);

        let good = String::from_utf8(serde_json::to_vec(&made).unwrap()).unwrap();
        let id = made.cluster.as_str();
        let newer = good.replace("\"format\":1", "\"format\":2");
        let short = good.replace(id, &id[1..]);
        let path = store.dir().join(CLUSTER);
        for wrong in ["", &good[..20], &newer, &short, &good.replace(id, &"G".repeat(32))] {
            std::fs::write(&path, wrong).unwrap();
            let error = store.cluster().unwrap_err().to_string();
            assert!(error.contains("CLUSTER"), "{wrong}: {error}");
            assert_eq!(error.contains("CLUSTER: damaged"), wrong != newer, "{error}");
        }
        // A file of the first version.
        std::fs::write(&path, &good).unwrap();
        assert_eq!(store.cluster().unwrap(), Some(made.clone()));

        // Another id that has the right form.
        let other = if id.starts_with('0') { "1" } else { "0" };
        let other = format!("{other}{}", &id[1..]);
        store.set_cluster(&made).unwrap();
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, whole.replace(id, &other)).unwrap();
        let error = store.cluster().unwrap_err().to_string();
        assert!(error.contains("CLUSTER: damaged"), "{error}");
    }

    #[test]
    fn a_damaged_number_of_the_node_is_no_other_node() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path().join("node"), StoreOptions::default()).unwrap();
        store.claim(3).unwrap();
        assert!(store.claim(4).unwrap_err().to_string().contains("of node 3, not of node 4"));
        for wrong in ["", "\n", "s\n"] {
            std::fs::write(store.dir().join("NODE"), wrong).unwrap();
            let error = store.claim(3).unwrap_err().to_string();
            assert!(error.contains("NODE: damaged"), "{error}");
        }
    }

    #[test]
    fn a_directory_without_its_file_live_has_lost_data() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("node");
        let store = Store::open(&dir, StoreOptions::default()).unwrap();
        store.check_home().unwrap();
        std::fs::remove_file(dir.join("LIVE")).unwrap();
        assert!(store.check_home().unwrap_err().to_string().contains("LIVE is missing"));
        drop(store);
        let error = Store::open(&dir, StoreOptions::default()).unwrap_err().to_string();
        assert!(error.contains("LIVE is missing") && error.contains("may have lost"), "{error}");
    }
}
