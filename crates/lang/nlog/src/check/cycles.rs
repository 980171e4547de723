//! Cycles in a directed graph.

use std::collections::{HashMap, HashSet, VecDeque};

/// A strongly connected component that contains a cycle.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tangle {
    /// A shortest cycle through the least node: each leads to the next, the last to the first.
    pub(super) cycle: Vec<usize>,
    /// The other nodes of the component, ascending.
    pub(super) others: Vec<usize>,
}

/// All components that contain a cycle, by their least node. `edges[a]` are the nodes that `a` leads to, ascending.
pub(super) fn tangles(edges: &[Vec<usize>]) -> Vec<Tangle> {
    let (component, _) = components(edges);
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); edges.len()];
    for (node, &of) in component.iter().enumerate() {
        members[of].push(node);
    }
    let mut tangles: Vec<Tangle> = members
        .into_iter()
        .filter_map(|nodes| {
            let &least = nodes.first()?;
            let cycle = shortest_cycle(edges, &component, least)?;
            let on_cycle: HashSet<usize> = cycle.iter().copied().collect();
            let others = nodes.into_iter().filter(|node| !on_cycle.contains(node)).collect();
            Some(Tangle { cycle, others })
        })
        .collect();
    tangles.sort_by_key(|tangle| tangle.cycle[0]);
    tangles
}

/// The nodes in topological order, each after the nodes that it leads to; the order within cycles is arbitrary.
pub(super) fn dependencies_first(edges: &[Vec<usize>]) -> Vec<usize> {
    components(edges).1
}

/// Tarjan's algorithm, without recursion: each node's component, and the nodes in the order in which the components
/// are complete.
fn components(edges: &[Vec<usize>]) -> (Vec<usize>, Vec<usize>) {
    const NEW: usize = usize::MAX;
    let count = edges.len();
    let (mut index, mut low) = (vec![NEW; count], vec![0; count]);
    let mut component = vec![NEW; count];
    let (mut order, mut stack, mut next, mut found) = (Vec::with_capacity(count), Vec::new(), 0, 0);
    for start in 0..count {
        if index[start] != NEW {
            continue;
        }
        let mut walk = vec![(start, 0)];
        while let Some((node, edge)) = walk.pop() {
            if edge == 0 {
                index[node] = next;
                low[node] = next;
                next += 1;
                stack.push(node);
            } else {
                let child = edges[node][edge - 1];
                low[node] = low[node].min(low[child]);
            }
            // Continue with the first edge that leads to a new node.
            let mut at = edge;
            let child = loop {
                let Some(&child) = edges[node].get(at) else { break None };
                at += 1;
                if index[child] == NEW {
                    break Some(child);
                }
                if component[child] == NEW {
                    low[node] = low[node].min(index[child]);
                }
            };
            if let Some(child) = child {
                walk.push((node, at));
                walk.push((child, 0));
            } else if low[node] == index[node] {
                while let Some(member) = stack.pop() {
                    component[member] = found;
                    order.push(member);
                    if member == node {
                        break;
                    }
                }
                found += 1;
            }
        }
    }
    (component, order)
}

fn shortest_cycle(edges: &[Vec<usize>], component: &[usize], start: usize) -> Option<Vec<usize>> {
    let mut from = HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for &next in &edges[node] {
            if next == start {
                let mut cycle = vec![node];
                let mut at = node;
                while at != start {
                    at = from[&at];
                    cycle.push(at);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if component[next] == component[start] && !from.contains_key(&next) {
                from.insert(next, node);
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_component_is_found_once() {
        let edges = vec![vec![1], vec![2], vec![0, 3], vec![4], vec![3], vec![5], vec![0]];
        assert_eq!(
            tangles(&edges),
            [
                Tangle { cycle: vec![0, 1, 2], others: vec![] },
                Tangle { cycle: vec![3, 4], others: vec![] },
                Tangle { cycle: vec![5], others: vec![] },
            ]
        );
    }

    #[test]
    fn the_shortest_cycle_is_shown() {
        let edges = vec![vec![1, 2], vec![2], vec![0]];
        assert_eq!(tangles(&edges), [Tangle { cycle: vec![0, 2], others: vec![1] }]);
    }

    #[test]
    fn dependencies_come_first() {
        let edges = vec![vec![1, 2], vec![2], vec![]];
        assert_eq!(dependencies_first(&edges), [2, 1, 0]);
    }

    #[test]
    fn long_chains_need_no_stack() {
        let edges: Vec<Vec<usize>> = (0..300_000).map(|node| vec![(node + 1) % 300_000]).collect();
        assert_eq!(tangles(&edges)[0].cycle.len(), 300_000);
    }
}
