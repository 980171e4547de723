//! `nvp-eval`: the NVP paper's workload (NSDI 2014, section 5) made deterministic.
//!
//! At full size 3,000 hypervisors and 7,000 logical switches with 63,000 ports, numbered through the switches in the
//! order of their sizes; port i is on hypervisor (i × 1009) mod 3,000. A divisor makes every count smaller by it.

use std::collections::BTreeSet;

/// Ports of a switch, and how many such switches there are at full size.
const SWITCH_SIZES: [(usize, usize); 7] =
    [(2, 500), (4, 3400), (5, 600), (6, 500), (12, 1400), (32, 400), (64, 200)];
const HYPERVISORS: usize = 3000;
/// Coprime to every number of hypervisors used, so that a switch's ports spread.
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
        let hypervisors = HYPERVISORS / divisor;
        let sizes =
            SWITCH_SIZES.iter().flat_map(|&(ports, count)| std::iter::repeat_n(ports, count / divisor));
        let switch_of: Vec<usize> =
            sizes.enumerate().flat_map(|(switch, ports)| std::iter::repeat_n(switch, ports)).collect();
        let hypervisor_of = (0..switch_of.len()).map(|port| port * STRIDE % hypervisors).collect();
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

    /// `count` moves of ports to other hypervisors, in transactions of `ports` each: the port, where it was, where it
    /// goes. The same on every run.
    pub(crate) fn moves(&self, count: usize, ports: usize) -> Vec<Vec<Move>> {
        let mut at = self.hypervisor_of.clone();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        (0..count)
            .map(|_| {
                let mut chosen = BTreeSet::new();
                while chosen.len() < ports {
                    chosen.insert(next(&mut random) % self.ports());
                }
                chosen
                    .into_iter()
                    .map(|port| {
                        let from = at[port];
                        let to = (from + 1 + next(&mut random) % (self.hypervisors - 1)) % self.hypervisors;
                        at[port] = to;
                        Move { port, from, to }
                    })
                    .collect()
            })
            .collect()
    }
}

/// A port that migrates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Move {
    /// The port's number.
    pub(crate) port: usize,
    /// The hypervisor that it leaves.
    pub(crate) from: usize,
    /// The hypervisor that it goes to.
    pub(crate) to: usize,
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
        assert!(network.moves(50, 10).iter().flatten().all(|step| step.from != step.to));
    }
}
