//! Directories in memory: names, and POSIX's rules for changing them.
//!
//! A change is first checked against the existing names. The check yields a [`NameOp`], which is
//! then applied without further checks, so that a crash can apply any subset of the changes. Clones
//! share directories until one of the clones changes them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

use super::EntryKind;
use super::system::Errno;

/// Identity of a directory, which does not depend on its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DirId(u64);

const ROOT: DirId = DirId(0);

/// The target of a name. Two nodes are equal if they refer to the same file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node<F> {
    Dir(DirId),
    File(F),
}

/// A name in a directory. The name need not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Location {
    pub dir: DirId,
    pub name: Arc<OsStr>,
}

/// An atomic change of names.
#[derive(Clone, Debug)]
pub(super) enum NameOp<F> {
    /// Gives a name to a new file or directory, or an additional name to a file.
    Set { at: Location, node: Node<F> },
    /// Removes a name.
    Remove { at: Location },
    /// Moves a name, replacing the target if it exists.
    Rename { from: Location, to: Location, node: Node<F> },
}

impl<F> NameOp<F> {
    /// Returns the names that the change affects.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn locations(&self) -> impl Iterator<Item = &Location> {
        let (first, second) = match self {
            NameOp::Set { at, .. } | NameOp::Remove { at } => (at, None),
            NameOp::Rename { from, to, .. } => (from, Some(to)),
        };
        std::iter::once(first).chain(second)
    }
}

type DirEntries<F> = Arc<BTreeMap<Arc<OsStr>, Node<F>>>;

#[derive(Clone, Debug)]
pub(super) struct Namespace<F> {
    dirs: BTreeMap<DirId, DirEntries<F>>,
}

impl<F> Default for Namespace<F> {
    fn default() -> Namespace<F> {
        Namespace { dirs: BTreeMap::from([(ROOT, Arc::default())]) }
    }
}

/// Returns the names on a path from the root. Relative paths start at the root, too, and `..` is
/// resolved lexically, because there are no symbolic links.
fn names(path: &Path) -> Vec<&OsStr> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::ParentDir => drop(names.pop()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    names
}

impl<F: Clone + PartialEq> Namespace<F> {
    fn entry(&self, dir: DirId, name: &OsStr) -> Option<&Node<F>> {
        self.dirs.get(&dir)?.get(name)
    }

    fn entry_at(&self, at: &Location) -> Option<&Node<F>> {
        self.entry(at.dir, &at.name)
    }

    fn is_empty_dir(&self, dir: DirId) -> bool {
        self.dirs.get(&dir).is_none_or(|entries| entries.is_empty())
    }

