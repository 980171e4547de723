//! A pool of encoded bytes: equal bytes of many flows and switches are stored once.

use std::collections::HashSet;
use std::sync::Arc;

/// A pool smaller than this is not searched for unused entries.
const SWEEP_MIN: usize = 1024;

/// The encoded matches, instructions and buckets of all switches of a process.
/// [`FlowKey::share`](crate::FlowKey::share) and its siblings replace their bytes by equal ones from the pool.
///
/// The pool drops unused entries in sweeps. A sweep runs once enough entries have come or gone to make its cost per
/// entry small.
#[derive(Debug, Default)]
pub struct Pool {
    entries: HashSet<Arc<[u8]>>,
    /// The number of entries added, and of entries possibly unused, since the last sweep.
    changed: usize,
    /// The number of entries that the last sweep kept.
    left: usize,
}

impl Pool {
    pub(crate) fn share(&mut self, bytes: &mut Arc<[u8]>) {
        if let Some(entry) = self.entries.get(&**bytes) {
            *bytes = Arc::clone(entry);
            return;
        }
        self.note_changes(1);
        self.entries.insert(Arc::clone(bytes));
    }

    /// Records that `count` flows or buckets were deleted, or entries added.
    pub fn note_changes(&mut self, count: usize) {
        self.changed = self.changed.saturating_add(count);
        if self.changed > self.left.max(SWEEP_MIN) {
            self.entries.retain(|entry| Arc::strong_count(entry) > 1);
            self.left = self.entries.len();
            self.entries.shrink_to(2 * self.left);
            self.changed = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: usize) -> Arc<[u8]> {
        Arc::from(number.to_be_bytes())
    }

    #[test]
    fn equal_bytes_are_the_same_and_unused_ones_go() {
        let mut pool = Pool::default();
        let (mut one, mut other) = (entry(1), entry(1));
        pool.share(&mut one);
        pool.share(&mut other);
        assert!(Arc::ptr_eq(&one, &other));

        // First many entries that nothing keeps, then as many that are kept.
        for number in 0..100_000 {
            pool.share(&mut entry(number));
        }
        assert!(pool.entries.len() <= SWEEP_MIN + 2, "{}", pool.entries.len());
        let mut kept: Vec<_> = (0..100_000).map(entry).collect();
        for bytes in &mut kept {
            pool.share(bytes);
        }
        assert!(pool.entries.len() >= kept.len());
        let count = kept.len();
        drop(kept);
        pool.note_changes(count);
        pool.note_changes(count);
        assert_eq!(pool.entries.len(), 1, "one is still used");
        let mut again = entry(1);
        pool.share(&mut again);
        assert!(Arc::ptr_eq(&one, &again));
    }
}
