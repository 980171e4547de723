//! One copy of equal values: thousands of databases have one schema.

use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The values that are looked for. Peers decide how many kinds there are.
const KINDS_MAX: usize = 32;

/// Values that are in use somewhere.
pub(crate) struct Known<T>(Mutex<Vec<Weak<T>>>);

impl<T: PartialEq> Known<T> {
    pub(crate) const fn new() -> Self {
        Known(Mutex::new(Vec::new()))
    }

    /// The equal value that is in use, or else this one.
    pub(crate) fn share(&self, value: T) -> Arc<T> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.strong_count() > 0);
        if let Some(same) = known.iter().filter_map(Weak::upgrade).find(|known| **known == value) {
            return same;
        }
        let value = Arc::new(value);
        if known.len() < KINDS_MAX {
            known.push(Arc::downgrade(&value));
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d12_equal_values_are_one_and_what_nobody_uses_is_forgotten() {
        let known = Known::new();
        let first = known.share("a".to_owned());
        assert!(Arc::ptr_eq(&first, &known.share("a".to_owned())));
        let many: Vec<Arc<String>> = (0..100).map(|n| known.share(n.to_string())).collect();
        assert_eq!(known.0.lock().expect("no panic").len(), KINDS_MAX);
        drop((first, many));
        known.share("b".to_owned());
        assert_eq!(known.0.lock().expect("no panic").len(), 1);
    }
}
