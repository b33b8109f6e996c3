//! Whatever is in doubt stops it before the first removal.

use std::os::unix::net::UnixListener;

use super::setup::{name, on_each};
use crate::support::containerd::Node;
use crate::support::invocation::{Sandbox, files_under};
use crate::support::skip::or_skip;

#[test]
fn a_list_or_a_record_that_cannot_be_read_stops_it() {
    on_each(|setup| {
        setup.import(&name("app"), 10);
        let gc = ["gc", "--high", "0", "--low", "0", "--min-age", "0s"];
        setup.run(&[&gc[..], &["--protect-file", "/no/such/list"]].concat()).fails("input");
        setup.run(&[&gc[..], &["--protect", "regex:("]].concat()).fails("input");
        assert!(!setup.cache.exists());
        setup.run(&["gc", "--high", "100", "--low", "100"]).ok();
        let record = files_under(&setup.cache.join("nodes")).remove(0);
        let sound = std::fs::read(&record).unwrap();
        std::fs::write(&record, &sound[1..]).unwrap();
        setup.run(&gc).fails("integrity").says("cache verify");
        setup.run(&["ls"]).fails("integrity");
        assert_eq!(setup.listed(), [name("app")]);
        let verify = setup.sandbox.underpin(["cache", "verify", "--cache"]).arg(&setup.cache).run().refused();
        assert!(verify.stdout.contains(record.to_str().unwrap()) && !record.exists(), "{verify}");
        std::fs::create_dir(setup.cache.join("nodes/v2")).unwrap();
        setup.run(&gc).fails("input").says("another version");
        assert_eq!(setup.listed(), [name("app")]);
        std::fs::remove_dir(setup.cache.join("nodes/v2")).unwrap();
        setup.run(&gc).ok();
        assert_eq!(setup.listed(), Vec::<String>::new());
    });
}

#[test]
fn an_endpoint_without_a_runtime_is_named() {
    let sandbox = Sandbox::new();
    let gc = |endpoint: &str| sandbox.underpin(["cache", "gc", "--cri", endpoint]).run();
    let at = |file: &str| sandbox.path(file).display().to_string();
    gc(&at("none")).fails("network").says(&format!("unix://{}", at("none"))).says("name the socket");
    std::fs::write(at("file"), "").unwrap();
    gc(&at("file")).fails("network").says(&at("file")).says("no socket");
    // Somebody listens, and speaks something else.
    let listener = UnixListener::bind(at("other")).unwrap();
    let other = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut socket, b"220 mail.example ESMTP\r\n").unwrap();
    });
    gc(&at("other")).fails("network").says(&at("other"));
    other.join().unwrap();
    for endpoint in ["tcp://127.0.0.1:1", "run/containerd.sock", "unix://run/x", ""] {
        let run = gc(endpoint);
        assert_eq!(run.code(), Some(2), "{run}");
        run.says("unix:///");
    }
    for args in [&["gc", "--pin"][..], &["verify", "--cri", "/x"]] {
        assert_eq!(sandbox.underpin(["cache"]).args(args).run().code(), Some(2), "{args:?}");
    }
    let homeless = sandbox.underpin(["cache", "gc", "--cri", "/x"]).env("HOME", "").env("XDG_CACHE_HOME", "");
    homeless.run().fails("usage").says("--cache DIR");
    assert!(!sandbox.path("xdg-cache").exists(), "nothing was written");
}

#[test]
fn containerd_without_cri_is_named() {
    let node = or_skip!(Node::start());
    let sandbox = Sandbox::new();
    let endpoint = format!("unix://{}", node.socket().display());
    let run = sandbox.underpin(["cache", "ls", "--cri", &endpoint]).run().fails("network");
    run.says(&endpoint).says("no container runtime interface").says("plugin `cri`");
}
