//! What is known of the way from one host to another.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nlog_data::quotation::grouped;
use switch_model::probe_length;

use crate::derived::probe_plan::{Probe, ProbeHost};
use crate::levels::Moment;
use crate::text::shown;
use crate::times::rfc3339;

/// The bytes that a small probe carries: those of the shortest Ethernet frame.
pub(super) const SMALL: usize = 46;
/// The time that a probe has to arrive and to be counted: the datapath tells its counters about once a second.
const ARRIVES_WITHIN: Duration = Duration::from_secs(2);
/// So many probes in a row are lost before the way is at fault.
const LOST_MAX: u8 = 2;

/// What the probes say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Nothing yet.
    #[default]
    Unknown,
    /// The largest packets arrive.
    Arrives,
    /// Small packets arrive, and the largest do not.
    TooNarrow,
    /// Nothing arrives.
    Silent,
}

impl Verdict {
    pub(super) fn is_fault(self) -> bool {
        matches!(self, Verdict::TooNarrow | Verdict::Silent)
    }

    /// Its name, for scripts.
    pub fn code(self) -> &'static str {
        match self {
            Verdict::Unknown => "not-measured",
            Verdict::Arrives => "arrives",
            Verdict::TooNarrow => "mtu-too-small",
            Verdict::Silent => "unreachable",
        }
    }
}

/// The probes from one host to another.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pair {
    /// What the flow of the receiver had counted when it was last judged: packets and bytes.
    counted: Option<(u64, u64)>,
    /// When the first probe was sent of which nothing is known.
    unanswered: Option<Moment>,
    /// Those lost in a row.
    lost: u8,
    verdict: Verdict,
    /// How many were sent.
    sent: u64,
    /// How many of the receiver's counter came since it was first read.
    arrived: u64,
    /// When one was last counted.
    last: Option<SystemTime>,
}

impl Pair {
    pub(super) fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Whether a small probe has to go too.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.lost > 0 || self.verdict.is_fault()
    }

    /// A probe was sent.
    pub(super) fn sent(&mut self, now: Moment) {
        self.sent += 1;
        self.unanswered.get_or_insert(now);
    }

    /// Nothing is known any more. Returns whether something was.
    pub(super) fn lapse(&mut self) -> bool {
        (self.unanswered, self.lost) = (None, 0);
        std::mem::take(&mut self.verdict) != Verdict::Unknown
    }

    /// The receiver, asked at this time, says what its flow has counted, if it has the flow. Returns whether the verdict is another one.
    pub(super) fn counted(
        &mut self,
        now: Option<(u64, u64)>,
        bytes: usize,
        asked: Moment,
        wall: SystemTime,
    ) -> bool {
        let Some(now) = now else {
            self.counted = None;
            return self.lapse();
        };
        let Some(before) = self.counted else {
            (self.counted, self.unanswered) = (Some(now), None);
            return false;
        };
        // A flow that was made anew counts from the beginning.
        let is_new = now.0 < before.0 || now.1 < before.1;
        let (packets, total) = if is_new { now } else { (now.0 - before.0, now.1 - before.1) };
        let former = self.verdict;
        if large(packets, total, bytes) > 0 {
            (self.verdict, self.lost) = (Verdict::Arrives, 0);
        } else if self.unanswered.is_none_or(|sent| asked < sent + ARRIVES_WITHIN) {
            // It may be under way. What has arrived is judged together with it.
            return false;
        } else if packets > 0 {
            (self.verdict, self.lost) = (Verdict::TooNarrow, 0);
        } else {
            self.lost = self.lost.saturating_add(1).min(LOST_MAX);
            if self.lost == LOST_MAX {
                self.verdict = Verdict::Silent;
            }
        }
        (self.counted, self.unanswered) = (Some(now), None);
        self.arrived += packets;
        if packets > 0 {
            self.last = Some(wall);
        }
        self.verdict != former
    }
}

/// How many of so many packets, of so many bytes in all, were as large as the tunnel carries. The others were small.
fn large(packets: u64, total: u64, bytes: usize) -> u64 {
    let (small, large) = (probe_length(SMALL), probe_length(bytes));
    let beyond = total.saturating_sub(packets.saturating_mul(small));
    // To the nearest, since a datapath may count some bytes more or less.
    let step = large.saturating_sub(small).max(1);
    (beyond + step / 2) / step
}

/// What was measured of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// The sender.
    pub from: Arc<str>,
    /// The receiver.
    pub to: Arc<str>,
    /// The encapsulation.
    pub encap: Arc<str>,
    /// The tunnel endpoint of the receiver.
    pub ip: IpAddr,
    /// The largest packet that the tunnel should carry.
    pub bytes: usize,
    /// The MTU that the network between the hosts should have.
    pub mtu: u32,
    /// The probes sent and arrived, and when the last one was counted.
    pub sent: u64,
    /// See `sent`.
    pub arrived: u64,
    /// See `sent`.
    pub last: Option<SystemTime>,
    /// What they say.
    pub verdict: Verdict,
    /// The host that is not connected or not in sync, if the tunnel is not measured because of it.
    pub unready: Option<String>,
}

impl Measured {
    pub(super) fn of(
        (from, to): (&Arc<str>, &Arc<str>),
        probe: &Probe,
        host: &ProbeHost,
        pair: Option<&Pair>,
        unready: Option<&str>,
    ) -> Measured {
        let pair = pair.cloned().unwrap_or_default();
        Measured {
            from: from.clone(),
            to: to.clone(),
            encap: probe.encap.clone(),
            ip: host.ip,
            bytes: probe.bytes,
            mtu: host.mtu,
            sent: pair.sent,
            arrived: pair.arrived,
            last: pair.last,
            verdict: if unready.is_some() { Verdict::Unknown } else { pair.verdict },
            unready: unready.map(str::to_owned),
        }
    }

    /// What was measured, in words.
    pub fn text(&self) -> String {
        let since = self.last.map(|last| format!(" since {}", rfc3339(last))).unwrap_or_default();
        match self.verdict {
            Verdict::Unknown => match &self.unready {
                Some(node) => format!("not measured: {} is not connected or not in sync", shown(node)),
                None => "not measured yet".to_owned(),
            },
            Verdict::Arrives => format!("packets of {} bytes arrive", grouped(self.bytes)),
            Verdict::TooNarrow => format!(
                "small packets arrive, packets of {} bytes do not: the MTU of the underlay is below {}",
                grouped(self.bytes),
                grouped(self.mtu as usize)
            ),
            Verdict::Silent => format!("no probe arrives{since}"),
        }
    }
}