    /// Returns the directories from the root to the directory that contains the last name of
    /// `path`, and the last name.
    fn walk<'p>(&self, path: &'p Path) -> io::Result<(Vec<DirId>, Option<&'p OsStr>)> {
        let mut names = names(path);
        let last = names.pop();
        let mut dirs = vec![ROOT];
        for name in names {
            match self.entry(dirs[dirs.len() - 1], name) {
                Some(Node::Dir(dir)) => dirs.push(*dir),
                Some(Node::File(_)) => return Err(Errno::NOTDIR.into()),
                None => return Err(Errno::NOENT.into()),
            }
        }
        Ok((dirs, last))
    }

    /// Returns the location of the last name of a path. The name need not exist.
    pub(super) fn location(&self, path: &Path) -> io::Result<Location> {
        let (dirs, last) = self.walk(path)?;
        let name = last.ok_or(Errno::BUSY)?;
        Ok(Location { dir: dirs[dirs.len() - 1], name: Arc::from(name) })
    }

    pub(super) fn lookup(&self, path: &Path) -> io::Result<Node<F>> {
        let (dirs, last) = self.walk(path)?;
        let Some(name) = last else { return Ok(Node::Dir(ROOT)) };
        let node = self.entry(dirs[dirs.len() - 1], name).ok_or(Errno::NOENT)?;
        Ok(node.clone())
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<F> {
        match self.lookup(path)? {
            Node::File(file) => Ok(file),
            Node::Dir(_) => Err(Errno::ISDIR.into()),
        }
    }

    pub(super) fn dir(&self, path: &Path) -> io::Result<DirId> {
        match self.lookup(path)? {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) => Err(Errno::NOTDIR.into()),
        }
    }

    pub(super) fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.lookup(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn entries(&self, path: &Path) -> io::Result<Vec<(String, EntryKind)>> {
        let dir = self.dir(path)?;
        let entries = self.dirs.get(&dir).into_iter().flat_map(|entries| entries.iter());
        let entries = entries.filter_map(|(name, node)| {
            let kind = match node {
                Node::Dir(_) => EntryKind::Directory,
                Node::File(_) => EntryKind::File,
            };
            Some((name.to_str()?.to_owned(), kind))
        });
        Ok(entries.collect())
    }

    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let dir = self.dir(path)?;
        let entries = self.dirs.get(&dir).into_iter().flat_map(|entries| entries.keys());
        Ok(entries.filter_map(|name| name.to_str().map(str::to_string)).collect())
    }

    /// Returns the first missing directory of a path. The caller creates that directory and calls
    /// this function again.
    pub(super) fn missing_dir(&self, path: &Path) -> io::Result<Option<Location>> {
        let mut dir = ROOT;
        let names = names(path);
        for (depth, name) in names.iter().enumerate() {
            match self.entry(dir, name) {
                Some(Node::Dir(next)) => dir = *next,
                Some(Node::File(_)) if depth + 1 == names.len() => {
                    return Err(Errno::EXIST.into());
                }
                Some(Node::File(_)) => return Err(Errno::NOTDIR.into()),
                None => return Ok(Some(Location { dir, name: Arc::from(*name) })),
            }
        }
        Ok(None)
    }

    /// Returns an id that no directory has had in this namespace.
    pub(super) fn unused_dir(&self) -> DirId {
        let last = self.dirs.keys().next_back().map_or(0, |dir| dir.0);
        DirId(last + 1)
    }

    pub(super) fn link(&self, from: &Path, to: &Path) -> io::Result<NameOp<F>> {
        let Node::File(file) = self.lookup(from)? else { return Err(Errno::PERM.into()) };
        let at = self.location(to)?;
        if self.entry_at(&at).is_some() {
            return Err(Errno::EXIST.into());
        }
        Ok(NameOp::Set { at, node: Node::File(file) })
    }

    pub(super) fn remove(&self, path: &Path) -> io::Result<NameOp<F>> {
        self.file(path)?;
        Ok(NameOp::Remove { at: self.location(path)? })
    }

    pub(super) fn remove_dir(&self, path: &Path) -> io::Result<NameOp<F>> {
        let dir = self.dir(path)?;
        let at = self.location(path)?;
        if !self.is_empty_dir(dir) {
            return Err(Errno::NOTEMPTY.into());
        }
        Ok(NameOp::Remove { at })
    }

    /// Checks a rename. Returns `None` if both names refer to the same file, in which case both
    /// stay.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<Option<NameOp<F>>> {
        let node = self.lookup(from)?;
        let from = self.location(from)?;
        let (to_dirs, _) = self.walk(to)?;
        if let Node::Dir(dir) = node
            && to_dirs.contains(&dir)
        {
            return Err(Errno::INVAL.into());
        }
        let to = self.location(to)?;
        match (&node, self.entry_at(&to)) {
            (_, Some(target)) if *target == node => return Ok(None),
            (Node::Dir(_), Some(Node::File(_))) => return Err(Errno::NOTDIR.into()),
            (Node::File(_), Some(Node::Dir(_))) => return Err(Errno::ISDIR.into()),
            (Node::Dir(_), Some(Node::Dir(target))) if !self.is_empty_dir(*target) => {
                return Err(Errno::NOTEMPTY.into());
            }
            _ => {}
        }
        Ok(Some(NameOp::Rename { from, to, node }))
    }

    /// Applies a change without checks, because earlier changes on which this change depended may
    /// be missing after a crash. There is one exception: a directory that is not empty is not
    /// removed.
    pub(super) fn apply(&mut self, op: &NameOp<F>) {
        match op {
            NameOp::Set { at, node } => self.set(at, node),
            NameOp::Remove { at } => self.unset(at),
            NameOp::Rename { from, to, node } => {
                // `unset` would keep a directory that is not empty, but a renamed directory moves
                // with its contents.
                Arc::make_mut(self.dirs.entry(from.dir).or_default()).remove(&from.name);
                self.set(to, node);
            }
        }
    }

    fn set(&mut self, at: &Location, node: &Node<F>) {
        if let Node::Dir(dir) = node {
            self.dirs.entry(*dir).or_default();
        }
        let entries = self.dirs.entry(at.dir).or_default();
        Arc::make_mut(entries).insert(at.name.clone(), node.clone());
    }

    fn unset(&mut self, at: &Location) {
        if let Some(Node::Dir(dir)) = self.entry_at(at)
            && !self.is_empty_dir(*dir)
        {
            return;
        }
        Arc::make_mut(self.dirs.entry(at.dir).or_default()).remove(&at.name);
    }

    /// Returns every file that can be reached from the root, with its path, ordered by path.
    pub(super) fn files(&self) -> Vec<(std::path::PathBuf, F)> {
        let mut files = Vec::new();
        let mut seen = BTreeSet::from([ROOT]);
        let mut todo = vec![(std::path::PathBuf::from("/"), ROOT)];
        while let Some((path, dir)) = todo.pop() {
            for (name, node) in self.dirs.get(&dir).into_iter().flat_map(|e| e.iter()) {
                match node {
                    Node::File(file) => files.push((path.join(&**name), file.clone())),
                    Node::Dir(dir) if seen.insert(*dir) => todo.push((path.join(&**name), *dir)),
                    Node::Dir(_) => {}
                }
            }
        }
        files.sort_by(|(a, _), (b, _)| a.cmp(b));
        files
    }
}

impl<F: Copy + Ord> Namespace<F> {
    /// Returns every file that has a name, even if the name is in a directory that has no name.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn named_files(&self) -> BTreeSet<F> {
        let nodes = self.dirs.values().flat_map(|entries| entries.values());
        nodes
            .filter_map(|node| match node {
                Node::File(file) => Some(*file),
                Node::Dir(_) => None,
            })
            .collect()
    }
}
