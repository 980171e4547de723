//! `connected_components`: the connected components of a graph.

mod search;

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use nlog_data::{Row, TableDelta, Value};

use crate::hook::Hook;

/// The components of a graph, each named by its least node.
///
/// The source contains the edges, rows of two nodes. A row and its reverse are the same edge. A row from a node to
/// itself is an edge too, and is enough to make it a node. The target has a row for each node of an edge: the node,
/// and the least node that can be reached from it, which may be itself.
///
/// An added edge moves the nodes of the smaller of two components to the larger. For removed edges, searches in their
/// component from all their ends take turns, edge by edge. Searches that meet continue as one, until only one is
/// left. The nodes that the others have visited form separate components; the rest need not be visited.
#[derive(Debug, Default)]
pub struct ConnectedComponents {
    number_of: HashMap<Value, NodeId>,
    /// By number; free numbers are in `free`.
    nodes: Vec<Node>,
    free: Vec<NodeId>,
    components: HashMap<u64, Component>,
    next_component: u64,
    /// The source's changes, until they are accepted.
    last: Vec<TableDelta>,
    work: u64,
}

type NodeId = u32;

#[derive(Debug)]
struct Node {
    value: Value,
    /// The nodes at the other ends of its edges, with the number of rows (1 or 2) of each edge.
    neighbours: BTreeMap<NodeId, u8>,
    component: u64,
    /// Its value in the target.
    shown: Option<Value>,
}

#[derive(Debug, Default)]
struct Component {
    members: BTreeMap<Value, NodeId>,
    /// The component's name in the target for all members except these.
    shown: Option<Value>,
    newcomers: Vec<NodeId>,
}

/// The changes that an update has made so far.
#[derive(Debug, Default)]
struct Progress {
    /// Components whose members' rows may differ from the target.
    touched: BTreeSet<u64>,
    insert: Vec<Row>,
    delete: Vec<Row>,
}

impl ConnectedComponents {
    fn apply(&mut self, source: &TableDelta) -> TableDelta {
        let mut progress = Progress::default();
        self.remove_edges(&source.delete, &mut progress);
        for row in &source.insert {
            if let [a, b] = row.as_slice() {
                self.add_edge(a, b, &mut progress);
            }
        }
        self.show(progress)
    }

    fn node(&mut self, value: &Value, progress: &mut Progress) -> NodeId {
        if let Some(id) = self.number_of.get(value) {
            return *id;
        }
        let component = self.next_component;
        self.next_component += 1;
        let node = Node { value: value.clone(), neighbours: BTreeMap::new(), component, shown: None };
        let id = if let Some(id) = self.free.pop() {
            self.nodes[id as usize] = node;
            id
        } else {
            self.nodes.push(node);
            self.nodes.len() as NodeId - 1
        };
        self.number_of.insert(value.clone(), id);
        let members = BTreeMap::from([(value.clone(), id)]);
        self.components.insert(component, Component { members, ..Component::default() });
        progress.touched.insert(component);
        self.work += 1;
        id
    }

    fn add_edge(&mut self, a: &Value, b: &Value, progress: &mut Progress) {
        let (a, b) = (self.node(a, progress), self.node(b, progress));
        *self.nodes[a as usize].neighbours.entry(b).or_default() += 1;
        if a == b {
            return;
        }
        *self.nodes[b as usize].neighbours.entry(a).or_default() += 1;
        let (one, other) = (self.nodes[a as usize].component, self.nodes[b as usize].component);
        if one != other {
            self.merge(one, other, progress);
        }
    }

    /// Moves the members of the smaller component to the larger one.
    fn merge(&mut self, one: u64, other: u64, progress: &mut Progress) {
        let size = |id| self.components.get(&id).map_or(0, |component: &Component| component.members.len());
        let (small, large) = if size(one) < size(other) { (one, other) } else { (other, one) };
        progress.touched.remove(&small);
        progress.touched.insert(large);
        let Some(moved) = self.components.remove(&small) else { return };
        let Some(into) = self.components.get_mut(&large) else { return };
        for (value, id) in moved.members {
            self.nodes[id as usize].component = large;
            into.members.insert(value, id);
            into.newcomers.push(id);
            self.work += 1;
        }
    }

