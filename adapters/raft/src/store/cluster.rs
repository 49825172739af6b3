//! The file `CLUSTER`: the id of the cluster that a node belongs to. The node got the id when the
//! cluster was created or when the node joined; a directory without it is either new or was made by
//! an older version.
//!
//! ```text
//! {"format":1,"cluster":"<32 hexadecimal digits>","claimed_by":"<the node that gave the id>"}
//! ```

use serde::{Deserialize, Serialize};

use crate::store::disk::Store;
use crate::store::error::{Error, Result};
use crate::store::files;
use crate::store::home::SMALL_FILE_BYTES;

const CLUSTER: &str = "CLUSTER";
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
    /// [`Error::Format`] if the file is damaged or of an unknown format; errors of the file.
    pub(crate) fn cluster(&self) -> Result<Option<ClusterFile>> {
        let (fs, path) = (&*self.home.fs, self.home.path(CLUSTER));
        if !fs.exists(&path).map_err(Error::file("query", &path))? {
            return Ok(None);
        }
        let content = files::read(fs, &path, SMALL_FILE_BYTES)?;
        let place = || path.display().to_string();
        let file: ClusterFile =
            serde_json::from_slice(&content).map_err(|e| Error::format(place(), e.to_string()))?;
        if file.format != FORMAT {
            let what = format!("the format is {}, but this build knows {FORMAT}", file.format);
            return Err(Error::format(place(), what));
        }
        match is_cluster_id(&file.cluster) {
            true => Ok(Some(file)),
            false => Err(Error::format(place(), format!("`{}` is no id", file.cluster))),
        }
    }

    /// Durably records the cluster of this node.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn set_cluster(&self, file: &ClusterFile) -> Result<()> {
        let content =
            serde_json::to_vec(file).map_err(|e| Error::format(CLUSTER, e.to_string()))?;
        files::replace(&*self.home.fs, &self.home.dir, CLUSTER, &content)
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
        for wrong in ["", &good[..20], &newer, &short, &good.replace(id, &"G".repeat(32))] {
            std::fs::write(store.dir().join(CLUSTER), wrong).unwrap();
            let error = store.cluster().unwrap_err().to_string();
            assert!(error.contains("CLUSTER"), "{wrong}: {error}");
        }
    }
}
