//! Measures traffic: probes sent, answers received, and the longest gap.
//!
//! All figures are those of iputils `ping` in the machine's namespace, read from its output with its own
//! timestamps (`-D`), so that the reader's delays do not count.

use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use crate::command::{in_parallel, line, wait_for};
use crate::process::{kill, signal};
use crate::{Error, Lab};

/// How long after [`RunningPing::stop`] a reply to an earlier probe may still arrive and count.
const GRACE: Duration = Duration::from_secs(10);

/// How long ping may take to start. On an idle machine it takes some milliseconds.
const START: Duration = Duration::from_mins(1);

/// Pairs are tried by this many threads at a time.
const PINGERS: usize = 16;

/// A ping of a fixed number of probes.
#[derive(Debug, Clone)]
pub struct PingOptions {
    /// Probes to send.
    pub count: u32,
    /// Time between them, at least 1 ms.
    pub interval: Duration,
    /// How long to wait for answers after the last probe. Only a lost probe takes this long.
    pub deadline: Duration,
    /// Bytes of payload; the IP packet has 28 more (IPv6: 48).
    pub size: u16,
}

impl Default for PingOptions {
    /// Three probes, 20 ms apart, 10 s of patience.
    fn default() -> Self {
        let (interval, deadline) = (Duration::from_millis(20), Duration::from_secs(10));
        PingOptions { count: 3, interval, deadline, size: 56 }
    }
}

/// The result of a ping.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PingResult {
    /// Probes sent.
    pub sent: u64,
    /// Probes answered.
    pub received: u64,
    /// Answers beyond the first to the same probe.
    pub duplicates: u64,
    /// Shortest round trip.
    pub rtt_min: Option<Duration>,
    /// Mean round trip.
    pub rtt_mean: Option<Duration>,
    /// Longest round trip.
    pub rtt_max: Option<Duration>,
    /// The longest time without an answer: between two answers, or from the last one to the end if later probes were not answered. Without
    /// disturbance it is about the interval.
    pub longest_gap: Duration,
}

impl PingResult {
    /// Probes that were not answered.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }
}

/// The pairs of machines and whether they reach each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reachability {
    /// Sender, target, and whether an answer came; in the requested order.
    pub pairs: Vec<(String, String, bool)>,
}

impl Reachability {
    /// Whether `from` reaches `to`; none if the pair was not tried.
    pub fn get(&self, from: &str, to: &str) -> Option<bool> {
        self.pairs.iter().find(|(a, b, _)| a == from && b == to).map(|(_, _, reached)| *reached)
    }

    /// Whether every pair tried succeeded.
    pub fn all(&self) -> bool {
        self.pairs.iter().all(|(_, _, reached)| *reached)
    }

    /// Pairs that got no answer.
    pub fn unreached(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().filter(|(_, _, reached)| !reached).map(|(a, b, _)| (a.as_str(), b.as_str()))
    }
}

impl Lab {
    /// Pings `to` from a machine. Lost probes are a result, not an error. A few more probes than requested may be sent; they are not
    /// counted. They distinguish a last probe that is lost from one that is late: by itself, ping waits for at most two round trips.
    pub fn ping(&self, vm: &str, to: IpAddr, options: &PingOptions) -> Result<PingResult, Error> {
        let mut command = self.ping_command(vm, to, options.interval)?;
        command.args(["-s", &options.size.to_string()]);
        let mut ping = RunningPing::start(vm, command, options.interval)?;
        let count = u64::from(options.count);
        ping.wait_until(options.interval * options.count + options.deadline, |record| {
            let within = record.replies.iter().filter(|reply| reply.number <= count).count() as u64;
            within == count || within < record.replies.len() as u64
        });
        if ping.received() < count {
            // An answer may still be on its way through a switch that had no processor time.
            self.drain()?;
        }
        ping.finish()?;
        Ok(ping.look(|record| record.result(f64::MAX, count, options.interval)))
    }

