//! Weft's benchmarks: `cargo xtask bench`.
//!
//! Each runs Weft and a baseline in turns, each run in a separate process, and prints medians, ranges and ratios. The first
//! pair of runs does not count. Both sides of a comparison must compute the same result, or the run fails.
//!
//! In reading order: [`measure`], [`meter`], [`process`], [`report`] (the table), [`engine`], [`inside`] (the engine inside timely), then a module for each comparison: [`figure6`] (a
//! handwritten dataflow; workers; JSON to JSON), [`layered`] (one row in many rules), [`joins`] (join orders), [`datalog`]
//! (other engines), [`network`] (the network's own rules), [`first_packet`] (what ACLs cost a switch), [`daemon`] (memory of a whole controller), [`api`] (its answers by HTTP), [`store`] (its journal), [`push`], [`plug`] (how long a new machine waits), [`hostile`] (a
//! controller under attack), [`waits`] (how long others wait), [`tls`] (handshakes, and what TLS adds to a request), [`texts`], [`program`] and its generator [`nvp`].

mod api;
mod daemon;
mod datalog;
mod engine;
mod figure6;
mod first_packet;
mod hostile;
mod inside;
mod joins;
mod layered;
mod measure;
mod meter;
mod network;
mod nvp;
mod plug;
mod process;
mod program;
mod push;
mod recorded;
mod report;
mod respond;
mod store;
mod texts;
mod tls;
mod waits;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};

use crate::figure6::workload::Network;
use crate::report::Line;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "cargo xtask bench", about = "Speed and memory, ours and the baselines side by side")]
struct Arguments {
    #[command(subcommand)]
    bench: Option<Bench>,
    /// Runs of each side; one more pair comes first and is discarded, since memory is touched for the first time
    #[arg(long, default_value_t = 5, global = true)]
    runs: usize,
    /// Every count of nvp-eval is divided by this, 1 to 100
    #[arg(long, default_value_t = 1, global = true)]
    divisor: usize,
    /// Transactions of each kind after the load of Figure 6
    #[arg(long, default_value_t = 300, global = true)]
    steps: usize,
    /// Workers of our engine
    #[arg(long, default_value_t = 1, global = true)]
    workers: usize,
    /// Seed of the program of NVP's size
    #[arg(long, default_value_t = nvp::SEED, global = true)]
    seed: u64,
    /// Rows of each input of the layered program
    #[arg(long, default_value_t = 1000, global = true)]
    rows: usize,
    /// Transactions of one row in the layered program
    #[arg(long, default_value_t = 1000, global = true)]
    transactions: usize,
    /// Flows to push in one bundle
    #[arg(long, default_value_t = 100_000, global = true)]
    flows: usize,
}

