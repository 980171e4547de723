//! The responder beside a switch: how fast its own code is, how late its answers are beside those of flows, what other machines notice
//! while one makes it answer as much as it may, and its memory.
//!
//! One host with real Open vSwitch, a controller, the built-in rules, and a responder as a process of its own. Questions and answers pass
//! raw sockets of the machines, so a ping and an answer of the responder differ only in what happens in between. Questions of all kinds
//! are sent in turns, at equal distances, so each finds the processes equally asleep.
//!
//! OVN's `ovn-controller` sends what flows cannot build, too. [`ovn`] sets it up with the same network beside such a host, and the same
//! code asks both.

mod alone;
mod ovn;
mod packets;
mod wire;

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use frame_builder::Mac;
use lab::{Lab, VmSpec};
use openflow_rs::MacAddr;
use testbed::{Settings, Testbed};

use self::packets::Sender;
use self::wire::{PATIENCE, Wire};
use crate::measure::{Spread, machine, weft};
use crate::process::status_mib;
use crate::report::{self, Aim, Line};

/// Questions of each kind in a run, and the time between two of any kind: eight a second of each, below the limits of ten.
const QUESTIONS: u16 = 200;
const PAUSE: Duration = Duration::from_millis(25);
/// How long a flood is.
const FLOOD: Duration = Duration::from_secs(5);
/// Questions of other machines meanwhile: pings with these pauses, and for DHCP one after each so many pings.
const PING_PAUSE: Duration = Duration::from_micros(12_500);
const PINGS_TO_A_DISCOVER: u16 = 10;
/// Between two floods, so that each finds full buckets.
const REST: Duration = Duration::from_secs(2);
/// Packets a second of the slower flood: ten times what the meter lets pass.
const RATE: u64 = 10_000;
/// The addresses from which the flood comes. At ten answers a second each, they would get more than the meter lets pass.
const FLOODERS: u8 = 255;

/// Who asks, a machine behind the router, and who floods.
const ASKS: &str = "asks";
const FAR: &str = "far";
const FLOODS: &str = "floods";

const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 30, 1, 254);
const BEHIND: Ipv4Addr = Ipv4Addr::new(10, 30, 2, 1);
const DISCARDED: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

/// The machine that asks has two addresses, because each gets ten answers a second.
const NETWORK: &str = "
{kind: switch, id: a}
---
{kind: switch, id: b}
---
{kind: switch, id: c}
---
{kind: switch_port, id: asks, switch: a, port_security: true, addresses: [{mac: '02:00:00:00:30:01', ips: [10.30.1.1, 10.30.1.2]}]}
---
{kind: switch_port, id: far, switch: b, port_security: true, addresses: [{mac: '02:00:00:00:30:02', ips: [10.30.2.1]}]}
---
{kind: router, id: r}
---
{kind: router_port, id: r-a, router: r, switch: a, mac: '02:00:00:00:30:f1', networks: [10.30.1.254/24]}
---
{kind: router_port, id: r-b, router: r, switch: b, mac: '02:00:00:00:30:f2', networks: [10.30.2.254/24]}
---
{kind: router_port, id: r-c, router: r, switch: c, mac: '02:00:00:00:30:f3', networks: [10.40.0.1/16]}
---
{kind: route, id: discarded, router: r, destination: 203.0.113.0/24, discard: true}
---
{kind: dhcp, id: a-4, switch: a, net: 10.30.1.0/24, router: 10.30.1.254, server: {ip: 10.30.1.253, mac: '02:00:00:00:30:fd'}, lease: 3600, dns: [10.30.1.53]}
";

/// Prints the figures as a table.
pub(crate) fn print(runs: usize) -> Result<()> {
    let mut lines = alone::lines(runs)?;
    lines.extend(beside_a_switch(runs)?);
    println!(
        "\n{}; medians (least–greatest) of {runs} runs; {QUESTIONS} questions of each kind in a run, floods of {} s.",
        machine(),
        FLOOD.as_secs()
    );
    report::print("The responder", &lines);
    Ok(())
}