    /// Pings until the first answer, and returns the time taken. [`Error::Timeout`] after `deadline`.
    pub fn wait_ping(&self, vm: &str, to: IpAddr, deadline: Duration) -> Result<Duration, Error> {
        let start = Instant::now();
        let answered = || Ok(self.answers(vm, to)?.then_some(()));
        wait_for(vm, &format!("an answer from {to}"), deadline, answered)?;
        Ok(start.elapsed())
    }

    /// Whether one probe is answered within a second.
    fn answers(&self, vm: &str, to: IpAddr) -> Result<bool, Error> {
        let interval = PingOptions::default().interval;
        let mut ping = self.spawn_ping(vm, to, interval)?;
        ping.wait_until(Duration::from_secs(1), |record| !record.replies.is_empty());
        ping.finish()?;
        Ok(ping.received() > 0)
    }

    /// Starts a ping that continues until [`RunningPing::stop`]. Returns once the process runs; see [`RunningPing::wait_received`].
    pub fn spawn_ping(&self, vm: &str, to: IpAddr, interval: Duration) -> Result<RunningPing, Error> {
        RunningPing::start(vm, self.ping_command(vm, to, interval)?, interval)
    }

    /// Tries every ordered pair of the machines `vms`, many at a time. A pair is reached if an answer comes within `deadline`, even if
    /// earlier probes were lost.
    pub fn reachability(&self, vms: &[&str], deadline: Duration) -> Result<Reachability, Error> {
        let pairs = vms.iter().flat_map(|from| vms.iter().map(move |to| (*from, *to)));
        let pairs: Vec<(&str, &str)> = pairs.filter(|(from, to)| from != to).collect();
        self.reachability_of(&pairs, deadline)
    }

