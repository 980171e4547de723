//! One table of interned items: each item has a number, and a number that was forgotten is used again.

use hashbrown::HashTable;

/// The number of an item, with half of the item's hash: when the table grows, it need not read all items to hash them again.
#[derive(Debug, Clone, Copy)]
struct Numbered {
    hash: u32,
    number: u32,
}

impl Numbered {
    /// The hash by which tables find the number.
    fn place(self) -> u64 {
        place(self.hash)
    }
}

/// The hash by which tables find items. Tables use its highest and its lowest bits.
fn place(hash: u32) -> u64 {
    u64::from(hash) << u32::BITS | u64::from(hash)
}

/// Interned items by number.
#[derive(Debug)]
pub(super) struct Interned<T> {
    things: Vec<Option<T>>,
    numbers: HashTable<Numbered>,
    /// The numbers of forgotten items, which can be reused.
    free: Vec<u32>,
    /// In debug builds, the numbers freed by the last sweep. They are not reused before the next sweep, so that a use
    /// of a forgotten symbol is noticed.
    resting: Vec<u32>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Interned { things: Vec::new(), numbers: HashTable::new(), free: Vec::new(), resting: Vec::new() }
    }
}

impl<T> Interned<T> {
    pub(super) fn find(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<u32> {
        let hash = hash as u32;
        let found = self
            .numbers
            .find(place(hash), |other| other.hash == hash && self.get(other.number).is_some_and(&is));
        found.map(|found| found.number)
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.things.get(number as usize)?.as_ref()
    }

    /// The item of a number in use.
    #[inline]
    pub(super) fn thing(&self, number: u32) -> &T {
        self.things[number as usize]
            .as_ref()
            .expect("a symbol that is held is marked, so that it is not swept")
    }

    /// Inserts an absent item and returns its number.
    ///
    /// # Panics
    /// If there are too many items; memory runs out long before.
    pub(super) fn insert(&mut self, thing: T, hash: u64, limit: u32) -> u32 {
        let number = self.free.pop().unwrap_or(self.things.len() as u32);
        assert!(number < limit, "the symbol table is full");
        if number as usize == self.things.len() {
            self.things.push(Some(thing));
        } else {
            self.things[number as usize] = Some(thing);
        }
        let numbered = Numbered { hash: hash as u32, number };
        self.numbers.insert_unique(numbered.place(), numbered, |other| other.place());
        number
    }

    /// The items by number.
    pub(super) fn things(&self) -> &[Option<T>] {
        &self.things
    }

    /// A table of these items, with their hashes.
    pub(super) fn restore(things: Vec<Option<T>>, hashes: &[u64]) -> Self {
        let free = things.iter().zip(0..).filter(|(thing, _)| thing.is_none()).map(|(_, number)| number);
        let free: Vec<u32> = free.collect();
        let mut numbers = HashTable::with_capacity(things.len() - free.len());
        for (number, (_, hash)) in
            (0..).zip(things.iter().zip(hashes)).filter(|(_, (thing, _))| thing.is_some())
        {
            let numbered = Numbered { hash: *hash as u32, number };
            numbers.insert_unique(numbered.place(), numbered, |other| other.place());
        }
        // The least number is used first.
        Interned { things, numbers, free: free.into_iter().rev().collect(), resting: Vec::new() }
    }

    /// Replaces an item by an equal one.
    pub(super) fn replace(&mut self, number: u32, thing: T) {
        self.things[number as usize] = Some(thing);
    }

    /// Forgets the unmarked items.
    pub(super) fn sweep(&mut self, marks: &Bits) {
        let Interned { things, numbers, free, resting, .. } = self;
        free.append(resting);
        let forgotten = if cfg!(debug_assertions) { resting } else { &mut *free };
        let known = forgotten.len();
        numbers.retain(|numbered| {
            let is_marked = marks.has(numbered.number);
            if !is_marked {
                forgotten.push(numbered.number);
            }
            is_marked
        });
        // The order in which they were made, and so about that of their memory. In the order of the table, each would be a miss of
        // the processor's caches.
        let forgotten = &mut forgotten[known..];
        forgotten.sort_unstable();
        for number in forgotten {
            things[*number as usize] = None;
        }
        // Ascending numbers for new items: the symbols of one transaction are then neighbours, and so are its rows in
        // traces, which are ordered by symbol. In the table's order, a transaction took up to twice as long.
        free.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// The number of items and of free places.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.things.len()
    }

    /// The number of items.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }
}

/// A set of numbers.
#[derive(Debug, Default, Clone)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    #[inline]
    pub(super) fn set(&mut self, number: u32) {
        let word = (number / u64::BITS) as usize;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (number % u64::BITS);
    }

    pub(super) fn has(&self, number: u32) -> bool {
        self.0.get((number / u64::BITS) as usize).is_some_and(|word| word & 1 << (number % u64::BITS) != 0)
    }

    /// Adds all numbers of another set.
    pub(super) fn append(&mut self, other: &Bits) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes that scatter the items over the table.
    fn hash(item: u32) -> u64 {
        u64::from(item.wrapping_mul(0x9e37_79b1))
    }

    fn insert(table: &mut Interned<u32>, items: std::ops::Range<u32>) -> Vec<u32> {
        items.map(|item| table.insert(item, hash(item), u32::MAX)).collect()
    }

    #[test]
    fn forgotten_numbers_are_used_again_in_ascending_order() {
        let mut table = Interned::default();
        insert(&mut table, 0..1000);
        let mut marks = Bits::default();
        (0..1000).filter(|number| number % 3 == 0).for_each(|number| marks.set(number));
        // Debug builds reuse a number only after two sweeps.
        table.sweep(&marks);
        table.sweep(&marks);
        assert_eq!(table.len(), 334);
        let wanted: Vec<u32> = (0..1000).filter(|number| number % 3 != 0).chain([1000, 1001]).collect();
        assert_eq!(insert(&mut table, 2000..2668), wanted);
    }

    #[test]
    fn a_set_has_the_numbers_of_both_after_an_append() {
        let (mut one, mut other) = (Bits::default(), Bits::default());
        one.set(3);
        one.set(64);
        other.set(5);
        other.set(300);
        one.append(&other);
        let all: Vec<u32> = (0..400).filter(|number| one.has(*number)).collect();
        assert_eq!(all, [3, 5, 64, 300]);
    }
}