/// Prints how late the answers of the responder and of OVN are, in runs that take turns.
pub(crate) fn compare(runs: usize) -> Result<()> {
    let ours = Bench::start()?;
    let theirs = ovn::Ovn::start()?;
    let [mut our_answers, mut their_answers] = [Answers::default(), Answers::default()];
    for run in 0..runs {
        ours.client.run(&mut our_answers)?;
        theirs.client.run(&mut their_answers)?;
        eprintln!("run {} of {runs} of each is done", run + 1);
    }
    println!(
        "\n{}; {}; medians (least–greatest) of {runs} runs of each, in turns; {QUESTIONS} questions of each kind in a run.",
        machine(),
        theirs.version()?
    );
    report::print("The responder beside OVN's controller", &our_answers.lines(Some(&their_answers)));
    Ok(())
}

fn beside_a_switch(runs: usize) -> Result<Vec<Line>> {
    let bench = Bench::start()?;
    let idle = bench.memory("VmRSS:")?;
    let mut lines = bench.latencies(runs)?;
    lines.extend(bench.floods(runs)?);
    let [after, peak] = [bench.memory("VmRSS:")?, bench.memory("VmHWM:")?];
    lines.extend([
        Line::alone("memory of the responder before it has answered, MiB", 1, vec![idle], Aim::AtMost(30.0)),
        Line::alone("… after the floods, MiB", 1, vec![after], Aim::AtMost(30.0)),
        Line::alone("… at most, MiB", 1, vec![peak], Aim::AtMost(30.0)),
    ]);
    Ok(lines)
}

/// A question of the machine that asks. The first two are answered without the responder.
#[derive(Debug, Clone, Copy)]
enum Question {
    Ping,
    PingFar,
    Exceeded,
    Refused,
    Offer,
}

const ALL: [Question; 5] =
    [Question::Ping, Question::PingFar, Question::Exceeded, Question::Refused, Question::Offer];

impl Question {
    fn name(self) -> &'static str {
        match self {
            Question::Ping => "a ping of the router, which flows answer",
            Question::PingFar => "a ping of a machine behind the router",
            Question::Exceeded => "time exceeded",
            Question::Refused => "a refused connection to the router",
            Question::Offer => "DHCP, from DISCOVER to OFFER",
        }
    }

    fn is_for_responder(self) -> bool {
        !matches!(self, Question::Ping | Question::PingFar)
    }
}

/// What others notice of a flood.
#[derive(Debug, Default)]
struct Noticed {
    sent_a_second: Vec<f64>,
    answers_a_second: Vec<f64>,
    ping_medians: Vec<f64>,
    ping_p99s: Vec<f64>,
    offer_medians: Vec<f64>,
    offer_p99s: Vec<f64>,
    lost: Vec<f64>,
}

/// A flood of a machine: packets a second, or as many as it can, and whether the router owes errors for them.
#[derive(Debug, Clone, Copy)]
struct Flood {
    rate: Option<u64>,
    owes_errors: bool,
}

/// What came of the questions, a figure for each run.
#[derive(Debug, Default)]
struct Answers {
    medians: [Vec<f64>; ALL.len()],
    p99s: [Vec<f64>; ALL.len()],
    /// Questions without an answer.
    lost: Vec<f64>,
}

impl Answers {
    /// These are ours, beside those of a baseline.
    fn lines(&self, baseline: Option<&Answers>) -> Vec<Line> {
        let above = |times: &[f64], ping: &[f64]| {
            times.iter().zip(ping).map(|(time, ping)| time - ping).collect::<Vec<f64>>()
        };
        let line = |what: String, digits, figures: &dyn Fn(&Answers) -> Vec<f64>, aim| match baseline {
            Some(baseline) => Line::compared(what, digits, figures(self), figures(baseline), aim),
            None => Line::alone(what, digits, figures(self), aim),
        };
        let mut lines = Vec::new();
        for (at, question) in ALL.into_iter().enumerate() {
            let name = question.name();
            lines.push(line(format!("{name}: median, ms"), 3, &|of| of.medians[at].clone(), Aim::None));
            lines.push(line("… p99, ms".to_owned(), 3, &|of| of.p99s[at].clone(), Aim::None));
            if question.is_for_responder() {
                let median = |of: &Answers| above(&of.medians[at], &of.medians[0]);
                let p99 = |of: &Answers| above(&of.p99s[at], &of.p99s[0]);
                let name = "… median above the ping of the router, ms";
                lines.push(line(name.to_owned(), 3, &median, Aim::AtMost(0.5)));
                // Differences of the slowest have no ratio that says something, as they may be negative.
                lines.push(Line::alone("… p99 above it, ms", 3, p99(self), Aim::AtMost(2.0)));
                if let Some(baseline) = baseline {
                    lines.push(Line::alone("… … the baseline's, ms", 3, p99(baseline), Aim::None));
                }
            }
        }
        let of = ALL.len() * usize::from(QUESTIONS);
        let what = format!("questions without an answer within {} ms, of {of}", PATIENCE.as_millis());
        lines.push(Line::alone(what.clone(), 0, self.lost.clone(), Aim::None));
        if let Some(baseline) = baseline {
            lines.push(Line::alone(format!("{what}: the baseline's"), 0, baseline.lost.clone(), Aim::None));
        }
        lines
    }
}

