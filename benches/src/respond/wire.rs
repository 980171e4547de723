//! Frames of a machine, sent and received without its IP stack, so that answers of all kinds take the same way.

use std::io::Error;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use lab::Lab;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, recv, recvfrom, send, setsockopt,
    socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike as _};

/// An answer that takes longer is lost.
pub(crate) const PATIENCE: Duration = Duration::from_millis(200);
/// `PACKET_OUTGOING` of packet(7): a frame that the machine itself sends.
const OUTGOING: u8 = 4;

/// A raw socket at a machine's eth0.
pub(crate) struct Wire {
    socket: OwnedFd,
}

impl Wire {
    /// For questions and answers.
    pub(crate) fn open(lab: &Lab, machine: &str) -> Result<Wire> {
        Wire::of(lab, machine, Some(SockProtocol::EthAll))
    }

    /// For frames to which nobody listens.
    pub(crate) fn sending(lab: &Lab, machine: &str) -> Result<Wire> {
        Wire::of(lab, machine, None)
    }

    fn of(lab: &Lab, machine: &str, protocol: Option<SockProtocol>) -> Result<Wire> {
        let socket = lab.inside(machine, || raw(protocol))?;
        Ok(Wire { socket: socket.map_err(Error::from).context("a machine's raw socket")? })
    }

    /// Sends a frame. Whether there was room for it.
    pub(crate) fn send(&self, frame: &[u8]) -> Result<bool> {
        match send(self.socket.as_raw_fd(), frame, MsgFlags::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::ENOBUFS | Errno::EAGAIN) => Ok(false),
            Err(error) => Err(error).context("cannot send a frame"),
        }
    }

    /// Sends a frame and waits for its answer.
    pub(crate) fn ask(&self, frame: &[u8], is_answer: impl Fn(&[u8]) -> bool) -> Result<Option<Duration>> {
        let fd = self.socket.as_raw_fd();
        let mut buffer = [0; 2048];
        // What has come since the last question.
        while recv(fd, &mut buffer, MsgFlags::MSG_DONTWAIT).is_ok() {}
        let begun = Instant::now();
        self.send(frame)?;
        while begun.elapsed() < PATIENCE {
            match recvfrom::<LinkAddr>(fd, &mut buffer) {
                Ok((length, from)) => {
                    let elapsed = begun.elapsed();
                    let is_own = from.is_some_and(|from| from.pkttype() == OUTGOING);
                    if !is_own && buffer.get(..length).is_some_and(&is_answer) {
                        return Ok(Some(elapsed));
                    }
                }
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(error) => return Err(error).context("cannot receive a frame"),
            }
        }
        Ok(None)
    }
}

fn raw(protocol: Option<SockProtocol>) -> nix::Result<OwnedFd> {
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::milliseconds(PATIENCE.as_millis() as i64))?;
    lab::bind_to_eth0(&socket)?;
    Ok(socket)
}
