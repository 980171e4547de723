//! One TCP connection from an address that no machine has. No I/O and no clock here.

use std::time::Duration;

use packet_answers::Conversation;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr};

/// The longest packets: what each network carries (RFC 8200, 5), also within tunnels.
const MTU: usize = 1280;
/// What is buffered of what the other side sends. The first line of an answer counts alone.
const RECEIVED_MAX: usize = 1024;
/// The shortest pause before it is asked again what is to be sent.
const PAUSE: Duration = Duration::from_millis(1);

/// A connection, with a stack of its own: so probes from the same address, in several networks, know nothing of each other.
pub(super) struct Stream {
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    link: Link,
}

impl Stream {
    /// Begins to connect, and may send this many bytes later. Whoever does not know `seed` cannot guess the numbers of segments.
    pub(super) fn connect(ends: &Conversation, sends: usize, seed: u64, now: Duration) -> Option<Stream> {
        let mut link = Link::default();
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut link, instant(now));
        // All others are on the same network: whoever has sent the frame to the address routes it.
        let own = IpCidr::new(ends.from.into(), 0);
        let mut has_address = false;
        interface.update_ip_addrs(|addresses| has_address = addresses.push(own).is_ok());
        let buffer = |bytes| SocketBuffer::new(vec![0; bytes]);
        let mut socket = Socket::new(buffer(RECEIVED_MAX), buffer(sends));
        // Answers are short, and nothing is gained by waiting for more.
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(None);
        let (to, from) = ((ends.to, ends.port?), (ends.from, ends.own));
        socket.connect(interface.context(), to, from).ok().filter(|()| has_address)?;
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        Some(Stream { interface, sockets, handle, link })
    }

    /// Takes a packet, if there is one. The packets that are to be sent now.
    pub(super) fn poll(&mut self, packet: Option<&[u8]>, now: Duration) -> Vec<Vec<u8>> {
        self.link.arrived = packet.map(<[u8]>::to_vec);
        self.interface.poll(instant(now), &mut self.link, &mut self.sockets);
        std::mem::take(&mut self.link.leaves)
    }

    /// When there may be packets to send again; none if not before the other side says something.
    pub(super) fn next(&mut self, now: Duration) -> Option<Duration> {
        let next = self.interface.poll_at(instant(now), &self.sockets)?;
        let next = Duration::from_micros(u64::try_from(next.total_micros()).unwrap_or(0));
        Some(next.max(now + PAUSE))
    }

    /// The end of it that is here.
    pub(super) fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Whether nothing more has to be said.
    pub(super) fn is_over(&mut self) -> bool {
        matches!(self.socket().state(), State::Closed | State::TimeWait)
    }
}

fn instant(now: Duration) -> Instant {
    Instant::from_micros(i64::try_from(now.as_micros()).unwrap_or(i64::MAX))
}

/// Packets on their way.
#[derive(Default)]
struct Link {
    arrived: Option<Vec<u8>>,
    leaves: Vec<Vec<u8>>,
}

impl Device for Link {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Leaves<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arrived, Leaves<'_>)> {
        Some((Arrived(self.arrived.take()?), Leaves(&mut self.leaves)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Leaves<'_>> {
        Some(Leaves(&mut self.leaves))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        capabilities
    }
}

struct Arrived(Vec<u8>);

impl phy::RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

struct Leaves<'a>(&'a mut Vec<Vec<u8>>);

impl phy::TxToken for Leaves<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut packet = vec![0; length];
        let written = write(&mut packet);
        self.0.push(packet);
        written
    }
}
