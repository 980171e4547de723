//! `weft demo`: a demonstration on real Open vSwitch in under two minutes.

mod rules_only;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use lab::{Host, Migration, Order, PingResult};
use testbed::reach::{Reach, who_reaches_whom};
use testbed::tenants::{self, Departures, MACHINES, NAMES, NETWORK};
use testbed::{DEADLINE, Settings, Testbed};

use crate::exit::Failure;

/// Arguments of `weft demo`.
#[derive(Args)]
pub(crate) struct Demo {
    /// Show rules, rows and changes of the same networks, without switches
    #[arg(long)]
    rules_only: bool,
    /// Keep the lab and the controller running, and print commands to try
    #[arg(long, conflicts_with = "rules_only")]
    keep: bool,
}

/// The demo's lab.
const LAB: &str = "demo";
/// The virtual machine that migrates, its destination, and the virtual machine that pings it meanwhile.
const MIGRANT: &str = "acme-3";
const DESTINATION: &str = "hv1";
const PINGER: &str = "acme-1";
const PING_EVERY: Duration = Duration::from_millis(10);
/// The lines of flows that the demo shows.
const LINES_OF_FLOWS: usize = 9;

impl Demo {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.rules_only {
            return rules_only::run().map_err(|error| Failure::Outside(format!("{error:#}")));
        }
        lab::preflight().map_err(|missing| {
            Failure::Outside(format!("{missing}\n`weft demo --rules-only` runs without Open vSwitch"))
        })?;
        on_real_switches(self.keep).map_err(|error| Failure::Outside(format!("{error:#}")))
    }
}

fn on_real_switches(keep: bool) -> Result<()> {
    let begun = Instant::now();
    crate::lab::sweep_after_this_process().context("cannot arrange the removal of the lab")?;
    heading("Two hypervisors on real Open vSwitch, two tenants with the same addresses");
    let settings = Settings::new(LAB, std::env::current_exe()?);
    let mut testbed = Testbed::start(Settings { may_be_kept: keep, ..settings })?;
    // The tunnel ports come first, so that no ping waits for them.
    testbed.wait_in_sync()?;
    testbed.apply("two-tenants.yaml", NETWORK)?;
    testbed.plug_in(&tenants::machines())?;
    testbed.wait_in_sync()?;
    for (name, host, number) in MACHINES {
        println!("    {name:8} on {host}   {}   {}", tenants::mac(number), tenants::ip(number));
    }
    show_reachability(&testbed)?;
    let migration = show_migration(&testbed)?;
    let failure = show_controller_failure(&mut testbed)?;
    show_host(&testbed, DESTINATION)?;
    heading(&format!("What this has shown, in {:.1} s", begun.elapsed().as_secs_f64()));
    println!("    isolation    no packet crossed between two tenants with the same addresses");
    println!("    migration    {migration}");
    println!("    failure      {failure}");
    if keep { leave(testbed) } else { Ok(()) }
}

fn heading(text: &str) {
    println!("\n{text}\n{}", "─".repeat(text.chars().count()));
}

fn show_reachability(testbed: &Testbed) -> Result<()> {
    heading("Which machines can reach each other");
    let reach = who_reaches_whom(testbed.lab()?, &NAMES, |reach| Departures::of(reach).missing.is_empty())?;
    print!("{}", reachability_table(&NAMES, &reach));
    let Departures { missing, leaks } = Departures::of(&reach);
    ensure!(missing.is_empty(), "machines of one tenant that do not reach each other: {missing:?}");
    ensure!(leaks.is_empty(), "packets crossed from one tenant to the other: {leaks:?}");
    println!(
        "\nEvery machine reaches those of its own tenant and none of the other's, as shown by where echo requests arrive."
    );
    Ok(())
}

fn reachability_table(names: &[&str], reach: &BTreeMap<String, Reach>) -> String {
    let mut table = format!("    {:10}", "from \\ to");
    for to in names {
        let _ = write!(table, "{to:>9}");
    }
    table.push('\n');
    for from in names {
        let _ = write!(table, "    {from:10}");
        for to in names {
            let cell =
                match (from == to, reach.get(*from).is_some_and(|reach| reach.arrived_at.contains(*to))) {
                    (true, _) => "·",
                    (false, true) => "yes",
                    (false, false) => "no",
                };
            let _ = write!(table, "{cell:>9}");
        }
        table.push('\n');
    }
    table
}

/// Returns the result in a line.
fn show_migration(testbed: &Testbed) -> Result<String> {
    heading(&format!(
        "{MIGRANT} migrates to {DESTINATION} while {PINGER} pings it every {} ms",
        PING_EVERY.as_millis()
    ));
    let lab = testbed.lab()?;
    let migrant = lab.vm(MIGRANT)?;
    let before = testbed.status()?.last_txn;
    let ping = lab.spawn_ping(PINGER, migrant.ip().context("the migrant has no address")?, PING_EVERY)?;
    ping.wait_received(50, DEADLINE)?;
    let appearance = watch_for(&lab.host(DESTINATION)?, &migrant.port);
    lab.migrate_vm(MIGRANT, DESTINATION, Migration { order: Order::PlugFirst, gap: Duration::ZERO })?;
    testbed.wait_in_sync()?;
    let answered = ping.received();
    ping.wait_received(answered + 50, DEADLINE)?;
    let result = ping.stop()?;
    println!("    {}", pings(&result));

    let appeared =
        appearance.join().map_err(|_| anyhow!("the thread that watches {DESTINATION} ended"))??;
    let (reported, in_place) = placement(testbed, before)?;
    let after = |time: SystemTime| time.duration_since(appeared).unwrap_or_default().as_secs_f64() * 1e3;
    println!(
        "    from the vNIC's appearance on {DESTINATION} to the last flow in place: {:.1} ms\n    \
         (its report was with the controller after {:.1} ms)",
        after(in_place),
        after(reported),
    );
    Ok(format!("{} of {} pings were lost while {MIGRANT} moved to {DESTINATION}", result.lost(), result.sent))
}

