//! Rules of six atoms with rows, generated from a seed, with the atoms in a bad order.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::count::Sizes;
use crate::nvp::random::Random;

/// Atoms of each rule.
const ATOMS: usize = 6;
/// The maximum rows of a table in the measured cases.
pub(super) const MOST_ROWS: usize = 4000;
/// The minimum ratio of rows touched between the written order and the best one.
pub(super) const BAD: f64 = 5.0;

/// An atom of a rule: the only one of its table.
#[derive(Debug, Clone)]
pub(super) struct Atom {
    /// The table's name.
    pub(super) table: String,
    /// The variable of each column; all are distinct.
    pub(super) variables: Vec<usize>,
    /// The table's rows, each once.
    pub(super) rows: Vec<Vec<u32>>,
}

/// A rule and its rows.
#[derive(Debug, Clone)]
pub(super) struct Case {
    /// In the order in which they are written.
    pub(super) atoms: Vec<Atom>,
}

impl Case {
    /// Puts the atoms in the order that touches the most rows; none if that order is nearly as good as any.
    fn badly_written(atoms: Vec<Atom>) -> Option<Case> {
        let sizes = Sizes::new(&atoms);
        let order = sizes.worst_order();
        let everything = sizes.of((1 << atoms.len()) - 1);
        let bad = sizes.cost(&order) >= BAD * sizes.best();
        // The size of the result itself must not dominate the time.
        let fair = everything > 0.0 && everything <= 20_000.0;
        (bad && fair).then(|| Case { atoms: order.into_iter().map(|at| atoms[at].clone()).collect() })
    }

    /// The program.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut all = BTreeSet::new();
        for atom in &self.atoms {
            let columns: Vec<String> =
                atom.variables.iter().map(|variable| format!("v{variable}: int")).collect();
            let _ = writeln!(text, "input table {}({});", atom.table, columns.join(", "));
            all.extend(&atom.variables);
        }
        let names = |variables: &mut dyn Iterator<Item = &usize>| {
            variables.map(|variable| format!("v{variable}")).collect::<Vec<_>>().join(", ")
        };
        let variables = names(&mut all.iter().copied());
        let _ = writeln!(text, "output table joined({});", variables.replace(',', ": int,") + ": int");
        let atoms =
            self.atoms.iter().map(|atom| format!("{}({})", atom.table, names(&mut atom.variables.iter())));
        let _ = writeln!(text, "joined({variables}) :- {};", atoms.collect::<Vec<_>>().join(", "));
        text
    }
}

/// `count` rules of random shapes: chains, stars, trees, cycles; tables have at most `most_rows` rows.
pub(super) fn random(seed: u64, count: usize, most_rows: usize) -> Vec<Case> {
    let mut random = Random::new(seed ^ 0x6a6f_696e);
    let mut cases = Vec::new();
    while cases.len() < count {
        let shape = random.below(4);
        let pairs: Vec<[usize; 2]> = (0..ATOMS)
            .map(|at| match shape {
                0 => [at, at + 1],
                1 => [0, at + 1],
                2 => [random.below(at + 1), at + 1],
                _ => [at, (at + 1) % ATOMS],
            })
            .collect();
        // How many values each variable has, from few to many.
        let domains: Vec<usize> = (0..=ATOMS).map(|_| 3 << random.below(10)).collect();
        let atom = |at: usize, variables: &[usize; 2], random: &mut Random| {
            let [left, right] = variables.map(|variable| domains[variable]);
            let most = most_rows.min(left * right / 2).max(1);
            let wanted = (4 << random.below(11)).min(most);
            let skewed = random.percent(40);
            let mut rows = BTreeSet::new();
            while rows.len() < wanted {
                rows.insert(vec![value(left, skewed, random), value(right, false, random)]);
                // A skewed table may not have this many distinct rows.
                if skewed && random.below(8 * wanted) == 0 {
                    break;
                }
            }
            Atom { table: format!("t{at}"), variables: variables.to_vec(), rows: rows.into_iter().collect() }
        };
        let atoms = pairs.iter().enumerate().map(|(at, pair)| atom(at, pair, &mut random)).collect();
        cases.extend(Case::badly_written(atoms));
    }
    cases
}

