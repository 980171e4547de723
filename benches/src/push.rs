//! A bundle of flows to a real ovs-vswitchd, compared with `ovs-ofctl --bundle add-flows`.
//!
//! Weft starts from flows in the driver's form and ends when the switch has confirmed them; ovs-ofctl runs as a
//! separate process, starts from a text file and ends in the same way. Each makes its own connection.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use lab::{Host, HostSpec, Lab, Options};
use openflow_rs::{Actions, Match};
use ovs_driver::{Endpoint, Flow, FlowKey, Sockets, push_bundle};

use crate::measure::print_ratio;

/// Pushes the same flows in turns with Weft and with ovs-ofctl, each time into an empty table.
pub(crate) fn compare(flows: usize, runs: usize) -> Result<()> {
    println!("\n{flows} flows to one ovs-vswitchd as one atomic bundle; {runs} runs\n");
    let spec = HostSpec::new("hv1", [172, 31, 0, 1]);
    let lab = Lab::create(Options::new("bench").host(spec).with_integration_bridge())?;
    let host = lab.host("hv1")?;
    let file = host.run_dir.join("flows.txt");
    std::fs::write(&file, text(flows)?).context("cannot write the flows")?;
    let file = file.to_str().context("the lab's folder has a name that is not UTF-8")?;
    let typed = typed(flows)?;
    let endpoint: Endpoint = host.openflow_endpoint().parse().context("the lab's socket")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;

    let (mut ours, mut baseline) = (Vec::new(), Vec::new());
    for number in 0..=runs {
        empty(&host)?;
        let pushed = runtime.block_on(push_bundle(&Sockets::default(), &endpoint, &typed))?;
        check(&host, flows)?;
        empty(&host)?;
        let start = Instant::now();
        host.ofctl(&["--bundle", "add-flows", &host.openflow_endpoint(), file])?;
        let ovs_ofctl = start.elapsed();
        check(&host, flows)?;
        if number > 0 {
            ours.push((pushed.connected + pushed.in_force).as_secs_f64());
            baseline.push(ovs_ofctl.as_secs_f64());
        }
    }
    println!("| | weft | ovs-ofctl --bundle | ratio |\n|---|---|---|---|");
    print_ratio(&format!("{flows} flows in force, s"), 3, &ours, &baseline);
    lab.remove()?;
    Ok(())
}

/// The match and actions of a flow, as for a remote port of a logical switch.
fn flow(number: usize) -> (String, String) {
    let [a, b, c, d] = (number as u32 + 1).to_be_bytes();
    let datapath = number / 16 + 1;
    (
        format!("metadata={datapath:#x},dl_dst=02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}"),
        format!(
            "set_field:{:#x}->reg1,set_field:172.16.{c}.{d}->tun_dst,set_field:0xc8->reg12,resubmit(,50)",
            0x101 + number
        ),
    )
}

fn text(flows: usize) -> Result<String> {
    let mut text = String::new();
    for number in 0..flows {
        let (matching, actions) = flow(number);
        writeln!(text, "cookie=0x5,table=20,priority=50,{matching} actions={actions}")?;
    }
    Ok(text)
}

fn typed(flows: usize) -> Result<Vec<(FlowKey, Flow)>> {
    (0..flows)
        .map(|number| {
            let (matching, actions) = flow(number);
            let matching: Match = matching.parse().context("a match of the benchmark")?;
            let actions: Actions = actions.parse().context("actions of the benchmark")?;
            Ok((FlowKey::new(20, 50, &matching)?, Flow::new(5, &actions)?))
        })
        .collect()
}

fn empty(host: &Host) -> Result<()> {
    host.ofctl(&["del-flows", &host.openflow_endpoint()])?;
    Ok(())
}

fn check(host: &Host, flows: usize) -> Result<()> {
    let text = host.ofctl(&["dump-aggregate", &host.openflow_endpoint()])?;
    let count = text.split("flow_count=").nth(1).map(str::trim).and_then(|count| count.parse::<usize>().ok());
    ensure!(count == Some(flows), "the switch has {count:?} flows, not {flows}: {text}");
    Ok(())
}
