//! Sockets of machines: TCP connections, datagrams, and numbered ones in both directions while other things happen.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::Lab;
use testbed::DEADLINE;

use super::support::wait_for;

/// How long a connection is tried that must not open. One that may open takes a few milliseconds.
const IN_VAIN: Duration = Duration::from_millis(300);

/// The least time between two datagrams of one direction.
const EVERY: Duration = Duration::from_millis(1);
/// The most datagrams of one direction on their way. The kernel keeps 208 KiB of frames for a switch that a busy machine does not run, which
/// is less than 300 datagrams, and drops the others: no fault of what is tested.
const ON_THEIR_WAY: u32 = 8;
/// So many datagrams in a row that do not arrive mean that none arrives any more.
const ROW: usize = 20;
/// So many datagrams are sent afterwards to be sure.
const AFTERWARDS: usize = 100;

/// A TCP connection: the ends of who began it and of who accepted it.
pub(crate) fn connect(lab: &Lab, from: &str, (to, address): (&str, SocketAddr)) -> [TcpStream; 2] {
    let listener = lab.inside(to, || TcpListener::bind(address)).unwrap().unwrap();
    let began = lab.inside(from, || TcpStream::connect_timeout(&address, DEADLINE)).unwrap().unwrap();
    let accepted = listener.accept().unwrap().0;
    for stream in [&began, &accepted] {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
    }
    [began, accepted]
}

/// Nobody gets a connection to the address, nor does anything of it arrive.
#[track_caller]
pub(crate) fn cannot_connect(lab: &Lab, from: &str, (to, address): (&str, SocketAddr)) {
    let listener = lab.inside(to, || TcpListener::bind(address)).unwrap().unwrap();
    listener.set_nonblocking(true).unwrap();
    let connected = lab.inside(from, || TcpStream::connect_timeout(&address, IN_VAIN)).unwrap();
    assert_eq!(connected.unwrap_err().kind(), ErrorKind::TimedOut, "{from} to {address}");
    lab.drain().unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "{from} to {address}");
}

/// Data passes from one end to the other.
pub(crate) fn passes(from: &mut TcpStream, to: &mut TcpStream) {
    let data: Vec<u8> = (0..50_000_u32).map(|n| (n ^ n >> 8) as u8).collect();
    let mut read = vec![0; data.len()];
    std::thread::scope(|scope| {
        scope.spawn(|| from.write_all(&data).unwrap());
        to.read_exact(&mut read).unwrap();
    });
    assert!(read == data, "other bytes arrived than were sent");
}

/// Nothing arrives at this end.
#[track_caller]
pub(crate) fn is_silent(lab: &Lab, stream: &mut TcpStream) {
    lab.drain().unwrap();
    stream.set_nonblocking(true).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
}

/// A socket of a machine, which waits for nothing.
pub(crate) fn socket(lab: &Lab, vm: &str, ip: IpAddr, port: u16) -> UdpSocket {
    let socket = lab.inside(vm, || UdpSocket::bind((ip, port))).unwrap().unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// The next datagram, once it has come.
pub(crate) fn came(socket: &UdpSocket) -> Vec<u8> {
    wait_for("a datagram", || next(socket))
}

/// Nothing has come when everything in flight has arrived.
#[track_caller]
pub(crate) fn nothing_came(lab: &Lab, socket: &UdpSocket) {
    lab.drain().unwrap();
    let found = next(socket);
    assert!(found.is_none(), "{:?} got {found:?}", socket.local_addr());
}

/// The next datagram, if one has come.
pub(crate) fn next(socket: &UdpSocket) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 1 << 16];
    match socket.recv(&mut buffer) {
        Ok(length) => {
            buffer.truncate(length);
            Some(buffer)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("cannot receive at {:?}: {error}", socket.local_addr()),
    }
}

/// Numbered datagrams both ways between a socket that asks, number 0, and one that answers, number 1.
pub(crate) struct Talk {
    ends: [(UdpSocket, SocketAddr); 2],
    /// How many each end has sent.
    pub(crate) sent: [u32; 2],
    /// The numbers that arrived of those that each end has sent.
    heard: [BTreeSet<u32>; 2],
}