/// A value; if skewed, the first ones are much more frequent.
fn value(domain: usize, skewed: bool, random: &mut Random) -> u32 {
    let value = random.below(domain);
    (if skewed { value * value / domain } else { value }) as u32
}

/// Rules like those that place load balancers on datapaths: written naively, they pair every virtual address with
/// every datapath, or every backend with every hypervisor, before a join relates them. Counts are divided by
/// `divisor`.
pub(super) fn like_ovn(seed: u64, divisor: usize) -> Vec<Case> {
    let mut random = Random::new(seed ^ 0x006f_766e);
    let [lbs, datapaths, hosts, vips, backends, ports] =
        [120, 250, 60, 480, 900, 1500].map(|count| count / divisor);
    let groups = 12;
    let pairs = |left: usize, of_each: usize, right: usize, random: &mut Random| -> Vec<Vec<u32>> {
        let rows = (0..left).flat_map(|left| (0..of_each).map(move |_| left));
        let rows: BTreeSet<Vec<u32>> =
            rows.map(|left| vec![left as u32, random.below(right) as u32]).collect();
        rows.into_iter().collect()
    };
    let some = |of: usize, percent: usize, random: &mut Random| -> Vec<Vec<u32>> {
        (0..of as u32).filter(|_| random.percent(percent)).map(|at| vec![at]).collect()
    };
    let atom = |table: &str, variables: &[usize], rows: Vec<Vec<u32>>| Atom {
        table: table.into(),
        variables: variables.to_vec(),
        rows,
    };
    // The variables.
    let (lb, group, datapath, host, vip, backend, port) = (0, 1, 2, 3, 4, 5, 6);
    let group_lb = atom("group_lb", &[group, lb], pairs(groups, 10, lbs, &mut random));
    let datapath_group = atom("datapath_group", &[datapath, group], pairs(datapaths, 2, groups, &mut random));
    let lb_vip = atom("lb_vip", &[lb, vip], pairs(lbs, 4, vips, &mut random));
    let vip_backend = atom("vip_backend", &[vip, backend], pairs(vips, 6, backends, &mut random));
    let backend_port = atom("backend_port", &[backend, port], pairs(backends, 1, ports, &mut random));
    let port_host = atom("port_host", &[port, host], pairs(ports, 1, hosts, &mut random));
    let host_datapath = atom("host_datapath", &[host, datapath], pairs(hosts, 5, datapaths, &mut random));
    let port_datapath = atom("port_datapath", &[port, datapath], pairs(ports, 1, datapaths, &mut random));
    let down = atom("backend_down", &[backend], some(backends, 2, &mut random));
    let changed_group = atom("group_with_affinity", &[group], vec![vec![3]]);
    let drained = atom("host_drained", &[host], some(hosts, 3, &mut random));
    let rules = [
        // Backends that are down, on every datapath that uses them.
        vec![&lb_vip, &datapath_group, &vip_backend, &group_lb, &down, &backend_port],
        // Backends on drained hosts, and the datapaths that still balance to them.
        vec![&group_lb, &datapath_group, &vip_backend, &lb_vip, &backend_port, &port_host],
        vec![&drained, &port_host, &backend_port, &vip_backend, &lb_vip, &group_lb],
        // Hairpins: the backend's port is on the datapath that is balanced.
        vec![&lb_vip, &datapath_group, &group_lb, &vip_backend, &backend_port, &port_datapath],
        // The flows of one group, at hosts that have the datapath.
        vec![&changed_group, &datapath_group, &host_datapath, &group_lb, &lb_vip, &drained],
        vec![&changed_group, &group_lb, &lb_vip, &vip_backend, &backend_port, &port_host],
    ];
    rules.into_iter().filter_map(|atoms| Case::badly_written(atoms.into_iter().cloned().collect())).collect()
}
