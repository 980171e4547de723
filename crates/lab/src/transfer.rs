//! TCP and UDP between machines, by sockets of this process in their namespaces: what a machine's stack makes of what the
//! network does.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::inside::inside;
use crate::{Error, Lab};

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);

/// A byte stream that does not repeat within any packet, so that what is missing or doubled shows.
fn byte(at: u64) -> u8 {
    (at ^ (at >> 8) ^ (at >> 16).wrapping_mul(31)) as u8
}

/// A TCP connection over which one machine sends to another as fast as it can.
#[derive(Debug)]
pub struct Transfer {
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    sender: Option<JoinHandle<std::io::Result<u64>>>,
    receiver: Option<JoinHandle<std::io::Result<(u64, Duration)>>>,
}

impl Lab {
    /// Connects `from` to address `ip` of `to`, and sends until [`Transfer::stop`].
    pub fn spawn_transfer(&self, from: &str, to: &str, ip: IpAddr) -> Result<Transfer, Error> {
        let listener = inside(&self.vm(to)?.namespace, || TcpListener::bind((ip, 0)))?
            .map_err(Error::io("listen at", to))?;
        let address = listener.local_addr().map_err(Error::io("listen at", to))?;
        let stream = inside(&self.vm(from)?.namespace, || TcpStream::connect_timeout(&address, CONNECT))?
            .map_err(Error::io("connect from", from))?;
        let (accepted, _) = listener.accept().map_err(Error::io("accept at", to))?;
        let (stop, received) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let sender = {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || send(stream, &stop))
        };
        let receiver = {
            let received = Arc::clone(&received);
            std::thread::spawn(move || receive(accepted, &received))
        };
        Ok(Transfer { stop, received, sender: Some(sender), receiver: Some(receiver) })
    }

    /// Sends `bytes` over TCP, checks each at the other end, and says how long that took.
    pub fn transfer(&self, from: &str, to: &str, ip: IpAddr, bytes: u64) -> Result<Duration, Error> {
        let start = Instant::now();
        let transfer = self.spawn_transfer(from, to, ip)?;
        transfer.wait_received(bytes, Duration::from_secs(30))?;
        let took = start.elapsed();
        transfer.stop()?;
        Ok(took)
    }

    /// Sends `count` datagrams of `size` bytes of data to address `ip` of `to`, one each `interval`, and waits for what
    /// arrives until all have, or for `patience` after the last.
    pub fn datagrams(
        &self,
        from: &str,
        (to, ip): (&str, IpAddr),
        count: u32,
        size: usize,
        interval: Duration,
    ) -> Result<Datagrams, Error> {
        let bind = |vm: &str, ip: IpAddr| -> Result<UdpSocket, Error> {
            let socket = inside(&self.vm(vm)?.namespace, || UdpSocket::bind((ip, 0)))?;
            let socket = socket.map_err(Error::io("open a socket at", vm))?;
            socket.set_nonblocking(true).map_err(Error::io("open a socket at", vm))?;
            Ok(socket)
        };
        let own = self.vm(from)?.ips().into_iter().find(|own| own.is_ipv4() == ip.is_ipv4());
        let own =
            own.ok_or_else(|| Error::invalid("virtual machine", from, "it has no address of this family"))?;
        let (sender, receiver) = (bind(from, own)?, bind(to, ip)?);
        let address = receiver.local_addr().map_err(Error::io("receive at", to))?;
        exchange(&sender, &receiver, address, count, size.max(4), interval)
            .map_err(Error::io("receive at", to))
    }
}

impl Transfer {
    /// Bytes that have arrived, each checked.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Waits until so many bytes more than now have arrived.
    pub fn wait_received(&self, bytes: u64, deadline: Duration) -> Result<(), Error> {
        let goal = self.received() + bytes;
        crate::command::wait_for("tcp", &format!("{bytes} bytes"), deadline, || {
            Ok((self.received() >= goal).then_some(()))
        })
    }

    /// Ends sending, waits until all that was sent has arrived, and gives the number of bytes and the longest time in
    /// which none came. A connection that broke, or bytes that are not those sent, are an error.
    pub fn stop(mut self) -> Result<(u64, Duration), Error> {
        self.stop.store(true, Ordering::Relaxed);
        let sent = ended(self.sender.take()).map_err(Error::io("send over", "tcp"))?;
        let (received, gap) = ended(self.receiver.take()).map_err(Error::io("receive over", "tcp"))?;
        if sent != received {
            let detail = format!("{sent} bytes were sent and {received} arrived");
            return Err(Error::Unexpected { place: "tcp".into(), command: "transfer".into(), detail });
        }
        Ok((received, gap))
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn ended<T: Default>(thread: Option<JoinHandle<std::io::Result<T>>>) -> std::io::Result<T> {
    let Some(thread) = thread else { return Ok(T::default()) };
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn send(mut stream: TcpStream, stop: &AtomicBool) -> std::io::Result<u64> {
    stream.set_write_timeout(Some(Duration::from_secs(30)))?;
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        let piece: Vec<u8> = (sent..sent + 16_384).map(byte).collect();
        stream.write_all(&piece)?;
        sent += piece.len() as u64;
    }
    Ok(sent)
}

fn receive(mut stream: TcpStream, received: &AtomicU64) -> std::io::Result<(u64, Duration)> {
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut buffer = vec![0; 65_536];
    let (mut at, mut last, mut gap) = (0_u64, Instant::now(), Duration::ZERO);
    loop {
        let length = stream.read(&mut buffer)?;
        gap = gap.max(last.elapsed());
        last = Instant::now();
        if length == 0 {
            return Ok((at, gap));
        }
        if buffer[..length].iter().zip(at..).any(|(found, at)| *found != byte(at)) {
            return Err(std::io::Error::new(ErrorKind::InvalidData, "bytes arrived that were not sent"));
        }
        at += length as u64;
        received.store(at, Ordering::Relaxed);
    }
}

/// What datagrams came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagrams {
    /// How many were sent.
    pub sent: u32,
    /// How many of them arrived.
    pub received: u32,
    /// How many came again.
    pub duplicates: u32,
    /// How many came that were cut or changed.
    pub damaged: u32,
}

fn exchange(
    sender: &UdpSocket,
    receiver: &UdpSocket,
    to: SocketAddr,
    count: u32,
    size: usize,
    interval: Duration,
) -> std::io::Result<Datagrams> {
    let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
    let mut damaged = 0;
    let mut buffer = vec![0; 1 << 16];
    let content = |number: u32| -> Vec<u8> {
        let rest = (4..size as u64).map(|at| byte(at + u64::from(number)));
        number.to_be_bytes().into_iter().chain(rest).collect()
    };
    let (start, mut sent) = (Instant::now(), 0);
    let patience = Duration::from_secs(2);
    loop {
        if sent < count && start.elapsed() >= interval * sent {
            sender.send_to(&content(sent), to)?;
            sent += 1;
        }
        match receiver.recv(&mut buffer) {
            Ok(length) => {
                let number = buffer.first_chunk::<4>().map_or(u32::MAX, |bytes| u32::from_be_bytes(*bytes));
                if number < sent && buffer[..length] == content(number)[..] {
                    *seen.entry(number).or_default() += 1;
                } else {
                    damaged += 1;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error),
        }
        let complete = sent == count && seen.len() as u32 == count;
        if complete || start.elapsed() > interval * count + patience {
            let duplicates = seen.values().map(|times| times - 1).sum();
            return Ok(Datagrams { sent, received: seen.len() as u32, duplicates, damaged });
        }
    }
}
