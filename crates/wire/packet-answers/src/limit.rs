//! How many answers one receiver gets.

use std::collections::HashMap;
use std::time::Duration;

use crate::{Receiver, Silence};

/// The interval between answers that one receiver gets from one router. A sender whose packets are all too large needs one answer, not one for each.
pub const ANSWERS_EACH: Duration = Duration::from_millis(100);
/// Answers that it gets at once, as `traceroute` asks for (RFC 4443, 2.4 (f), proposes a bucket for its sake).
pub const ANSWERS_BURST: u32 = 10;
/// The receivers that are remembered. Beyond that, those that have been quiet for the longest are forgotten.
pub const RECEIVERS_MAX: usize = 4096;

/// A token bucket for each receiver of each router.
///
/// A bucket is kept as the time at which it is full again, as in the generic cell rate algorithm (ITU-T I.371), so a receiver that has been
/// quiet for a second need not be remembered.
#[derive(Debug, Default)]
pub struct Limit {
    full_at: HashMap<(u64, Receiver), Duration>,
}

impl Limit {
    /// Takes an answer from the share of a receiver. `router` tells the datapaths of a switch apart; `now` is the time since any moment
    /// that stays the same.
    ///
    /// # Errors
    /// The receiver has got its share.
    pub fn take(&mut self, router: u64, receiver: Receiver, now: Duration) -> Result<(), Silence> {
        let key = (router, receiver);
        let full_at = self.full_at.get(&key).copied().unwrap_or_default().max(now);
        if full_at > now + ANSWERS_EACH * (ANSWERS_BURST - 1) {
            return Err(Silence::Limited);
        }
        if self.full_at.len() >= RECEIVERS_MAX && !self.full_at.contains_key(&key) {
            self.forget(now);
        }
        self.full_at.insert(key, full_at + ANSWERS_EACH);
        Ok(())
    }

    /// The receivers that are remembered.
    pub fn receivers(&self) -> usize {
        self.full_at.len()
    }

    /// Makes room: forgets receivers whose bucket is full, or else the half whose bucket is full first.
    fn forget(&mut self, now: Duration) {
        self.full_at.retain(|_, full_at| *full_at > now);
        if self.full_at.len() < RECEIVERS_MAX {
            return;
        }
        let mut times: Vec<Duration> = self.full_at.values().copied().collect();
        let (_, median, _) = times.select_nth_unstable(RECEIVERS_MAX / 2);
        let median = *median;
        self.full_at.retain(|_, full_at| *full_at > median);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const RECEIVER: Receiver = Receiver::Ip(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));

    fn taken(limit: &mut Limit, times: usize, now: Duration) -> usize {
        (0..times).filter(|_| limit.take(7, RECEIVER, now).is_ok()).count()
    }

    #[test]
    fn a_receiver_gets_a_burst_and_then_its_rate() {
        let mut limit = Limit::default();
        assert_eq!(taken(&mut limit, 50, Duration::from_secs(1)), 10);
        assert_eq!(taken(&mut limit, 50, Duration::from_millis(1500)), 5);
        assert_eq!(taken(&mut limit, 50, Duration::from_mins(1)), 10);
        assert!(limit.take(8, RECEIVER, Duration::from_mins(1)).is_ok(), "another router");
        assert!(limit.take(7, Receiver::Mac([2; 6]), Duration::from_mins(1)).is_ok(), "another receiver");
    }

    #[test]
    fn a_flood_from_forged_sources_takes_bounded_memory_and_forgets_the_quiet() {
        let mut limit = Limit::default();
        let now = Duration::from_secs(1);
        assert_eq!(taken(&mut limit, 50, now), 10);
        for source in 0..100_000_u32 {
            let _ = limit.take(7, Receiver::Ip(IpAddr::V4(source.into())), now);
            assert!(limit.receivers() <= RECEIVERS_MAX);
        }
        assert_eq!(taken(&mut limit, 50, now), 0, "who has got most is remembered");
    }
}