impl Talk {
    /// Sockets at machines, addresses and ports; nothing is sent yet.
    pub(crate) fn new(lab: &Lab, asks: (&str, IpAddr, u16), answers: (&str, IpAddr, u16)) -> Talk {
        let ends = [asks, answers].map(|(vm, ip, port)| {
            let socket = socket(lab, vm, ip, port);
            let address = socket.local_addr().unwrap();
            (socket, address)
        });
        Talk { ends, sent: [0; 2], heard: [BTreeSet::new(), BTreeSet::new()] }
    }

    /// Asks until there has been an answer.
    pub(crate) fn begin(&mut self) {
        for who in [0, 1] {
            let before = self.sent[who];
            wait_for("a datagram", || {
                self.speak(who);
                self.hear();
                self.heard[who].range(before..).next().map(drop)
            });
        }
        // What was lost before, for instance while a neighbour was unknown, does not count.
        for who in [0, 1] {
            self.heard[who].extend(0..self.sent[who]);
        }
    }

    /// An end sends the next datagram.
    fn speak(&mut self, who: usize) {
        let number = self.sent[who].to_be_bytes();
        self.ends[who].0.send_to(&number, self.ends[1 - who].1).unwrap();
        self.sent[who] += 1;
    }

    /// Both ends read what has come.
    fn hear(&mut self) {
        for who in [0, 1] {
            while let Some(datagram) = next(&self.ends[1 - who].0) {
                let number = u32::from_be_bytes(datagram.try_into().expect("a number"));
                assert!(self.heard[who].insert(number) || number < self.sent[who], "{number} was never sent");
            }
        }
    }

    /// Whether most of what these ends have sent has arrived.
    fn is_heard(&self, who: &[usize]) -> bool {
        who.iter().all(|who| {
            let next = self.heard[*who].last().map_or(0, |last| last + 1);
            self.sent[*who] - next < ON_THEIR_WAY
        })
    }

    /// The numbers of datagrams that have not arrived, by sender.
    pub(crate) fn lost(&mut self) -> [Vec<u32>; 2] {
        self.hear();
        [0, 1].map(|who| (0..self.sent[who]).filter(|number| !self.heard[who].contains(number)).collect())
    }

    /// How many have arrived, by sender.
    pub(crate) fn heard_count(&mut self) -> [usize; 2] {
        self.hear();
        [0, 1].map(|who| self.heard[who].len())
    }

    /// What these ends send no longer arrives from some moment before `deadline` on.
    #[track_caller]
    pub(crate) fn is_cut(&mut self, lab: &Lab, who: &[usize], deadline: Instant) {
        let row = |talk: &mut Talk, length: usize| {
            let before = talk.heard_count();
            for _ in 0..length {
                for who in who {
                    talk.speak(*who);
                }
            }
            lab.drain().unwrap();
            talk.heard_count() == before
        };
        loop {
            let began = Instant::now();
            assert!(began < deadline, "datagrams of {who:?} still arrive");
            if row(self, ROW) {
                break;
            }
        }
        assert!(row(self, AFTERWARDS), "datagrams of {who:?} arrive again");
    }
}

/// Ends the thread that talks, also when the work panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does something while these ends of these talks send a datagram every millisecond, as long as those of the first talk arrive.
pub(crate) fn during(talks: &mut [(&mut Talk, &[usize])], work: impl FnOnce()) {
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stopped.load(Ordering::Relaxed) {
                if talks.first().is_some_and(|(talk, who)| talk.is_heard(who)) {
                    for (talk, who) in &mut *talks {
                        for who in *who {
                            talk.speak(*who);
                        }
                    }
                }
                std::thread::sleep(EVERY);
                for (talk, _) in &mut *talks {
                    talk.hear();
                }
            }
        });
        let _stop = Stop(&stopped);
        work();
    });
}