/// The machine that asks.
struct Client {
    wire: Wire,
    /// Takes the offers, so that the machine does not say that nobody wants them.
    _socket: UdpSocket,
}

impl Client {
    /// Asks each question until there is an answer.
    fn start(lab: &Lab) -> Result<Client> {
        let wire = Wire::open(lab, ASKS)?;
        let socket = lab.inside(ASKS, || UdpSocket::bind("0.0.0.0:68"))?.context("the port of a client")?;
        let client = Client { wire, _socket: socket };
        for question in ALL {
            client.warm_up(question)?;
        }
        Ok(client)
    }

    /// Asks until there is an answer, so that everybody knows everybody's MAC address.
    fn warm_up(&self, question: Question) -> Result<()> {
        for number in 1..=20 {
            if self.ask(question, number)?.is_some() {
                return Ok(());
            }
        }
        bail!("no answer: {}", question.name())
    }

    /// Milliseconds until the answer, if there is one.
    fn ask(&self, question: Question, number: u16) -> Result<Option<f64>> {
        // Ports that nothing else uses.
        let number = 10_000 + number;
        let sender = Sender { mac: mac(1), ip: Ipv4Addr::new(10, 30, 1, 1), router: mac(0xf1) };
        let second = Sender { ip: Ipv4Addr::new(10, 30, 1, 2), ..sender };
        let ask = |frame: Vec<u8>, is_answer: fn(&[u8], u16) -> bool| {
            self.wire.ask(&frame, |answer| is_answer(answer, number))
        };
        let time = match question {
            Question::Ping => ask(sender.echo(ROUTER, number), packets::replies),
            Question::PingFar => ask(sender.echo(BEHIND, number), packets::replies),
            Question::Exceeded => ask(sender.datagram(BEHIND, 1, number), packets::exceeded),
            Question::Refused => ask(second.connect(ROUTER, number), packets::refused),
            Question::Offer => ask(sender.discover(number), packets::offered),
        };
        Ok(time?.map(|time| time.as_secs_f64() * 1e3))
    }

    /// The answers of each kind, while nothing else happens.
    fn run(&self, answers: &mut Answers) -> Result<()> {
        let (mut times, mut without): ([Vec<f64>; ALL.len()], _) = (Default::default(), 0.0);
        let mut due = Instant::now();
        for number in 0..QUESTIONS {
            // In another order each time, as none may always come after the same one.
            for place in 0..ALL.len() {
                let at = (place * (1 + usize::from(number) % 4) + usize::from(number)) % ALL.len();
                sleep_until(due);
                due += PAUSE;
                match self.ask(ALL[at], number)? {
                    Some(time) => times[at].push(time),
                    None => without += 1.0,
                }
            }
        }
        for (((question, times), median), p99) in
            ALL.into_iter().zip(times).zip(&mut answers.medians).zip(&mut answers.p99s)
        {
            ensure!(!times.is_empty(), "no answer: {}", question.name());
            let spread = Spread::new(times);
            median.push(spread.median());
            p99.push(spread.at(0.99));
        }
        answers.lost.push(without);
        Ok(())
    }
}

struct Bench {
    testbed: Testbed,
    client: Client,
}