    /// Tries the given pairs (from, to); see [`Lab::reachability`].
    pub(crate) fn reachability_of(
        &self,
        pairs: &[(&str, &str)],
        deadline: Duration,
    ) -> Result<Reachability, Error> {
        let tried = in_parallel(pairs, PINGERS, |(from, to)| {
            let address = self
                .vm(to)?
                .ip()
                .ok_or_else(|| Error::invalid("virtual machine", *to, "it has no address to ping"))?;
            match self.wait_ping(from, address, deadline) {
                Ok(_) => Ok(true),
                Err(Error::Timeout { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        });
        let reached = tried.into_iter().collect::<Result<Vec<bool>, Error>>()?;
        let pairs = pairs.iter().zip(reached);
        Ok(Reachability {
            pairs: pairs
                .map(|((from, to), reached)| ((*from).to_owned(), (*to).to_owned(), reached))
                .collect(),
        })
    }

    fn ping_command(&self, vm: &str, to: IpAddr, interval: Duration) -> Result<Command, Error> {
        let mut command = self.command(vm, "ping")?;
        // With zero, ping floods and prints dots instead of answers.
        let interval = interval.max(Duration::from_millis(1)).as_secs_f64();
        command.args(["-n", "-D", "-i", &format!("{interval:.3}")]);
        command.arg(to.to_string());
        Ok(command)
    }
}

/// A running ping; dropping it ends it.
#[derive(Debug)]
pub struct RunningPing {
    vm: String,
    interval: Duration,
    command: String,
    child: Child,
    reader: Option<JoinHandle<()>>,
    record: Arc<Mutex<Record>>,
}

impl RunningPing {
    fn start(vm: &str, mut command: Command, interval: Duration) -> Result<RunningPing, Error> {
        let line = line(&command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawn = |source| Error::Spawn { place: vm.to_owned(), command: line.clone(), source };
        let mut child = command.spawn().map_err(spawn)?;
        // Before its handler is installed, an interrupt would end it without a summary.
        let mut started = now();
        wait_for(vm, "the start of ping", START, || {
            if catches_interrupt(child.id()) || !matches!(child.try_wait(), Ok(None)) {
                return Ok(Some(()));
            }
            started = now();
            Ok(None)
        })
        .inspect_err(|_| kill(child.id()))?;
        let record = Arc::new(Mutex::new(Record::new(started)));
        let reader = child.stdout.take().map(|stdout| {
            let record = Arc::clone(&record);
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    record.lock().unwrap_or_else(PoisonError::into_inner).read(&line);
                }
            })
        });
        Ok(RunningPing { vm: vm.to_owned(), interval, command: line, child, reader, record })
    }

    /// Probes answered so far.
    pub fn received(&self) -> u64 {
        self.look(|record| record.replies.len() as u64)
    }

    /// Waits until `count` more probes are answered.
    pub fn wait_received(&self, count: u64, deadline: Duration) -> Result<(), Error> {
        let goal = self.received() + count;
        wait_for(&self.vm, &format!("{count} answers"), deadline, || {
            Ok((self.received() >= goal).then_some(()))
        })
    }

    /// Ends the ping. Every probe sent before this call is counted, and none sent after it. So the ping continues for a moment (an
    /// interval, plus at most a second); otherwise the last probe would seem lost while it is in flight.
    pub fn stop(mut self) -> Result<PingResult, Error> {
        let cutoff = now();
        // An answer to a later probe shows that earlier ones had enough time.
        self.wait_until(self.interval + GRACE, |record| {
            record.replies.last().is_some_and(|reply| reply.sent > cutoff)
        });
        self.finish()?;
        Ok(self.look(|record| record.result(cutoff, u64::MAX, self.interval)))
    }

    /// Waits until the record satisfies the condition; gives up after `within`, or when ping has ended by itself.
    fn wait_until(&mut self, within: Duration, wanted: impl Fn(&Record) -> bool) {
        let start = Instant::now();
        while start.elapsed() < within && !self.look(&wanted) && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends ping, as by Ctrl-C, and reads its output to the end.
    fn finish(&mut self) -> Result<(), Error> {
        if matches!(self.child.try_wait(), Ok(None)) {
            signal(self.child.id(), Signal::INT);
        }
        let mut detail = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut detail);
        }
        let (place, command) = (self.vm.clone(), self.command.clone());
        if let Err(source) = self.child.wait() {
            return Err(Error::Spawn { place, command, source });
        }
        if let Some(reader) = self.reader.take() {
            // The reader cannot panic; if it did, the missing summary is reported below.
            let _ = reader.join();
        }
        if self.look(|record| record.transmitted.is_none()) {
            let detail = format!("no summary; {}", detail.trim());
            return Err(Error::Unexpected { place, command, detail });
        }
        Ok(())
    }