#[derive(Subcommand, Clone)]
enum Bench {
    /// The engine's figures in one table; the same as no name
    Engine,
    /// Figure 6 on nvp-eval: load, memory, ports moved and added; against the same written by hand
    Figure6,
    /// Figure 6, and the network's own rules on nvp-eval, with two workers against one
    Workers,
    /// The network's own rules as an operator of a timely dataflow: beside the engine alone, and with two workers against one
    Operator {
        /// Routers, and how they reach hosts
        #[arg(long)]
        reach: Option<network::Reach>,
        /// ACLs, and what they do with packets that they let pass
        #[arg(long)]
        acls: Option<network::Acls>,
    },
    /// Figure 6 through `weft eval`, JSON to JSON; against a program written by hand
    Json,
    /// A six-atom rule added to the loaded Figure 6; against loading everything anew
    Live,
    /// Inputs from a saved state; against the same from JSON
    State,
    /// One row in a program of 1,224 rules in 10 layers, its load, and what it costs when idle
    Layered,
    /// Six-way joins whose written order is bad: the planner's order against all others
    Joins,
    /// The same joins with rows that come in small transactions to an engine that starts empty; against the plan made
    /// from the final statistics
    Arrival,
    /// Figure 6 in other engines: dbsp, ascent, gringo, and Soufflé where it is installed
    Datalog,
    /// The network's own rules on nvp-eval: from objects to deltas, changes after it, flows of a host
    Network,
    /// The network's own rules on nvp-eval with a router for every ten switches: the same figures, and changes of routers
    Routers {
        /// How routers reach hosts
        #[arg(long, default_value = "relay")]
        reach: network::Reach,
    },
    /// The network's own rules on nvp-eval with ACLs on most ports: the load, changes of ACLs and of groups, what an ACL costs a host
    Acls {
        /// What ACLs do with packets that they let pass
        #[arg(long, default_value = "stateless")]
        acls: network::Acls,
        /// How routers reach hosts; without it, there are no routers
        #[arg(long)]
        reach: Option<network::Reach>,
        /// Load the invariants of examples/invariants beside the rules; they need routers
        #[arg(long, requires = "reach")]
        invariants: bool,
    },
    /// The network's own rules on nvp-eval: a restart from saved derived rows; with --reach, with routers
    Restart {
        #[arg(long)]
        reach: Option<network::Reach>,
    },
    /// A whole controller on nvp-eval: its start from saved rows, against one that derives them; a snapshot, other rules
    Start {
        /// Routers, and how they reach hosts
        #[arg(long)]
        reach: Option<network::Reach>,
        /// ACLs, and what they do with packets that they let pass
        #[arg(long)]
        acls: Option<network::Acls>,
    },
    /// `weft trace` on a saved state of nvp-eval with routers and ACLs
    Trace,
    /// `weft trace` and `weft explain` on a running controller with the same network. It takes some 10 GiB
    Questions,
    /// A journal of 100,000 transactions, with the same network: `weft trace` as of its middle, replays and bisects of all
    Journal,
    /// The journal alone: a record against a plain write and sync, transactions a sync with 100 writers, bytes for a changed port
    Store,
    /// What the first packet of a connection costs a real ovs-vswitchd; with ACLs against without
    FirstPacket,
    /// How many flows a host has: with more hosts, larger switches, more VMs
    Growth,
    /// A real controller and thousands of simulated switches on real sockets: cold start, changes, restart, faults
    Scale {
        /// Routers, and how they reach hosts
        #[arg(long)]
        reach: Option<network::Reach>,
        /// ACLs, and what they do with packets that they let pass
        #[arg(long)]
        acls: Option<network::Acls>,
        /// Multiply every count, after the division: `--times 3` is 9,000 hosts
        #[arg(long, default_value_t = 1)]
        times: usize,
        /// The hosts dial the controller, over TLS; without it, the controller dials them in clear text
        #[arg(long)]
        dial_in: bool,
        /// Write the curve of the cold start to this file, as SVG
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// The memory of a whole controller after a start
    Daemon {
        /// The number of hosts
        #[arg(long, default_value_t = 300)]
        hosts: usize,
    },
    /// The API over HTTP of a controller after a start: writes, reads, dry runs, watchers
    Api {
        /// The number of hosts, with 21 ports each
        #[arg(long, default_value_t = 3000)]
        hosts: usize,
    },
    /// The API over TLS with certificates on both sides: handshakes a second of one core, and what TLS and roles add to a PUT
    Tls,
    /// Flows to a real ovs-vswitchd as one bundle; against ovs-ofctl
    Push,
    /// How long a machine on real Open vSwitch waits from its `iface-id` until it answers
    Plug,
    /// The responder beside a switch: its own speed, how late its answers are beside a ping, what others notice of a flood, its memory
    Respond {
        /// Only how late its answers are, beside those of OVN, whose programs must be installed: Debian's ovn-central and ovn-host
        #[arg(long)]
        ovn: bool,
    },
    /// Compiling texts of many shapes, and longer ones: how the time grows
    Texts,
    /// The controller while hostile clients are at work: how long a status takes, what memory is kept
    Hostile {
        /// How long, in seconds
        #[arg(long, default_value_t = 30)]
        seconds: u64,
    },
    /// How long others wait for a status and an object: beside the worst transaction, explanations, hosts that lie
    Waits,
    /// A program of NVP's size: checked, checked again after an edit, run until the first delta
    Program,
    /// Everything
    All,
    /// Writes the program of NVP's size, its one-file form and its transaction into a folder
    Write {
        /// Where to
        folder: PathBuf,
    },
    #[command(hide = true)]
    ProgramLex {
        /// A file, or a folder of files
        path: PathBuf,
    },
    #[command(hide = true)]
    Figure6Run { side: figure6::Side },
    #[command(hide = true)]
    Figure6JsonRun { side: figure6::json::Side, folder: PathBuf },
    #[command(hide = true)]
    Figure6JsonByHand { input: PathBuf },
    #[command(hide = true)]
    Figure6LiveRun,
    #[command(hide = true)]
    Figure6SavedRun { folder: PathBuf },
    #[command(hide = true)]
    NetworkRun {
        #[arg(long)]
        reach: Option<network::Reach>,
        #[arg(long)]
        acls: Option<network::Acls>,
        #[arg(long, requires_all = ["reach", "acls"])]
        invariants: bool,
    },
    #[command(hide = true)]
    OperatorRun {
        #[arg(long)]
        reach: Option<network::Reach>,
        #[arg(long)]
        acls: Option<network::Acls>,
        #[arg(long)]
        inside: bool,
    },
    #[command(hide = true)]
    RestartRun {
        file: PathBuf,
        memories: PathBuf,
        #[arg(long)]
        reach: Option<network::Reach>,
        /// Load a network and save its rows
        #[arg(long)]
        save: bool,
    },
    #[command(hide = true)]
    TracedRun {
        file: PathBuf,
        packet: usize,
        /// The file is a journal, and the network is that after this transaction
        #[arg(long)]
        at: Option<u64>,
    },
    #[command(hide = true)]
    DatalogRun { other: datalog::Other, folder: PathBuf },
    #[command(hide = true)]
    HostileAttack { attack: hostile::attack::Attack, socket: PathBuf },
    #[command(hide = true)]
    LayeredRun { side: layered::Side },
}

impl Arguments {
    fn figure6(&self) -> figure6::Run {
        figure6::Run { divisor: self.divisor, workers: self.workers, steps: self.steps }
    }