impl Bench {
    fn start() -> Result<Bench> {
        let name = format!("respond-{}", std::process::id());
        let testbed = Testbed::start(Settings { hosts: 1, ..Settings::new(name, weft()?) })?;
        let addresses: Vec<String> = (0..FLOODERS).map(|n| flooder(n).to_string()).collect();
        let floods = format!(
            "---\n{{kind: switch_port, id: {FLOODS}, switch: c, addresses: [{{mac: '{}', ips: [{}]}}]}}\n",
            MacAddr(mac(3)),
            addresses.join(", ")
        );
        testbed.apply("network.yaml", &(NETWORK.to_owned() + &floods))?;
        let machine = |name: &str, n: u8, address: &str, router: &str| {
            let spec = VmSpec::new(name, "hv1", name, MacAddr(mac(n)).to_string()).address(address);
            anyhow::Ok(spec.gateway(router.parse::<Ipv4Addr>()?))
        };
        let lab = testbed.lab()?;
        lab.add_vms(&[
            machine(ASKS, 1, "10.30.1.1/24", "10.30.1.254")?.address("10.30.1.2/24"),
            machine(FAR, 2, "10.30.2.1/24", "10.30.2.254")?,
            machine(FLOODS, 3, "10.40.2.1/16", "10.40.0.1")?,
        ])?;
        // Its kernel counts what comes back to any of the addresses.
        let all = ["ip", "route", "add", "local", "10.40.1.0/24", "dev", "eth0"];
        let done = lab.exec(FLOODS, &all)?;
        ensure!(done.success(), "{all:?}: {}", done.stderr);
        testbed.wait_in_sync()?;
        let client = Client::start(lab)?;
        Ok(Bench { testbed, client })
    }

    /// The answers of each kind, while nothing else happens.
    fn latencies(&self, runs: usize) -> Result<Vec<Line>> {
        let mut answers = Answers::default();
        for run in 0..runs {
            self.client.run(&mut answers)?;
            eprintln!("run {} of {runs} is done", run + 1);
        }
        Ok(answers.lines(None))
    }

    /// What comes back to a machine that floods, and how others fare.
    fn floods(&self, runs: usize) -> Result<Vec<Line>> {
        let floods = [
            None,
            Some(Flood { rate: Some(RATE), owes_errors: false }),
            Some(Flood { rate: Some(RATE), owes_errors: true }),
            Some(Flood { rate: None, owes_errors: false }),
            Some(Flood { rate: None, owes_errors: true }),
        ];
        let mut noticed: [Noticed; 5] = Default::default();
        for run in 0..runs {
            for (flood, noticed) in floods.into_iter().zip(&mut noticed) {
                std::thread::sleep(REST);
                self.flood(flood, noticed)?;
            }
            eprintln!("floods {} of {runs} are done", run + 1);
        }
        let mut lines = Vec::new();
        for (flood, noticed) in floods.into_iter().zip(noticed) {
            let is_answered = flood.is_some_and(|flood| flood.owes_errors);
            let aim = |most| if is_answered { Aim::AtMost(most) } else { Aim::None };
            let what = match flood {
                None => "without a flood,".to_owned(),
                Some(Flood { rate, owes_errors }) => {
                    let rate = rate.map_or("as many packets as it can".to_owned(), |rate| {
                        format!("{rate} packets a second")
                    });
                    let owes = if owes_errors { "owe an error each" } else { "are dropped in silence" };
                    lines.push(Line::alone(
                        format!("a machine sends {rate} that {owes}: sent a second"),
                        0,
                        noticed.sent_a_second,
                        Aim::None,
                    ));
                    "…".to_owned()
                }
            };
            if is_answered {
                lines.push(Line::alone(
                    "… errors that come to it, a second",
                    0,
                    noticed.answers_a_second,
                    Aim::None,
                ));
            }
            lines.extend([
                Line::alone(
                    format!("{what} a ping of another machine: median, ms"),
                    3,
                    noticed.ping_medians,
                    Aim::None,
                ),
                Line::alone("… … p99, ms", 3, noticed.ping_p99s, Aim::None),
                Line::alone("… DHCP of another machine: median, ms", 3, noticed.offer_medians, Aim::None),
                Line::alone("… … p99, ms", 3, noticed.offer_p99s, aim(5.0)),
                Line::alone("… of its questions without an answer, %", 1, noticed.lost, Aim::None),
            ]);
        }
        Ok(lines)
    }

