//! The connection to the client, and the ways in which it can end.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Plain TCP or TLS: a conversation is read and written in turns, so one type does for both.
pub trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

pub fn wire(stream: TcpStream, tls: Option<&Arc<rustls::ServerConfig>>) -> io::Result<Box<dyn Wire>> {
    Ok(match tls {
        None => Box::new(stream),
        Some(config) => {
            let session = rustls::ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
            Box::new(rustls::StreamOwned::new(session, stream))
        }
    })
}

/// Makes the coming close a reset. What was sent has arrived before: a reset throws away
/// whatever still waits in the send buffer, and "reset at byte N" should mean N.
pub fn reset(stream: &TcpStream) {
    wait_until_sent(stream);
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = libc::socklen_t::try_from(size_of::<libc::linger>()).unwrap();
    // SAFETY: the descriptor is open while `stream` lives, and the pointer is to a live
    // `linger` of the size given. A failure only turns the reset into an orderly close.
    unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), size);
    }
}

fn wait_until_sent(stream: &TcpStream) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while unsent(stream) > 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Bytes that the peer has not acknowledged.
fn unsent(stream: &TcpStream) -> libc::c_int {
    let mut count: libc::c_int = 0;
    // SAFETY: SIOCOUTQ (the same number as TIOCOUTQ) writes one int to a live pointer.
    unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    count
}

/// Says nothing until the client gives up or the proxy stops.
pub fn stall(stream: &TcpStream, stopped: &AtomicBool) {
    let _ = stream.set_nonblocking(true);
    let mut byte = [0];
    while !stopped.load(Ordering::Relaxed) {
        match stream.peek(&mut byte) {
            Ok(0) => return,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
