//! Figure 6 in `ascent`, whose rules are compiled into Rust.
#![allow(clippy::pedantic, clippy::all, missing_docs, unused)]

use anyhow::Result;

use crate::figure6::compare::against;
use crate::figure6::workload::{Change, Network};
use crate::figure6::{Figures, Outcome, Run, Side, drive};
use crate::measure::Clock;
use crate::report::{Aim, Line};

/// The release of `ascent` in the lock file.
const VERSION: &str = "0.8.1";

ascent::ascent! {
    struct Figure6;
    relation log_port(u32, u32);
    relation log_datapath_encap(u32, u32);
    relation log_port_presence(u32, u32);
    relation hypervisor_locator(u32, u32);
    relation lport_stage_id(u32, u32);
    relation ovsdb_tport(u32, u32, u32, u32);
    relation tunnel(u32, u32, u32, u32);
    relation ovsdb_tunnel(u32, u32, u32);
    relation ovs_flow(u32, u32, u32);
    tunnel(d, s, e, i) <--
        log_port(p, l), log_port(d, l), log_datapath_encap(l, e), log_port_presence(p, s), log_port_presence(d, h),
        hypervisor_locator(h, i), if s != h;
    ovsdb_tunnel(s, e, i) <-- tunnel(_, s, e, i);
    ovs_flow(s, g, n) <-- tunnel(d, s, e, i), lport_stage_id(d, g), ovsdb_tport(s, e, i, n);
}

/// Loads the network. There are no further steps: a change would mean loading everything again.
pub(crate) fn run(network: &Network) -> Result<Figures> {
    drive(network, 0, |change: Change| {
        let rows = change.insert;
        let clock = Clock::start();
        let pairs = |rows: &[[u32; 2]]| rows.iter().map(|[a, b]| (*a, *b)).collect();
        let mut program = Figure6 {
            log_port: pairs(&rows.port),
            log_datapath_encap: pairs(&rows.encap),
            log_port_presence: pairs(&rows.presence),
            hypervisor_locator: pairs(&rows.locator),
            lport_stage_id: pairs(&rows.stage),
            ovsdb_tport: rows.tunnel_port.iter().map(|[a, b, c, d]| (*a, *b, *c, *d)).collect(),
            ..Figure6::default()
        };
        program.run();
        let mut outcome = Outcome::after(&clock);
        for (host, stage, port) in &program.ovs_flow {
            outcome.flow(*host, *stage, *port, true);
        }
        for (from, _, to) in &program.ovsdb_tunnel {
            outcome.tunnel(*from, *to, true);
        }
        Ok(outcome)
    })
}

/// Many runs of both.
pub(super) fn lines(runs: usize, divisor: usize) -> Result<Vec<Line>> {
    let load = Run { divisor, workers: 1, steps: 0 };
    let name = format!("Figure 6, numbers in memory to rows in memory, beside ascent {VERSION}");
    against(runs, load, Side::Ascent, &name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_derives_what_the_dataflow_derives() {
        let network = Network::nvp_eval(100);
        let small = Run { divisor: 100, workers: 1, steps: 0 };
        let expected = crate::figure6::run(Side::HandIds, small).expect("it runs").output;
        assert_eq!(run(&network).expect("it runs").output, expected);
    }
}