    /// One flood, while another machine asks.
    fn flood(&self, flood: Option<Flood>, noticed: &mut Noticed) -> Result<()> {
        let wire = Wire::sending(self.testbed.lab()?, FLOODS)?;
        let frames: Vec<Vec<u8>> =
            (0..FLOODERS).map(|n| frame(n, flood.is_some_and(|flood| flood.owes_errors))).collect();
        let before = self.errors()?;
        let is_over = AtomicBool::new(false);
        let (sent, seconds) = std::thread::scope(|scope| {
            let sender = scope.spawn(|| match flood {
                Some(flood) => send(&wire, &frames, flood.rate, &is_over),
                None => Ok(0),
            });
            let begun = Instant::now();
            let asked = self.ask_for(FLOOD, noticed);
            let seconds = begun.elapsed().as_secs_f64();
            is_over.store(true, Ordering::Relaxed);
            match sender.join() {
                Ok(sent) => asked.and(sent).map(|sent| (sent, seconds)),
                Err(_) => bail!("the sender panicked"),
            }
        })?;
        // What is on its way.
        std::thread::sleep(PATIENCE);
        let errors = self.errors()? - before;
        if flood.is_some_and(|flood| flood.owes_errors) {
            ensure!(errors > 0, "no error came to the machine that floods");
        }
        noticed.sent_a_second.push(sent as f64 / seconds);
        noticed.answers_a_second.push(errors as f64 / seconds);
        Ok(())
    }

    /// Asks for so long.
    fn ask_for(&self, time: Duration, noticed: &mut Noticed) -> Result<()> {
        let (mut pings, mut offers) = (Vec::new(), Vec::new());
        let (mut asked, mut lost) = (0.0, 0.0);
        let begun = Instant::now();
        let mut due = begun;
        let mut number = 0;
        while begun.elapsed() < time {
            sleep_until(due);
            // Not more at once after one that took long.
            due = Instant::now().max(due) + PING_PAUSE;
            number += 1;
            let mut ask = |question, times: &mut Vec<f64>| -> Result<()> {
                asked += 1.0;
                match self.client.ask(question, number)? {
                    Some(time) => times.push(time),
                    None => lost += 1.0,
                }
                Ok(())
            };
            ask(Question::Ping, &mut pings)?;
            if number % PINGS_TO_A_DISCOVER == 0 {
                ask(Question::Offer, &mut offers)?;
            }
        }
        for (times, medians, p99s) in [
            (pings, &mut noticed.ping_medians, &mut noticed.ping_p99s),
            (offers, &mut noticed.offer_medians, &mut noticed.offer_p99s),
        ] {
            // Slower than anything that was waited for.
            let spread = if times.is_empty() { vec![f64::INFINITY] } else { times };
            let spread = Spread::new(spread);
            medians.push(spread.median());
            p99s.push(spread.at(0.99));
        }
        noticed.lost.push(lost / asked * 100.0);
        Ok(())
    }

    /// The messages of kind *time exceeded* that the machine which floods has got so far (RFC 2011: `icmpInTimeExcds`).
    fn errors(&self) -> Result<u64> {
        let text = self.testbed.lab()?.exec(FLOODS, &["cat", "/proc/net/snmp"])?.stdout;
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Icmp: "));
        let (names, values) = lines.next().zip(lines.next()).context("no counts of ICMP")?;
        let mut both = names.split(' ').zip(values.split(' '));
        let (_, count) = both.find(|(name, _)| *name == "InTimeExcds").context("no count of errors")?;
        Ok(count.parse()?)
    }

    /// A field of the responder's process, in mebibytes.
    fn memory(&self, field: &str) -> Result<f64> {
        let pids = self.testbed.responder_pids();
        status_mib(*pids.first().context("no responder runs")?, field)
    }
}

/// Sends the frames over and over. How many were sent.
fn send(wire: &Wire, frames: &[Vec<u8>], rate: Option<u64>, is_over: &AtomicBool) -> Result<u64> {
    let begun = Instant::now();
    let mut sent = 0;
    for frame in frames.iter().cycle() {
        while rate.is_some_and(|rate| sent >= begun.elapsed().as_micros() as u64 * rate / 1_000_000) {
            if is_over.load(Ordering::Relaxed) {
                return Ok(sent);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        sent += u64::from(wire.send(frame)?);
    }
    Ok(sent)
}

/// A packet of the flood: its hops end at the router, or a route discards it.
fn frame(n: u8, owes_error: bool) -> Vec<u8> {
    let sender = Sender { mac: mac(3), ip: flooder(n), router: mac(0xf3) };
    let (to, ttl) = if owes_error { (BEHIND, 1) } else { (DISCARDED, 64) };
    sender.datagram(to, ttl, 4000)
}

fn flooder(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 40, 1, n)
}

fn mac(last: u8) -> Mac {
    [2, 0, 0, 0, 0x30, last]
}

fn sleep_until(due: Instant) {
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
}
