//! A registry that is far away, for `scripts/bench`: every byte of an answer arrives later by so many milliseconds, as
//! fast as before. `cargo run --package underpin-scripts --bin delaying-proxy -- LISTEN-HOST:PORT REGISTRY-HOST:PORT MILLISECONDS`

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [listen, registry, delay] = words.as_slice() else {
        return Err("usage: delaying-proxy LISTEN REGISTRY MS".into());
    };
    let delay = Duration::from_millis(delay.parse()?);
    for client in TcpListener::bind(listen)?.incoming() {
        let client = client?;
        let registry = TcpStream::connect(registry)?;
        client.set_nodelay(true)?;
        registry.set_nodelay(true)?;
        let (mut asks, mut asked) = (client.try_clone()?, registry.try_clone()?);
        thread::spawn(move || {
            // Whoever has gone away ends it.
            let _ = std::io::copy(&mut asks, &mut asked);
            let _ = asked.shutdown(Shutdown::Write);
        });
        answer_late(registry, client, delay);
    }
    Ok(())
}

/// Passes on what the registry says, each piece at its time.
fn answer_late(mut registry: TcpStream, mut client: TcpStream, delay: Duration) {
    let (pieces, due) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut piece = vec![0; 64 << 10];
        while let Ok(read @ 1..) = registry.read(&mut piece) {
            if pieces.send((Instant::now() + delay, piece.iter().take(read).copied().collect())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (at, piece) in due {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            if client.write_all(&piece).is_err() {
                return;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
    });
}
