//! What flows have the responder send without a packet, and how often.

use std::time::Duration;

use packet_answers::{Announcement, Answered, Ask, Query, Solicitation};

/// The pauses between the times that an announcement is sent. The first frame is prompt. It may be lost: the network may still learn its own
/// change (a spanning tree, a session of BFD at the other end, which takes 1 to 2 s), and no answer says that it arrived. So it is sent
/// again after 1 s, as RFC 4861 (7.2.6) and RFC 5227 (2.3) repeat theirs, and at growing distances, which reach over seven seconds with few frames.
const ANNOUNCEMENT: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// The pauses between the first questions for a MAC address, of which any may be lost (RFC 4861, 10: `RETRANS_TIMER` and
/// `MAX_MULTICAST_SOLICIT`). A target that is there has then been asked often enough.
const SOLICITATION: [Duration; 2] = [Duration::from_secs(1); 2];
/// A querier that begins asks its first two questions in this part of its interval (RFC 3376, 8.6 and 8.7; RFC 3810, 9.6 and 9.7).
const FIRST_QUERY: u32 = 4;

/// Something that is sent without a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unasked {
    /// Where an address is.
    Announcement(Announcement),
    /// Which multicast groups machines listen to.
    Query(Query),
    /// Which MAC address a neighbour has.
    Solicitation(Solicitation),
}

impl Unasked {
    /// What a flow has the responder send, unless it is for packets.
    pub(crate) fn of(ask: Ask) -> Option<Unasked> {
        match ask {
            Ask::Announcement(announcement) => Some(Unasked::Announcement(announcement)),
            Ask::Query(query) => Some(Unasked::Query(query)),
            Ask::Solicitation(solicitation) => Some(Unasked::Solicitation(solicitation)),
            _ => None,
        }
    }

    /// The frame with this number of those that are sent each time; none behind the last one.
    pub(crate) fn frame(&self, number: usize) -> Option<Vec<u8>> {
        match self {
            Unasked::Announcement(announcement) => announcement.frame(number),
            Unasked::Query(query) => query.frame(number),
            Unasked::Solicitation(solicitation) => solicitation.frame().filter(|_| number == 0),
        }
    }

    /// How many frames are sent each time.
    pub(crate) fn frames(&self) -> usize {
        match self {
            Unasked::Announcement(announcement) => announcement.frames(),
            Unasked::Query(query) => query.frames(),
            Unasked::Solicitation(_) => 1,
        }
    }

    /// Whether it is to be sent anew when this port becomes live, or ceases to be.
    pub(crate) fn watches(&self, port: u32) -> bool {
        match self {
            Unasked::Announcement(announcement) => announcement.watch.contains(&port),
            Unasked::Solicitation(solicitation) => solicitation.watch.contains(&port),
            Unasked::Query(_) => false,
        }
    }

    /// How long it rests after it has been sent, having been sent so many times before; none if it is not sent again.
    pub(crate) fn pause(&self, times: usize) -> Option<Duration> {
        let seconds = |interval: u16| Duration::from_secs(interval.into());
        match self {
            Unasked::Announcement(_) => ANNOUNCEMENT.get(times).copied(),
            Unasked::Query(query) if times == 0 => Some(seconds(query.interval) / FIRST_QUERY),
            Unasked::Query(query) => Some(seconds(query.interval)),
            Unasked::Solicitation(solicitation) => {
                let usual = seconds(solicitation.interval);
                Some(SOLICITATION.get(times).copied().unwrap_or(usual).min(usual))
            }
        }
    }

    /// The kind by which its frames are counted.
    pub(crate) fn kind(&self) -> Answered {
        match self {
            Unasked::Announcement(_) => Answered::Announcement,
            Unasked::Query(_) => Answered::Query,
            Unasked::Solicitation(_) => Answered::Solicitation,
        }
    }
}
