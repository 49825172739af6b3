//! Other views of the database: a read-only handle that follows it, the changes in its logs, and
//! backups.

use minikv::backup::Backups;
use minikv::{BatchOp, Db, Error, Options};

use crate::order::Model;
use crate::run::{Run, assert_same};

impl Run {
    /// Refreshes the follower and compares it with the present state. The follower may stay open
    /// while the database is closed and reopened.
    pub fn follow(&mut self) {
        let options = self.config.options(&self.home, &mut self.rng);
        let follower = match self.follower.take() {
            Some(follower) => {
                follower.refresh().unwrap();
                follower
            }
            None => Db::open_read_only(self.home.dir(), options).unwrap(),
        };
        assert_eq!(follower.recovery().lost, []);
        self.compare_all(&follower);
        self.follower = (!self.rng.one_in(10)).then_some(follower);
    }

    /// Applies the changes since the last call to `self.copied`, a copy of the state at the last
    /// call. The copy must then equal the present state, unless the changes are reported as lost.
    pub fn copy_changes(&mut self) {
        let sequence = self.db().sequence();
        let (from, mut copy) = self.copied.take().unwrap_or((sequence, self.model.clone()));
        let changes = match (self.rng.one_in(2), &self.follower) {
            (true, Some(follower)) => follower.changes_since(from),
            _ => self.db().changes_since(from),
        };
        let mut last = from;
        for batch in changes.unwrap() {
            let batch = match batch {
                Err(Error::ChangesLost { after, .. }) => {
                    self.changes_lost += 1;
                    return assert_eq!(after, last);
                }
                batch => batch.unwrap(),
            };
            assert!(batch.sequence() > last, "{} after {last}", batch.sequence());
            last = batch.sequence() + batch.len() as u64 - 1;
            for op in &batch {
                match op.unwrap() {
                    BatchOp::Put { key, value } => copy.set(key, Some(value)),
                    BatchOp::Delete { key } => copy.delete(key),
                }
            }
        }
        assert_eq!(last, sequence);
        assert_same(copy.all(), &self.model.all());
        self.changes_copied += u64::from(last > from);
        self.copied = Some((last, copy));
    }

    /// Sometimes adds a backup, sometimes removes old backups, and restores one of the backups that
    /// are left.
    pub fn back_up_or_restore(&mut self) {
        let folder = self.home.dir().with_extension("backups");
        if self.backups.is_empty() || self.rng.one_in(2) {
            let made = self.db().backup(&folder).unwrap();
            assert!(self.backups.last().is_none_or(|(number, _)| *number < made.number));
            self.backups.push((made.number, self.model.clone()));
        }
        let options = self.config.options(&self.home, &mut self.rng);
        if self.rng.one_in(4) {
            let n = 1 + self.rng.below(3);
            Backups::open(&folder, &options).unwrap().keep(n).unwrap();
            self.backups.drain(..self.backups.len().saturating_sub(n));
        }
        let at = self.rng.below(self.backups.len());
        let (number, model) = self.backups[at].clone();
        self.restore(number, &model, &options);
    }

    /// Checks that all backups are present and intact.
    pub fn check_backups(&mut self) {
        if self.backups.is_empty() {
            return;
        }
        let options = self.config.options(&self.home, &mut self.rng);
        let folder = self.home.dir().with_extension("backups");
        let backups = Backups::open(&folder, &options).unwrap();
        let listed = backups.list().unwrap();
        let numbers = self.backups.iter().map(|(number, _)| *number);
        assert!(listed.iter().map(|backup| backup.number).eq(numbers), "{listed:?}");
        assert_eq!(backups.verify(|_| {}).unwrap(), []);
        let (number, model) = self.backups[self.rng.below(self.backups.len())].clone();
        self.restore(number, &model, &options);
    }

    /// Restores a backup, and compares the restored database with the state at the time of the
    /// backup.
    fn restore(&self, number: u64, model: &Model, options: &Options) {
        let folder = self.home.dir().with_extension("backups");
        let dest = self.home.dir().with_extension(format!("restored{}", self.operation));
        let backups = Backups::open(&folder, options).unwrap();
        backups.restore(Some(number), &dest, |_| {}).unwrap();
        let restored = Db::open_read_only(&dest, options.clone()).unwrap();
        assert_eq!(restored.recovery().lost, []);
        self.compare(&restored, model);
        drop(restored);
        self.home.remove_files(&dest);
    }
}
