//! Hints about the runtime of a node: which it is, who may ask it, and what it does not say.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use super::{advice, computed_advice};
use crate::node::{Setup, name};
use crate::real_start::rootless;
use crate::support::containerd::{Make, Node};
use crate::support::fake_runtime::FakeRuntime;
use crate::support::fixtures;
use crate::support::invocation::{Run, Sandbox, files_under};
use crate::support::skip::{Part, or_skip};

fn node(make: Make) -> Part<Setup> {
    let (node, sandbox) = (Node::kubernetes(make)?, Sandbox::new());
    let cache = sandbox.path("store");
    Ok(Setup { make, node, sandbox, cache })
}

/// The images of the runtime at this socket.
fn list(sandbox: &Sandbox, socket: &Path) -> Run {
    sandbox.underpin(["cache", "ls", "--cri"]).arg(socket).run()
}

#[test]
fn of_a_socket_without_a_runtime() {
    let node = or_skip!(Node::kubernetes(Make::Installed));
    let (sandbox, at) = (Sandbox::new(), "src/store/node/grpc.rs: hint");
    let place = sandbox.path("containerd.sock");
    let run = list(&sandbox, &place).fails("network");
    computed_advice(&run, "name the socket of a runtime that runs on this machine", at).by_hand("name the socket");
    list(&sandbox, &node.socket()).ok();

    // Whoever listened has ended.
    drop(UnixListener::bind(&place).unwrap());
    let run = list(&sandbox, &place).fails("network");
    let written = "nobody listens there, or it is no socket: is the runtime running?";
    computed_advice(&run, written, at).by_hand("is the runtime running?");
    std::fs::remove_file(&place).unwrap();
    symlink(node.socket(), &place).unwrap();
    list(&sandbox, &place).ok();

    // It greets before the connection is made, or after.
    for delay in [0, 300] {
        let other = sandbox.path(&format!("mail-{delay}.sock"));
        let listener = UnixListener::bind(&other).unwrap();
        let mail = std::thread::spawn(move || {
            let mut caller = listener.accept().unwrap().0;
            std::thread::sleep(Duration::from_millis(delay));
            caller.write_all(b"220 mail.example ESMTP\r\n")
        });
        let run = list(&sandbox, &other).fails("network");
        mail.join().unwrap().unwrap();
        let written = "is it the socket of a CRI runtime, such as /run/containerd/containerd.sock?";
        computed_advice(&run, written, at).by_hand("the socket of a CRI runtime");
    }
    list(&sandbox, &node.socket()).ok();
}

#[test]
fn of_a_socket_that_belongs_to_root() {
    or_skip!(rootless::can_start());
    let node = or_skip!(Node::kubernetes(Make::Installed));
    let layouts = rootless::layouts(&fixtures::app("linux/amd64", 10));
    let socket = node.socket().display().to_string();
    let words = ["cache", "ls", "--cri", &socket, "--cache", "kept"];
    let run = rootless::as_user(&layouts, rootless::Lent::No, &words).run().fails("network");
    computed_advice(&run, "the socket belongs to root: run as root", "src/store/node/grpc.rs: hint").by_hand("as root");
    layouts.underpin(&words).run().ok();
}

#[test]
fn of_a_runtime_without_its_interface_for_kubernetes() {
    let without = or_skip!(Node::start());
    let sandbox = Sandbox::new();
    let run = list(&sandbox, &without.socket()).fails("network");
    advice(&run, "containerd has it from 1.6 on, unless its plugin `cri` is disabled").by_hand("its plugin `cri`");
    let with = or_skip!(Node::kubernetes(Make::Installed));
    list(&sandbox, &with.socket()).ok();
}

#[test]
fn of_a_containerd_that_does_not_tell_what_is_pinned() {
    let written = "use containerd 1.6.33, 1.7.3 or newer, or leave --require out to set the pins all the same";
    let old = or_skip!(node(Make::Installed));
    old.import(&name("kept"), 10);
    let pin = ["gc", "--high", "100", "--low", "100", "--pin", "--protect", &name("kept")];
    let require = [&pin[..], &["--require"]].concat();
    let run = old.run(&require).refused();
    advice(&run, written).by_hand("leave --require out");
    assert!(old.run(&pin).ok().stdout.contains(&name("kept")));
    let new = or_skip!(node(Make::Newer));
    new.import(&name("kept"), 10);
    assert!(new.run(&require).ok().stdout.contains(&name("kept")));
}

#[test]
fn of_a_record_of_a_node_that_is_damaged() {
    let setup = or_skip!(node(Make::Installed));
    let collect = || setup.run(&["gc", "--high", "100", "--low", "100"]);
    collect().ok();
    let record = files_under(&setup.cache.join("nodes")).remove(0);
    std::fs::write(&record, "{").unwrap();
    let run = collect().fails("integrity");
    let verify = advice(&run, "{} removes it; the times of use of the node's images are lost").command(&[]);
    setup.sandbox.underpin(verify).run().refused();
    assert!(!record.exists());
    collect().ok();
}

#[test]
fn of_a_runtime_that_says_less_than_containerd() {
    let sandbox = Sandbox::new();
    let collect = |runtime: &FakeRuntime, words: &[&str]| {
        sandbox.underpin(["cache", "gc"]).args(words).arg("--cri").arg(runtime.socket()).run()
    };
    let nowhere = FakeRuntime::start(None, Some(10));
    let run = collect(&nowhere, &["--high", "90", "--low", "80"]).fails("input");
    advice(&run, "set the largest size of the images instead: --max-size").by_hand("--max-size");
    collect(&nowhere, &["--max-size", "1GiB"]).ok();

    let unknown = FakeRuntime::start(Some("/"), None);
    let run = collect(&unknown, &["--max-size", "1GiB"]).fails("input");
    advice(&run, "use --high and --low, or --max-age").by_hand("--high and --low");
    collect(&unknown, &["--high", "90", "--low", "80"]).ok();
    collect(&unknown, &["--max-age", "1h"]).ok();

    let other = FakeRuntime::start(Some("/"), Some(10));
    let protect = ["--high", "100", "--low", "100", "--protect", "a.io/app:v1"];
    let run = collect(&other, &[&protect[..], &["--pin"]].concat()).fails("input");
    advice(&run, "CRI-O pins the `pinned_images` of its own configuration; run without --pin").by_hand("without --pin");
    collect(&other, &protect).ok();
}
