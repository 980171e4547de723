//! Finds the parts into which a component splits when edges are deleted.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::{Node, NodeId};

/// One search, breadth first.
#[derive(Default)]
struct Search {
    /// Nodes whose neighbours are to be visited, starting after this one.
    frontier: VecDeque<(NodeId, Option<NodeId>)>,
    seen: Vec<NodeId>,
}

/// The searches, and which of them have met.
struct Searches<'a> {
    nodes: &'a [Node],
    by_number: Vec<Search>,
    /// For each search, the one that it was merged into, or itself.
    into: Vec<usize>,
    seen_by: HashMap<NodeId, usize>,
}

/// Searches from the seeds, which were all in one component, and returns all resulting components except one:
/// usually the largest, of which no more is visited than of the others.
pub(super) fn pieces(nodes: &[Node], seeds: &[NodeId], work: &mut u64) -> Vec<Vec<NodeId>> {
    let mut all = Searches {
        nodes,
        by_number: Vec::with_capacity(seeds.len()),
        into: (0..seeds.len()).collect(),
        seen_by: HashMap::new(),
    };
    for (index, seed) in seeds.iter().enumerate() {
        all.seen_by.insert(*seed, index);
        all.by_number.push(Search { frontier: VecDeque::from([(*seed, None)]), seen: vec![*seed] });
    }
    let mut turns: VecDeque<usize> = (0..seeds.len()).collect();
    let mut left = turns.len();
    let mut pieces = Vec::new();
    while left > 1 {
        let Some(search) = turns.pop_front() else { break };
        if all.into[search] != search {
            continue;
        }
        *work += 1;
        match all.step(search) {
            Step::On => turns.push_back(search),
            Step::Met => {
                left -= 1;
                // If it was merged into the other, the other already has a turn.
                if all.into[search] == search {
                    turns.push_back(search);
                }
            }
            Step::Done => {
                left -= 1;
                pieces.push(std::mem::take(&mut all.by_number[search].seen));
            }
        }
    }
    pieces
}

enum Step {
    /// There is more to see.
    On,
    /// It was merged with another search.
    Met,
    /// All is seen.
    Done,
}

impl Searches<'_> {
    /// The search that this one is now merged into.
    fn leader(&mut self, mut search: usize) -> usize {
        while self.into[search] != search {
            self.into[search] = self.into[self.into[search]];
            search = self.into[search];
        }
        search
    }

    /// Looks at one edge.
    fn step(&mut self, search: usize) -> Step {
        let own = &mut self.by_number[search];
        let Some((node, after)) = own.frontier.pop_front() else { return Step::Done };
        let Some(neighbour) = next(&self.nodes[node as usize].neighbours, after) else { return Step::On };
        own.frontier.push_front((node, Some(neighbour)));
        match self.seen_by.entry(neighbour) {
            Entry::Vacant(free) => {
                free.insert(search);
                own.frontier.push_back((neighbour, None));
                own.seen.push(neighbour);
                Step::On
            }
            Entry::Occupied(seen) => {
                let other = *seen.get();
                let other = self.leader(other);
                if other == search {
                    return Step::On;
                }
                self.join(search, other);
                Step::Met
            }
        }
    }

    /// Merges the search that has visited less into the other.
    fn join(&mut self, one: usize, other: usize) {
        let seen = |search: usize| self.by_number[search].seen.len();
        let (small, large) = if seen(one) < seen(other) { (one, other) } else { (other, one) };
        let Search { frontier, seen } = std::mem::take(&mut self.by_number[small]);
        self.by_number[large].frontier.extend(frontier);
        self.by_number[large].seen.extend(seen);
        self.into[small] = large;
    }
}

fn next(neighbours: &BTreeMap<NodeId, u8>, after: Option<NodeId>) -> Option<NodeId> {
    let from = after.map_or(Unbounded, Excluded);
    neighbours.range((from, Unbounded)).next().map(|(neighbour, _)| *neighbour)
}
