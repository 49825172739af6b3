//! Processes of the nodes of a cluster.

use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Processes of the nodes, in the order of the nodes. They are killed when this value is dropped.
#[derive(Default)]
pub struct Processes(Mutex<Vec<Child>>);

impl Processes {
    fn lock(&self) -> MutexGuard<'_, Vec<Child>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the process of a node. Replaces the killed process of the node, or adds the process
    /// of a new node.
    pub fn set(&self, node: usize, child: Child) {
        let mut children = self.lock();
        match children.get_mut(node) {
            Some(place) => *place = child,
            None => children.push(child),
        }
    }

    pub fn kill(&self, node: usize) {
        let child = &mut self.lock()[node];
        child.kill().and_then(|()| child.wait()).expect("a kill");
    }

    pub fn ids(&self) -> Vec<u32> {
        self.lock().iter().map(Child::id).collect()
    }

    pub fn len(&self) -> usize {
        self.lock().len()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in self.lock().iter_mut() {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}
