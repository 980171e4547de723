//! `nvp-eval`: the NVP paper's workload (NSDI 2014, section 5) made deterministic.
//!
//! At full size, there are 3,000 hypervisors and 7,000 logical switches with 63,000 ports, numbered through the
//! switches in order of size; port i is on hypervisor (i × 1009) mod 3,000. A divisor divides every count.

use std::collections::BTreeSet;

/// Ports of a switch, and the number of such switches at full size.
const SWITCH_SIZES: [(usize, usize); 7] =
    [(2, 500), (4, 3400), (5, 600), (6, 500), (12, 1400), (32, 400), (64, 200)];
const HYPERVISORS: usize = 3000;
/// Coprime to every number of hypervisors used, so that a switch's ports are spread.
const STRIDE: usize = 1009;

/// Where every port is: on which switch, at which hypervisor.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    /// How many hypervisors there are.
    pub(crate) hypervisors: usize,
    /// How many switches there are.
    pub(crate) switches: usize,
    /// The switch of each port.
    pub(crate) switch_of: Vec<usize>,
    /// The hypervisor of each port.
    pub(crate) hypervisor_of: Vec<usize>,
}

impl Network {
    /// `nvp-eval` with every count divided.
    pub(crate) fn nvp_eval(divisor: usize) -> Self {
        Network::multiplied(divisor, 1)
    }

    /// `nvp-eval` with every count divided, and then multiplied.
    pub(crate) fn multiplied(divisor: usize, times: usize) -> Self {
        let hypervisors = HYPERVISORS / divisor * times;
        let of_size = |&(ports, count)| std::iter::repeat_n(ports, count / divisor * times);
        let sizes = SWITCH_SIZES.iter().flat_map(of_size);
        let switch_of: Vec<usize> =
            sizes.enumerate().flat_map(|(switch, ports)| std::iter::repeat_n(switch, ports)).collect();
        let hypervisor_of = (0..switch_of.len()).map(|port| port * STRIDE % hypervisors).collect();
        let switches = switch_of.last().map_or(0, |last| last + 1);
        Network { hypervisors, switches, switch_of, hypervisor_of }
    }

    /// Switches of one size and hypervisors of one size.
    pub(crate) fn even(hypervisors: usize, of_switch: usize, of_hypervisor: usize) -> Self {
        let ports = hypervisors * of_hypervisor;
        let switch_of: Vec<usize> = (0..ports).map(|port| port / of_switch).collect();
        let hypervisor_of = (0..ports).map(|port| port * STRIDE % hypervisors).collect();
        let switches = switch_of.last().map_or(0, |last| last + 1);
        Network { hypervisors, switches, switch_of, hypervisor_of }
    }

    /// How many ports there are.
    pub(crate) fn ports(&self) -> usize {
        self.switch_of.len()
    }

    /// Every pair of different hypervisors that have ports of one switch, in order: the tunnels of Figure 6.
    pub(crate) fn tunnels(&self) -> BTreeSet<(usize, usize)> {
        let mut hosts_of = vec![BTreeSet::new(); self.switches];
        for (switch, hypervisor) in self.switch_of.iter().zip(&self.hypervisor_of) {
            hosts_of[*switch].insert(*hypervisor);
        }
        hosts_of
            .iter()
            .flat_map(|hosts| hosts.iter().flat_map(move |from| hosts.iter().map(move |to| (*from, *to))))
            .filter(|(from, to)| from != to)
            .collect()
    }

    /// The whole network as rows of the input tables.
    pub(crate) fn rows(&self) -> Rows {
        let numbered = |of: &[usize]| of.iter().enumerate().map(|(at, of)| [at as u32, *of as u32]).collect();
        Rows {
            port: numbered(&self.switch_of),
            presence: numbered(&self.hypervisor_of),
            encap: (0..self.switches).map(|switch| [switch as u32, ENCAP]).collect(),
            locator: (0..self.hypervisors).map(|host| [host as u32, host as u32]).collect(),
            stage: (0..self.ports()).map(|port| [port as u32, stage(port)]).collect(),
            tunnel_port: self
                .tunnels()
                .into_iter()
                .map(|(from, to)| [from as u32, ENCAP, to as u32, tunnel_port(from as u32, to as u32)])
                .collect(),
        }
    }