    /// Removes rows, and moves the nodes split off to new components.
    fn remove_edges(&mut self, rows: &[Row], progress: &mut Progress) {
        let mut ends: BTreeMap<u64, BTreeSet<NodeId>> = BTreeMap::new();
        for row in rows {
            let [a, b] = row.as_slice() else { continue };
            let (Some(&a), Some(&b)) = (self.number_of.get(a), self.number_of.get(b)) else { continue };
            self.work += 1;
            let gone = self.remove_half(a, b);
            if a != b {
                self.remove_half(b, a);
            }
            if gone {
                ends.entry(self.nodes[a as usize].component).or_default().extend([a, b]);
            }
        }
        for (component, ends) in ends {
            progress.touched.insert(component);
            let mut seeds = Vec::new();
            for end in ends {
                if self.nodes[end as usize].neighbours.is_empty() {
                    self.remove_node(end, progress);
                } else {
                    seeds.push(end);
                }
            }
            for piece in search::pieces(&self.nodes, &seeds, &mut self.work) {
                self.split(component, &piece, progress);
            }
        }
    }

    /// Removes one row between a node and its neighbour. Returns whether none is left.
    fn remove_half(&mut self, of: NodeId, neighbour: NodeId) -> bool {
        let neighbours = &mut self.nodes[of as usize].neighbours;
        match neighbours.get_mut(&neighbour) {
            Some(rows) if *rows > 1 => {
                *rows -= 1;
                false
            }
            Some(_) => {
                neighbours.remove(&neighbour);
                true
            }
            None => false,
        }
    }

    /// A node without edges is none.
    fn remove_node(&mut self, id: NodeId, progress: &mut Progress) {
        let node = &mut self.nodes[id as usize];
        self.number_of.remove(&node.value);
        if let Some(component) = self.components.get_mut(&node.component) {
            component.members.remove(&node.value);
            if component.members.is_empty() {
                self.components.remove(&node.component);
                progress.touched.remove(&node.component);
            }
        }
        if let Some(shown) = node.shown.take() {
            progress.delete.push(vec![node.value.clone(), shown]);
        }
        node.value = Value::None;
        self.free.push(id);
        self.work += 1;
    }

    fn split(&mut self, from: u64, piece: &[NodeId], progress: &mut Progress) {
        let id = self.next_component;
        self.next_component += 1;
        let mut component = Component::default();
        let Some(rest) = self.components.get_mut(&from) else { return };
        for member in piece {
            let node = &mut self.nodes[*member as usize];
            rest.members.remove(&node.value);
            component.members.insert(node.value.clone(), *member);
            node.component = id;
            self.work += 1;
        }
        self.components.insert(id, component);
        progress.touched.insert(id);
    }

    /// The changes of the target, once all components are updated.
    fn show(&mut self, progress: Progress) -> TableDelta {
        let Progress { touched, mut insert, mut delete } = progress;
        for id in touched {
            let Some(component) = self.components.get_mut(&id) else { continue };
            let Some((least, _)) = component.members.first_key_value() else { continue };
            let least = least.clone();
            let newcomers = std::mem::take(&mut component.newcomers);
            let mut show = |member: NodeId| {
                let node = &mut self.nodes[member as usize];
                self.work += 1;
                if node.shown.as_ref() == Some(&least) {
                    return;
                }
                if let Some(before) = node.shown.replace(least.clone()) {
                    delete.push(vec![node.value.clone(), before]);
                }
                insert.push(vec![node.value.clone(), least.clone()]);
            };
            if component.shown.as_ref() == Some(&least) {
                newcomers.into_iter().for_each(&mut show);
            } else {
                component.members.values().copied().for_each(&mut show);
            }
            component.shown = Some(least);
        }
        net(insert, delete)
    }
}

/// Sorts both lists and removes rows that are in both, because a node can be removed and added again.
fn net(mut insert: Vec<Row>, mut delete: Vec<Row>) -> TableDelta {
    insert.sort_unstable();
    delete.sort_unstable();
    let both: BTreeSet<Row> =
        insert.iter().filter(|row| delete.binary_search(row).is_ok()).cloned().collect();
    insert.retain(|row| !both.contains(row));
    delete.retain(|row| !both.contains(row));
    TableDelta { insert, delete, ..TableDelta::default() }
}

impl Hook for ConnectedComponents {
    fn update(&mut self, source: &TableDelta, _: Option<u64>) -> Result<TableDelta, String> {
        self.last.push(TableDelta {
            insert: source.insert.clone(),
            delete: source.delete.clone(),
            ..TableDelta::default()
        });
        Ok(self.apply(source))
    }

    fn accept(&mut self) {
        self.last = Vec::new();
    }

    /// The target depends only on the edges, so the inverse of the change undoes it.
    fn undo(&mut self) {
        if let Some(TableDelta { insert, delete, .. }) = self.last.pop() {
            self.apply(&TableDelta { insert: delete, delete: insert, ..TableDelta::default() });
        }
    }

    fn work(&self) -> u64 {
        self.work
    }
}
