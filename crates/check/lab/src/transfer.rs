//! TCP and UDP between machines, by sockets of this process in their namespaces: the network as a machine's stack sees
//! it.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::inside::inside;
use crate::{Error, Lab};

/// How long a connection may take to be established, and how long a working one may be silent.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long nothing arrives before the switches are drained to find missing datagrams.
const LATE: Duration = Duration::from_secs(2);

/// The maximum number of datagrams in flight: more would overflow a socket's buffer while a receiver gets no processor
/// time.
const WINDOW: u32 = 4;

/// The byte at a position of a stream that does not repeat within any packet, so that missing or duplicate data is
/// detected.
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
        let stream = inside(&self.vm(from)?.namespace, || TcpStream::connect_timeout(&address, PATIENCE))?
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

    /// Sends `bytes` over TCP, checks each at the other end, and returns the time taken.
    pub fn transfer(&self, from: &str, to: &str, ip: IpAddr, bytes: u64) -> Result<Duration, Error> {
        let start = Instant::now();
        let transfer = self.spawn_transfer(from, to, ip)?;
        transfer.wait_received(bytes, PATIENCE)?;
        let took = start.elapsed();
        transfer.stop()?;
        Ok(took)
    }

    /// Sends `count` datagrams of `size` bytes of data to address `ip` of `to`, a few at a time, and counts those that
    /// arrive. A datagram is lost if it has not arrived although no frame is in flight.
    pub fn datagrams(
        &self,
        from: &str,
        (to, ip): (&str, IpAddr),
        count: u32,
        size: usize,
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
        let mut exchange = Exchange { size: size.max(4), ..Exchange::default() };
        while exchange.sent < count || exchange.in_flight() > 0 {
            while exchange.sent < count && exchange.in_flight() < WINDOW {
                let datagram = exchange.content(exchange.sent);
                sender.send_to(&datagram, address).map_err(Error::io("send from", from))?;
                exchange.sent += 1;
            }
            if !exchange.receive(&receiver, LATE).map_err(Error::io("receive at", to))? {
                self.drain()?;
                exchange.receive(&receiver, Duration::ZERO).map_err(Error::io("receive at", to))?;
                exchange.lost += exchange.in_flight();
            }
        }
        // A second copy of the last ones may still be in flight.
        self.drain()?;
        exchange.receive(&receiver, Duration::ZERO).map_err(Error::io("receive at", to))?;
        Ok(exchange.result())
    }
}

impl Transfer {
    /// Bytes that have arrived, each checked.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Waits until this many more bytes have arrived.
    pub fn wait_received(&self, bytes: u64, deadline: Duration) -> Result<(), Error> {
        let goal = self.received() + bytes;
        crate::command::wait_for("tcp", &format!("{bytes} bytes"), deadline, || {
            Ok((self.received() >= goal).then_some(()))
        })
    }

    /// Stops sending, waits until all data has arrived, and returns the number of bytes and the longest time without
    /// any. A broken connection or wrong bytes are an error.
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
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        let piece: Vec<u8> = (sent..sent + 16_384).map(byte).collect();
        stream.write_all(&piece)?;
        sent += piece.len() as u64;
    }
    Ok(sent)
}

fn receive(mut stream: TcpStream, received: &AtomicU64) -> std::io::Result<(u64, Duration)> {
    stream.set_read_timeout(Some(PATIENCE))?;
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

/// A receiver's counts of datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagrams {
    /// The number sent.
    pub sent: u32,
    /// The number that arrived.
    pub received: u32,
    /// Copies beyond the first.
    pub duplicates: u32,
    /// The number that arrived truncated or changed.
    pub damaged: u32,
}

/// Datagrams on their way from one socket to another.
#[derive(Default)]
struct Exchange {
    size: usize,
    sent: u32,
    /// Given up.
    lost: u32,
    /// Copies, by number.
    seen: BTreeMap<u32, u32>,
    damaged: u32,
}

impl Exchange {
    fn content(&self, number: u32) -> Vec<u8> {
        let rest = (4..self.size as u64).map(|at| byte(at + u64::from(number)));
        number.to_be_bytes().into_iter().chain(rest).collect()
    }

    fn in_flight(&self) -> u32 {
        self.sent.saturating_sub(self.lost + self.seen.len() as u32)
    }

    /// Reads the datagrams that have arrived, and waits for one if there are none. Returns whether any came before
    /// `deadline`.
    fn receive(&mut self, receiver: &UdpSocket, deadline: Duration) -> std::io::Result<bool> {
        let (start, mut any) = (Instant::now(), false);
        let mut buffer = vec![0; 1 << 16];
        loop {
            match receiver.recv(&mut buffer) {
                Ok(length) => {
                    any = true;
                    self.note(&buffer[..length]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if any || start.elapsed() >= deadline {
                        return Ok(any);
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn note(&mut self, datagram: &[u8]) {
        let number = datagram.first_chunk::<4>().map_or(u32::MAX, |bytes| u32::from_be_bytes(*bytes));
        if number < self.sent && datagram == self.content(number) {
            *self.seen.entry(number).or_default() += 1;
        } else {
            self.damaged += 1;
        }
    }

    fn result(&self) -> Datagrams {
        let duplicates = self.seen.values().map(|copies| copies - 1).sum();
        let (sent, received) = (self.sent, self.seen.len() as u32);
        Datagrams { sent, received, duplicates, damaged: self.damaged }
    }
}