    /// `count` transactions that each move `ports` ports to other hypervisors. The same on every run.
    pub(crate) fn moves(&self, count: usize, ports: usize) -> Vec<Change> {
        let mut at = self.hypervisor_of.clone();
        let mut random = SEED;
        (0..count)
            .map(|_| {
                let mut chosen = BTreeSet::new();
                while chosen.len() < ports {
                    chosen.insert(next(&mut random) % self.ports());
                }
                let mut change = Change::default();
                for port in chosen {
                    let from = at[port];
                    let to = (from + 1 + next(&mut random) % (self.hypervisors - 1)) % self.hypervisors;
                    at[port] = to;
                    change.delete.presence.push([port as u32, from as u32]);
                    change.insert.presence.push([port as u32, to as u32]);
                }
                change
            })
            .collect()
    }

    /// `count` transactions that each put `ports` new ports on one switch, at hypervisors all over. Each is undone
    /// before the next. The same on every run.
    pub(crate) fn additions(&self, count: usize, ports: usize) -> Vec<Change> {
        let mut random = SEED;
        (0..count)
            .map(|_| {
                let switch = (next(&mut random) % self.switches) as u32;
                let mut change = Change::default();
                for port in self.ports()..self.ports() + ports {
                    let host = (next(&mut random) % self.hypervisors) as u32;
                    change.insert.port.push([port as u32, switch]);
                    change.insert.presence.push([port as u32, host]);
                    change.insert.stage.push([port as u32, stage(port)]);
                }
                change
            })
            .collect()
    }
}

/// Every switch's encapsulation.
const ENCAP: u32 = 0;
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of a port in packets. It is different for each port, so a handwritten dataflow need not make flows
/// distinct.
fn stage(port: usize) -> u32 {
    port as u32
}

/// The OpenFlow port that Open vSwitch would assign to a tunnel. It follows from the tunnel, so it does not depend on
/// the order in which tunnels are reported.
pub(crate) fn tunnel_port(from: u32, to: u32) -> u32 {
    1 + (from * 3001 + to) % 60_000
}

/// Rows of the input tables of Figure 6, as numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Port, switch.
    pub(crate) port: Vec<[u32; 2]>,
    /// Port, hypervisor.
    pub(crate) presence: Vec<[u32; 2]>,
    /// Switch, encapsulation.
    pub(crate) encap: Vec<[u32; 2]>,
    /// Hypervisor, address: the hypervisor's number again.
    pub(crate) locator: Vec<[u32; 2]>,
    /// Port, stage.
    pub(crate) stage: Vec<[u32; 2]>,
    /// Hypervisor, encapsulation, address of the other one, OpenFlow port.
    pub(crate) tunnel_port: Vec<[u32; 4]>,
}

/// A transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Rows to put in.
    pub(crate) insert: Rows,
    /// Rows to take out.
    pub(crate) delete: Rows,
}

impl Change {
    /// The inverse of the step.
    pub(crate) fn inverse(&self) -> Change {
        Change { insert: self.delete.clone(), delete: self.insert.clone() }
    }
}

/// The next number of a xorshift generator (Marsaglia 2003).
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_size_is_as_the_literature_has_it() {
        let network = Network::nvp_eval(1);
        assert_eq!((network.hypervisors, network.switches, network.ports()), (3000, 7000, 63_000));
        // Measured for Figure 6 on this workload by an independent program.
        assert_eq!(network.tunnels().len(), 303_496);
    }

    #[test]
    fn a_tenth_has_a_tenth_of_everything() {
        let network = Network::nvp_eval(10);
        assert_eq!((network.hypervisors, network.switches, network.ports()), (300, 700, 6300));
    }

    #[test]
    fn every_move_changes_the_hypervisor() {
        let network = Network::nvp_eval(100);
        let moves = network.moves(50, 10);
        let pairs = moves.iter().flat_map(|step| step.delete.presence.iter().zip(&step.insert.presence));
        let mut ports = 0;
        for (from, to) in pairs {
            assert!(from[0] == to[0] && from[1] != to[1], "{from:?} {to:?}");
            ports += 1;
        }
        assert_eq!(ports, 500);
    }
}