/// Watches a host's database until an interface has a port number, and returns the time.
fn watch_for(host: &Host, interface: &str) -> JoinHandle<Result<SystemTime>> {
    let mut command = host.command("ovs-vsctl");
    let database = format!("--db={}", host.ovsdb_endpoint());
    command.args([&database, "--timeout=30", "wait-until", "interface", interface, "ofport>0"]);
    std::thread::spawn(move || {
        let status = command.status().context("cannot start ovs-vsctl")?;
        let now = SystemTime::now();
        ensure!(status.success(), "the vNIC did not appear: ovs-vsctl ended with {status}");
        Ok(now)
    })
}

fn pings(result: &PingResult) -> String {
    format!(
        "{} pings sent, {} lost, {} duplicated; the longest gap between answers was {:.0} ms",
        result.sent,
        result.lost(),
        result.duplicates,
        result.longest_gap.as_secs_f64() * 1e3,
    )
}

/// For the first transaction after `before` that resulted from a report of the destination: the time of the report,
/// and the time when the last switch confirmed the changes.
fn placement(testbed: &Testbed, before: u64) -> Result<(SystemTime, SystemTime)> {
    let last = testbed.status()?.last_txn;
    for txn in before + 1..=last {
        let receipt = testbed.settled(txn)?;
        if receipt.by.contains(DESTINATION) {
            let reported = humantime::parse_rfc3339(&receipt.at).context("a receipt's time")?;
            let confirmed = receipt.switches.iter().map(|switch| {
                switch.confirmed_us.with_context(|| format!("{} did not confirm it", switch.node))
            });
            let last_us = confirmed.collect::<Result<Vec<_>>>()?.into_iter().max();
            let last_us = last_us.context("the new location changed no switch")?;
            return Ok((reported, reported + Duration::from_micros(last_us)));
        }
    }
    bail!("the controller recorded no report from {DESTINATION}")
}

/// Returns the result in a line.
fn show_controller_failure(testbed: &mut Testbed) -> Result<String> {
    heading("The controller is killed, and comes back");
    let to = testbed.lab()?.vm(MIGRANT)?.ip().context("the machine has no address")?;
    // A virtual machine of the other host, so that the ping uses the tunnel.
    let to_remote = testbed.lab()?.vm("umbra-3")?.ip().context("the machine has no address")?;
    testbed.kill_controller()?;
    let near = testbed.lab()?.spawn_ping(PINGER, to, PING_EVERY)?;
    let far = testbed.lab()?.spawn_ping("umbra-1", to_remote, PING_EVERY)?;
    near.wait_received(100, DEADLINE)?;
    far.wait_received(100, DEADLINE)?;
    let (near, far) = (near.stop()?, far.stop()?);
    println!("    without it, on one host:       {}", pings(&near));
    println!("    without it, through a tunnel:  {}", pings(&far));

    let hosts = testbed.lab()?.hosts()?;
    let marks: Vec<_> = hosts.iter().map(Host::mark_openflow).collect::<Result<_, _>>()?;
    let start = Instant::now();
    testbed.start_controller()?;
    testbed.wait_in_sync()?;
    let took = start.elapsed();
    for (host, mark) in hosts.iter().zip(&marks) {
        let count = host.openflow_since(mark)?;
        host.unmark_openflow()?;
        println!(
            "    {}: {} flow mods received since it came back, counted at the switch",
            host.name, count.flow_mods
        );
        ensure!(count.modifications() == 0, "{}: a switch that was in sync received {count:?}", host.name);
    }
    println!(
        "    its state was restored, and both switches compared, after {:.0} ms",
        took.as_secs_f64() * 1e3
    );
    let (lost, sent) = (near.lost() + far.lost(), near.sent + far.sent);
    Ok(format!("{lost} of {sent} pings were lost without a controller, and its return changed no flow"))
}

/// The first flows of a host, each with its rule: all of them would push everything else off the screen.
fn show_host(testbed: &Testbed, host: &str) -> Result<()> {
    heading(&format!("The first flows of {host}, each with its rule"));
    let flows = crate::flows::to_text(&testbed.flows(host)?);
    for line in flows.lines().take(LINES_OF_FLOWS) {
        println!("    {line}");
    }
    let more = flows.lines().count().saturating_sub(LINES_OF_FLOWS);
    println!("    … {more} more lines; with --keep, `weft get flows {host}` prints all of them");
    Ok(())
}

fn leave(testbed: Testbed) -> Result<()> {
    let address = testbed.controller_address();
    let log = testbed.log();
    let program = std::env::current_exe()?;
    let program = program.display();
    let controller = testbed.keep()?;
    heading("The lab keeps running");
    println!(
        "    export WEFT_CONTROLLER={address}\n    \
         {program} get status\n    \
         {program} get flows hv1\n    \
         {program} get switch_port acme-1\n    \
         {program} lab --lab {LAB} ping acme-1 10.0.0.2\n    \
         {program} lab --lab {LAB} migrate acme-3 hv2\n    \
         {program} lab --lab {LAB} host hv1 ovs-ofctl -O OpenFlow15 dump-flows br-int\n    \
         {program} delete switch_port umbra-3 --wait\n    \
         less {}\n",
        log.display()
    );
    let kill = controller.map(|id| format!("kill {id}; ")).unwrap_or_default();
    println!("To end it: {kill}{program} lab down {LAB}");
    Ok(())
}
