//! Raw frames: sent as bytes from a machine, and counted at every machine that receives them.
//!
//! A tap is a raw socket at a machine's eth0. It sees every frame that reaches the device, whatever its destination
//! address, before the machine's stack accepts or drops it, and no frame that the machine sends; so it counts exactly the
//! delivered frames. It does not see VLAN tags, because the kernel removes them. Machines behind tags have separate taps.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recvfrom, send, setsockopt,
    socket, sockopt,
};

use crate::cleanup::vswitches;
use crate::drain::drain;
use crate::inside::inside;
use crate::{Error, Lab, Vswitch, frame};

/// `PACKET_OUTGOING` of packet(7): a frame that the machine itself sends.
const OUTGOING: u8 = 4;

/// The buffer for frames that arrive faster than they are read, in bytes.
const BUFFER: usize = 8 << 20;

/// The machines that received frames, with the frames in order of arrival. Machines without frames are absent.
pub type Arrived = BTreeMap<String, Vec<Vec<u8>>>;

/// How long to wait for expected copies.
const DEADLINE: Duration = Duration::from_secs(5);

/// Raw sockets at machines' eth0.
#[derive(Debug)]
pub struct Taps {
    sockets: BTreeMap<String, OwnedFd>,
    /// All switches of the lab, to detect when no frame is in flight.
    switches: Vec<Vswitch>,
}

impl Lab {
    /// Taps at these machines.
    pub fn taps(&self, vms: &[&str]) -> Result<Taps, Error> {
        let mut sockets = BTreeMap::new();
        for vm in vms {
            let opened = inside(&self.vm(vm)?.namespace, open)?;
            let socket = opened.map_err(|error| Error::io("open a raw socket at", *vm)(error.into()))?;
            sockets.insert((*vm).to_owned(), socket);
        }
        Ok(Taps { sockets, switches: vswitches(&self.state()?) })
    }

    /// Announces a machine as QEMU does when a migration has ended: see [`frame::announcement`].
    pub fn announce(&self, vm: &str) -> Result<(), Error> {
        let mac = frame::mac(&self.vm(vm)?.mac)?;
        self.taps(&[vm])?.send(vm, &frame::announcement(mac))
    }

    /// Taps at all machines.
    pub fn all_taps(&self) -> Result<Taps, Error> {
        let vms = self.vms()?;
        self.taps(&vms.iter().map(|vm| vm.name.as_str()).collect::<Vec<_>>())
    }
}

fn open() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)?;
    // More than the system's limit, which root may exceed; the daemon's bursts must not be lost here.
    setsockopt(&socket, sockopt::RcvBufForce, &BUFFER)?;
    bind_to_eth0(&socket)?;
    Ok(socket)
}

/// Binds a packet socket to eth0 of the network namespace of this thread, as [`Lab::inside`] enters that of a machine.
///
/// # Errors
/// There is no eth0, or the socket cannot be bound.
pub fn bind_to_eth0(socket: &OwnedFd) -> nix::Result<()> {
    let device = nix::ifaddrs::getifaddrs()?
        .filter(|device| device.interface_name == "eth0")
        .find_map(|device| device.address?.as_link_addr().copied())
        .ok_or(Errno::ENODEV)?;
    bind(socket.as_raw_fd(), &device)
}

impl Taps {
    /// Sends a frame, from the destination's address to the last byte before the checksum, from a machine's eth0.
    pub fn send(&self, vm: &str, frame: &[u8]) -> Result<(), Error> {
        let socket = self.sockets.get(vm).ok_or_else(|| no_tap(vm))?;
        let sent = send(socket.as_raw_fd(), frame, MsgFlags::empty());
        sent.map(drop).map_err(|error| Error::io("send a frame from", vm)(error.into()))
    }

    /// Forgets what has arrived so far.
    pub fn clear(&self) -> Result<(), Error> {
        self.read(|_| false, &mut Arrived::new())
    }

    /// The `wanted` frames at every tap, once `copies` of them have arrived; fewer if that takes longer than `deadline`.
    pub fn first(
        &self,
        wanted: impl Fn(&[u8]) -> bool,
        copies: usize,
        deadline: Duration,
    ) -> Result<Arrived, Error> {
        let mut arrived = Arrived::new();
        let start = Instant::now();
        loop {
            self.read(&wanted, &mut arrived)?;
            if arrived.values().map(Vec::len).sum::<usize>() >= copies || start.elapsed() > deadline {
                return Ok(arrived);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// All `wanted` frames at every tap: waits until `copies` of them have arrived or `deadline` has passed, and then
    /// until no frame is in flight, so that a surplus copy is seen.
    pub fn collect(
        &self,
        wanted: impl Fn(&[u8]) -> bool,
        copies: usize,
        deadline: Duration,
    ) -> Result<Arrived, Error> {
        let mut arrived = self.first(&wanted, copies, deadline)?;
        drain(&self.switches)?;
        self.read(&wanted, &mut arrived)?;
        Ok(arrived)
    }

    /// Sends a frame from a machine and counts all copies of it, recognised by `mark`, a part of it. Waits some seconds
    /// if there are fewer than `expected`.
    pub fn copies(
        &self,
        from: &str,
        frame: &[u8],
        mark: &[u8],
        expected: usize,
    ) -> Result<BTreeMap<String, usize>, Error> {
        self.clear()?;
        self.send(from, frame)?;
        // An ICMP error of a receiver quotes the frame, but has another sender.
        let sender = frame.get(6..12);
        let copy = |found: &[u8]| {
            found.get(6..12) == sender && found.windows(mark.len()).any(|window| window == mark)
        };
        let arrived = self.collect(copy, expected, DEADLINE)?;
        Ok(arrived.into_iter().map(|(vm, frames)| (vm, frames.len())).collect())
    }

    fn read(&self, wanted: impl Fn(&[u8]) -> bool, arrived: &mut Arrived) -> Result<(), Error> {
        let mut buffer = vec![0; 1 << 16];
        for (vm, socket) in &self.sockets {
            loop {
                match recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut buffer) {
                    Ok((length, from)) => {
                        let outgoing = from.is_some_and(|from| from.pkttype() == OUTGOING);
                        if !outgoing && wanted(&buffer[..length]) {
                            arrived.entry(vm.clone()).or_default().push(buffer[..length].to_vec());
                        }
                    }
                    Err(Errno::EAGAIN) => break,
                    Err(Errno::EINTR) => {}
                    Err(error) => return Err(Error::io("read frames at", vm)(error.into())),
                }
            }
        }
        Ok(())
    }
}

fn no_tap(vm: &str) -> Error {
    Error::invalid("virtual machine", vm, "there is no tap at it")
}
