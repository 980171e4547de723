//! `connected_components` compared with a full recomputation, and the cost of a change.

use std::collections::BTreeSet;

use crate::support::{Random, components, difference};
use nlog_data::{Row, TableDelta, Value};
use nlog_hooks::{ConnectedComponents, Hook};

fn edge(a: i64, b: i64) -> Row {
    vec![Value::Int(a), Value::Int(b)]
}

/// The hook with the contents of its tables.
#[derive(Default)]
struct Graph {
    hook: ConnectedComponents,
    edges: BTreeSet<Row>,
    shown: BTreeSet<Row>,
}

impl Graph {
    /// Replaces the edges of the graph. Returns the target's change and its cost.
    fn become_(&mut self, edges: BTreeSet<Row>) -> (TableDelta, u64) {
        let before = self.hook.work();
        let delta = self.hook.update(&difference(&self.edges, &edges), None).expect("it never fails");
        let work = self.hook.work() - before;
        let wanted = components(&edges);
        assert_eq!(delta, difference(&self.shown, &wanted), "from {:?}\nto {edges:?}", self.edges);
        self.hook.accept();
        (self.edges, self.shown) = (edges, wanted);
        (delta, work)
    }

    fn add(&mut self, edges: impl IntoIterator<Item = Row>) -> u64 {
        let mut all = self.edges.clone();
        all.extend(edges);
        self.become_(all).1
    }

    fn remove(&mut self, edges: impl IntoIterator<Item = Row>) -> u64 {
        let mut all = self.edges.clone();
        for edge in edges {
            assert!(all.remove(&edge), "the test takes what is there");
        }
        self.become_(all).1
    }
}

#[test]
fn random_graphs_come_and_go() {
    let mut split = 0;
    for seed in test_random::seeds!("random_graphs_come_and_go", 300) {
        let mut random = Random::new(seed);
        let nodes = 2 + random.below(25);
        // From sparse to dense graphs.
        let density = 1 + random.below(4);
        let mut graph = Graph::default();
        for _ in 0..30 {
            let mut edges = graph.edges.clone();
            for _ in 0..random.below(2 + 2 * nodes / density) {
                let row = edge(random.below(nodes) as i64, random.below(nodes) as i64);
                if random.chance(50) {
                    edges.insert(row);
                } else {
                    edges.remove(&row);
                }
            }
            for row in graph.edges.clone() {
                if random.chance(10 * density) {
                    edges.remove(&row);
                }
            }
            if random.chance(30) {
                // Refused: nothing remains of it.
                graph.hook.update(&difference(&graph.edges, &edges), None).expect("it never fails");
                graph.hook.undo();
                continue;
            }
            let names =
                |rows: &BTreeSet<Row>| -> usize { rows.iter().filter(|row| row[0] == row[1]).count() };
            let before = names(&graph.shown);
            graph.become_(edges);
            split += usize::from(names(&graph.shown) > before);
        }
    }
    assert!(split > 100, "graphs fall apart as well: {split}");
}

#[test]
fn a_node_is_there_while_an_edge_names_it() {
    let mut graph = Graph::default();
    graph.add([edge(1, 1)]);
    assert_eq!(graph.shown, BTreeSet::from([edge(1, 1)]), "by itself");
    graph.add([edge(2, 1), edge(1, 2)]);
    graph.remove([edge(1, 2)]);
    assert_eq!(
        graph.shown,
        BTreeSet::from([edge(1, 1), edge(2, 1)]),
        "the other way round it is there still"
    );
    graph.remove([edge(1, 1), edge(2, 1)]);
    assert!(graph.shown.is_empty());
}

#[test]
fn a_new_least_node_renames_all_others() {
    let mut graph = Graph::default();
    graph.add((5..20).map(|node| edge(node, node + 1)));
    let (delta, _) = graph.become_(graph.edges.iter().cloned().chain([edge(20, 1)]).collect());
    assert_eq!((delta.insert.len(), delta.delete.len()), (17, 16));
}

/// A ring of so many nodes.
fn ring(from: i64, nodes: i64) -> impl Iterator<Item = Row> {
    (0..nodes).map(move |node| edge(from + node, from + (node + 1) % nodes))
}

#[test]
fn a_change_in_one_component_touches_no_other() {
    let costs = [10, 100, 1000].map(|rings| {
        let mut graph = Graph::default();
        graph.add((0..rings).flat_map(|at| ring(100 * at, 10)));
        let mut costs = vec![graph.remove([edge(300, 301)])];
        costs.push(graph.remove([edge(305, 306)]));
        costs.push(graph.add([edge(300, 301)]));
        costs.push(graph.add([edge(303, 308)]));
        costs.push(graph.remove([edge(303, 308), edge(300, 301)]));
        costs.push(graph.add([edge(305, 405)]));
        costs.push(graph.remove([edge(305, 405)]));
        costs
    });
    assert_eq!(costs[0], costs[1]);
    assert_eq!(costs[0], costs[2]);
    assert!(costs[0].iter().all(|cost| *cost < 100), "{costs:?}");
}

#[test]
fn what_comes_off_or_joins_a_large_component_costs_what_it_is() {
    let costs = [100, 1000, 3000].map(|nodes| {
        let mut graph = Graph::default();
        // Not at the end of the least node, because all nodes have its name.
        graph.add((0..nodes).map(|node| edge(node, node + 1)));
        let off = graph.remove([edge(nodes - 5, nodes - 4)]);
        let joined = graph.add([edge(nodes - 5, nodes - 4)]);
        let ends = graph.remove([edge(nodes - 1, nodes), edge(nodes - 3, nodes - 2)]);
        // Finding that a leaf was split off does not visit a hub's many edges.
        let mut star = Graph::default();
        star.add((1..nodes).map(|leaf| edge(0, leaf)).chain([edge(nodes - 1, nodes)]));
        let leaf = star.remove([edge(0, nodes - 1)]);
        [off, joined, ends, leaf]
    });
    assert_eq!(costs[0], costs[1]);
    assert_eq!(costs[0], costs[2]);
    assert!(costs[0].iter().all(|cost| *cost < 50), "{costs:?}");
}

#[test]
fn a_component_that_goes_at_once_is_seen_a_few_times_at_most() {
    for nodes in [100, 1000] {
        let mut graph = Graph::default();
        let grid: Vec<Row> =
            (0..nodes).flat_map(|node| [edge(node, node + 1), edge(node, node + 10)]).collect();
        let loaded = graph.add(grid.clone());
        let half = graph.remove(grid.iter().filter(|edge| edge[0] >= Value::Int(nodes / 2)).cloned());
        let gone = graph.remove(graph.edges.clone());
        let edges = 2 * nodes as u64;
        assert!(loaded < 10 * edges, "loading {edges} edges costs {loaded}");
        assert!(half < 4 * edges && gone < 4 * edges, "taking away {edges} edges costs {half} and {gone}");
    }
}