    fn network(&self) -> network::Run {
        network::Run::plain(self.divisor, self.steps, self.workers)
    }

    fn traced(&self) -> network::Run {
        let (reach, acls) = (Some(network::Reach::Relay), Some(network::Acls::Stateful));
        network::Run { reach, acls, ..self.network() }
    }

    fn layered(&self) -> layered::Run {
        layered::Run { rows: self.rows, transactions: self.transactions, warm_up: 40 }
    }
}

fn main() -> Result<()> {
    let start = Instant::now();
    let arguments = Arguments::parse();
    ensure!(arguments.runs > 0, "--runs: a figure needs at least one run");
    ensure!(
        (1..=100).contains(&arguments.divisor),
        "--divisor: 1 to 100, so that every size of switch stays"
    );
    let bench = arguments.bench.clone().unwrap_or(Bench::Engine);
    match &bench {
        Bench::Write { folder } => program::write(arguments.seed, folder).map(drop),
        Bench::ProgramLex { path } => program::lex(path, start),
        Bench::Figure6Run { side } => say(&figure6::run(*side, arguments.figure6())?),
        Bench::Figure6JsonRun { side, folder } => say(&figure6::json::run(*side, folder)?),
        Bench::Figure6JsonByHand { input } => figure6::json::by_hand(input),
        Bench::Figure6LiveRun => say(&figure6::live::run(arguments.divisor)?),
        Bench::Figure6SavedRun { folder } => say(&figure6::saved::run(folder)?),
        Bench::NetworkRun { reach, acls, invariants } => {
            let (reach, acls, invariants) = (*reach, *acls, *invariants);
            let run = network::Run { reach, acls, invariants, ..arguments.network() };
            match (acls, reach) {
                (Some(_), _) => say(&network::filtered::run(run)?),
                (None, Some(_)) => say(&network::routed::run(run)?),
                (None, None) => say(&network::run(run)?),
            }
        }
        Bench::OperatorRun { reach, acls, inside } => {
            let run = network::Run { reach: *reach, acls: *acls, ..arguments.network() };
            say(&network::inside::run(run, *inside)?)
        }
        Bench::RestartRun { file, memories, reach, save } => {
            let run = network::Run { reach: *reach, ..arguments.network() };
            if *save {
                say(&network::restart::save(run, file)?)
            } else {
                say(&network::restart::run(run, file, memories)?)
            }
        }
        Bench::TracedRun { file, packet, at } => say(&network::traced::run(file, *packet, *at)?),
        Bench::FirstPacket => first_packet::print(arguments.runs),
        Bench::Growth => network::growth::print(),
        Bench::Scale { reach, acls, times, dial_in, svg } => {
            ensure!(*times > 0, "--times: at least 1");
            let run = network::Run { reach: *reach, acls: *acls, ..arguments.network() };
            network::scale::print(run, *times, *dial_in, svg.as_deref())
        }
        Bench::Daemon { hosts } => daemon::print(*hosts),
        Bench::Api { hosts } => api::print(*hosts),
        Bench::Tls => tls::print(arguments.runs),
        Bench::HostileAttack { attack, socket } => hostile::attack::run(*attack, socket.clone()),
        Bench::DatalogRun { other, folder } => say(&datalog::run(*other, folder)?),
        Bench::LayeredRun { side } => say(&layered::run(*side, arguments.layered())?),
        Bench::Push => push::compare(arguments.flows, arguments.runs),
        Bench::Plug => plug::print(arguments.runs),
        Bench::Respond { ovn: false } => respond::print(arguments.runs),
        Bench::Respond { ovn: true } => respond::compare(arguments.runs),
        Bench::Texts => {
            texts::growth(arguments.runs);
            Ok(())
        }
        Bench::Hostile { seconds } => hostile::print(Duration::from_secs(*seconds)),
        Bench::Waits => waits::print(),
        Bench::Program => program::figures(arguments.seed, arguments.runs),
        Bench::All => {
            print_lines(&arguments, &Bench::Engine)?;
            print_lines(&arguments, &Bench::Network)?;
            print_lines(&arguments, &Bench::Routers { reach: network::Reach::Relay })?;
            print_lines(&arguments, &Bench::Routers { reach: network::Reach::Direct })?;
            let acls = network::Acls::Stateless;
            print_lines(&arguments, &Bench::Acls { acls, reach: None, invariants: false })?;
            let reach = Some(network::Reach::Relay);
            print_lines(&arguments, &Bench::Acls { acls, reach, invariants: false })?;
            print_lines(&arguments, &Bench::Trace)?;
            print_lines(&arguments, &Bench::Questions)?;
            print_lines(&arguments, &Bench::Journal)?;
            print_lines(&arguments, &Bench::Store)?;
            network::growth::print()?;
            first_packet::print(arguments.runs)?;
            daemon::print(300)?;
            push::compare(arguments.flows, arguments.runs)?;
            plug::print(arguments.runs)?;
            respond::print(arguments.runs)?;
            texts::growth(arguments.runs);
            program::figures(arguments.seed, arguments.runs)
        }
        lines => print_lines(&arguments, lines),
    }
}

/// A child's answer.
fn say(figures: &impl serde::Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(figures)?);
    Ok(())
}