    fn look<T>(&self, at: impl FnOnce(&Record) -> T) -> T {
        at(&self.record.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for RunningPing {
    fn drop(&mut self) {
        // If `stop` has reaped it, the number may belong to another process.
        if matches!(self.child.try_wait(), Ok(None)) {
            kill(self.child.id());
            let _ = self.child.wait();
        }
    }
}

/// One answered probe; times in seconds since 1970.
#[derive(Debug, Clone, Copy)]
struct Reply {
    number: u64,
    sent: f64,
    arrived: f64,
}

/// The record of ping's output so far.
#[derive(Debug)]
struct Record {
    started: f64,
    replies: Vec<Reply>,
    duplicates: u64,
    transmitted: Option<u64>,
}

impl Record {
    fn new(started: f64) -> Record {
        Record { started, replies: Vec::new(), duplicates: 0, transmitted: None }
    }

    fn read(&mut self, line: &str) {
        if let Some(sent) = line.split(" packets transmitted").next().filter(|sent| sent.len() < line.len()) {
            self.transmitted = sent.trim().parse().ok();
        } else if line.ends_with("(DUP!)") {
            self.duplicates += 1;
        } else if let Some(reply) = self.reply(line) {
            self.replies.push(reply);
        }
    }

    /// Reads `[1700000000.123456] 64 bytes from 10.0.0.2: icmp_seq=3 ttl=64 time=0.512 ms`.
    fn reply(&self, line: &str) -> Option<Reply> {
        let (stamp, rest) = line.strip_prefix('[')?.split_once("] ")?;
        let arrived: f64 = stamp.parse().ok()?;
        let rest = rest.split_once(" bytes from ")?.1;
        let field = |name: &str| rest.split(' ').find_map(|word| word.strip_prefix(name));
        let sequence: u16 = field("icmp_seq=")?.parse().ok()?;
        let rtt: f64 = field("time=")?.parse().ok()?;
        // The sequence number on the wire has 16 bits: take the value nearest to that of the last answer.
        let near = self.replies.last().map_or(1, |reply| reply.number);
        let step = i64::from(sequence.wrapping_sub(near as u16) as i16);
        Some(Reply { number: near.checked_add_signed(step)?, sent: arrived - rtt / 1000.0, arrived })
    }

    /// The result for those of the first `limit` probes that were sent up to `cutoff`. The send time of an unanswered probe is estimated
    /// from the last answered one and the interval.
    fn result(&self, cutoff: f64, limit: u64, interval: Duration) -> PingResult {
        let counts = |reply: &Reply| reply.sent <= cutoff && reply.number <= limit;
        let counted: Vec<Reply> = self.replies.iter().copied().filter(counts).collect();
        let later = self.replies.iter().filter(|reply| reply.sent > cutoff).map(|reply| reply.number).min();
        let transmitted = self.transmitted.unwrap_or(0).min(limit);
        let known = counted.iter().map(|reply| reply.number).max().unwrap_or(0);
        let from = counted.iter().map(|reply| reply.sent).fold(self.started, f64::max);
        let passed = ((cutoff - from).max(0.0) / interval.as_secs_f64().max(1e-6)) as u64;
        // Without an answer so far, count the first probe, which is sent at once.
        let reckoned = known.saturating_add(passed).saturating_add(u64::from(counted.is_empty()));
        let sent = reckoned.min(later.map_or(transmitted, |later| transmitted.min(later - 1))).max(known);
        let rtts: Vec<f64> = counted.iter().map(|reply| reply.arrived - reply.sent).collect();
        let seconds = |value: f64| Duration::try_from_secs_f64(value).unwrap_or_default();
        let rtt = |value: f64| (!rtts.is_empty()).then(|| seconds(value));
        PingResult {
            sent,
            received: counted.len() as u64,
            duplicates: self.duplicates,
            rtt_min: rtt(rtts.iter().copied().fold(f64::MAX, f64::min)),
            rtt_mean: rtt(rtts.iter().sum::<f64>() / rtts.len() as f64),
            rtt_max: rtt(rtts.iter().copied().fold(0.0, f64::max)),
            longest_gap: seconds(self.longest_gap(&counted, sent, cutoff, interval)),
        }
    }

    fn longest_gap(&self, counted: &[Reply], sent: u64, cutoff: f64, interval: Duration) -> f64 {
        let mut arrivals: Vec<f64> = counted.iter().map(|reply| reply.arrived).collect();
        arrivals.sort_by(f64::total_cmp);
        let first = counted.iter().map(|reply| reply.number).min();
        let last = counted.iter().map(|reply| reply.number).max();
        if first.is_none_or(|first| first > 1) {
            arrivals.insert(0, self.started);
        }
        if last.is_none_or(|last| last < sent) {
            // A finite ping has no cutoff: it ends an interval after its last probe.
            let from = arrivals.last().copied().unwrap_or(self.started);
            let unanswered = (sent - last.unwrap_or(0)) as f64;
            arrivals.push(cutoff.min(from + unanswered * interval.as_secs_f64()));
        }
        arrivals.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max)
    }
}

/// Whether the process has a handler for SIGINT, by the mask of caught signals in proc(5).
fn catches_interrupt(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 0b10 != 0)
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: Duration = Duration::from_millis(100);

    fn record(lines: &[&str]) -> Record {
        let mut record = Record::new(100.0);
        for line in lines {
            record.read(line);
        }
        record
    }

    #[test]
    fn losses_duplicates_and_the_gap_are_told_apart() {
        let record = record(&[
            "PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.",
            "[100.001] 64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=1.00 ms",
            "[100.002] 64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=2.00 ms (DUP!)",
            "[100.103] 64 bytes from 10.0.0.2: icmp_seq=2 ttl=64 time=3.00 ms",
            "[100.402] From 10.0.0.1 icmp_seq=4 Destination Host Unreachable",
            "[100.501] 64 bytes from 10.0.0.2: icmp_seq=6 ttl=64 time=1.00 ms",
            "6 packets transmitted, 3 received, +1 duplicates, 50% packet loss, time 500ms",
        ]);
        let result = record.result(f64::MAX, u64::MAX, TENTH);
        assert_eq!((result.sent, result.received, result.duplicates, result.lost()), (6, 3, 1, 3));
        assert_eq!(result.longest_gap.as_millis(), 398);
        assert_eq!(result.rtt_max.unwrap().as_micros().div_ceil(1000), 3);
    }

    #[test]
    fn probes_beyond_the_limit_only_buy_time() {
        let record = record(&[
            "[100.001] 64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=1.00 ms",
            "[100.201] 64 bytes from 10.0.0.2: icmp_seq=3 ttl=64 time=1.00 ms",
            "3 packets transmitted, 2 received, 33% packet loss, time 200ms",
        ]);
        let result = record.result(f64::MAX, 2, TENTH);
        assert_eq!((result.sent, result.received), (2, 1));
        assert_eq!(result.longest_gap.as_millis(), 100);
    }

    #[test]
    fn a_probe_sent_after_the_cutoff_is_neither_sent_nor_lost() {
        let lines = [
            "[100.001] 64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=1.00 ms",
            "[100.101] 64 bytes from 10.0.0.2: icmp_seq=2 ttl=64 time=1.00 ms",
            "[100.201] 64 bytes from 10.0.0.2: icmp_seq=3 ttl=64 time=1.00 ms",
            "4 packets transmitted, 3 received, 25% packet loss, time 300ms",
        ];
        let result = record(&lines).result(100.150, u64::MAX, TENTH);
        assert_eq!((result.sent, result.received), (2, 2));
        // Probe 4 was sent at 100.3, within the cutoff: it is lost.
        let result = record(&lines).result(100.350, u64::MAX, TENTH);
        assert_eq!((result.sent, result.received), (4, 3));
        assert_eq!(result.longest_gap.as_millis(), 100);
    }

    #[test]
    fn silence_from_start_to_end_is_all_lost_and_one_gap() {
        let result = record(&["12 packets transmitted, 0 received, 100% packet loss, time 1100ms"]).result(
            101.05,
            u64::MAX,
            TENTH,
        );
        assert_eq!((result.sent, result.received), (11, 0));
        assert_eq!(result.longest_gap.as_millis(), 1050);
        assert_eq!(result.rtt_min, None);
    }

    #[test]
    fn sequence_numbers_go_on_after_16_bits() {
        let mut record = record(&[]);
        record.replies.push(Reply { number: 65_534, sent: 100.0, arrived: 100.0 });
        for (at, sequence) in [(101, 65_535), (102, 0), (103, 1)] {
            record.read(&format!("[{at}.0] 64 bytes from 10.0.0.2: icmp_seq={sequence} ttl=64 time=1.00 ms"));
        }
        let numbers: Vec<u64> = record.replies.iter().map(|reply| reply.number).collect();
        assert_eq!(numbers, [65_534, 65_535, 65_536, 65_537]);
    }
}