/// The lines of a bench in the engine's table, or of all of them.
fn lines(arguments: &Arguments, bench: &Bench) -> Result<Vec<Line>> {
    let runs = arguments.runs;
    match bench {
        Bench::Figure6 => figure6::compare::by_hand(runs, arguments.figure6()),
        Bench::Workers => {
            let mut lines = figure6::compare::workers(runs, arguments.figure6())?;
            lines.extend(network::lines_of_workers(runs, arguments.network())?);
            Ok(lines)
        }
        Bench::Operator { reach, acls } => {
            let run = network::Run { reach: *reach, acls: *acls, ..arguments.network() };
            network::inside::lines(runs, run)
        }
        Bench::Json => figure6::json::lines(runs, arguments.divisor),
        Bench::Live => figure6::live::lines(runs, arguments.divisor),
        Bench::State => figure6::saved::lines(runs, arguments.divisor),
        Bench::Network => network::lines(runs, arguments.network()),
        Bench::Routers { reach } => network::routed::lines(runs, arguments.network(), *reach),
        Bench::Restart { reach } => {
            network::restart::lines(runs, network::Run { reach: *reach, ..arguments.network() })
        }
        Bench::Start { reach, acls } => {
            let (reach, acls) = (*reach, *acls);
            network::started::lines(runs, network::Run { reach, acls, ..arguments.network() })
        }
        Bench::Acls { acls, reach, invariants } => {
            let (reach, acls, invariants) = (*reach, Some(*acls), *invariants);
            network::filtered::lines(runs, network::Run { reach, acls, invariants, ..arguments.network() })
        }
        Bench::Trace => network::traced::lines(runs, arguments.traced()),
        Bench::Questions => network::traced::lines_of_running(arguments.traced()),
        Bench::Journal => network::traced::lines_of_journal(runs, arguments.traced()),
        Bench::Store => store::lines(runs),
        Bench::Layered => layered::lines(runs, arguments.layered()),
        Bench::Joins => joins::lines(arguments.seed),
        Bench::Arrival => joins::lines_of_arrival(arguments.seed),
        Bench::Datalog => datalog::lines(runs, arguments.figure6()),
        _ => {
            let parts = [
                Bench::Figure6,
                Bench::Workers,
                Bench::Operator { reach: None, acls: None },
                Bench::Restart { reach: None },
                Bench::Json,
                Bench::State,
                Bench::Live,
                Bench::Layered,
                Bench::Joins,
                Bench::Arrival,
                Bench::Datalog,
            ];
            let mut all = Vec::new();
            for part in parts {
                let found = lines(arguments, &part)?;
                // Something to read meanwhile.
                for line in &found {
                    eprintln!("{line}");
                }
                all.extend(found);
            }
            Ok(all)
        }
    }
}

fn print_lines(arguments: &Arguments, bench: &Bench) -> Result<()> {
    let lines = lines(arguments, bench)?;
    let network = Network::nvp_eval(arguments.divisor);
    println!(
        "\n{}; nvp-eval with {} hypervisors, {} switches, {} ports; medians (least–greatest) of {} runs.",
        measure::machine(),
        network.hypervisors,
        network.switches,
        network.ports(),
        arguments.runs,
    );
    report::print("Figures to reach", &lines);
    Ok(())
}
