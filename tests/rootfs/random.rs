//! Random stacks of layers, with few names, so that everything meets everything: where umoci
//! unpacks one, we have the same root, and where it gives up, we say that something is odd.

use fastrand::Rng;
use start::rootfs::merge;

use crate::layout::Layout;
use crate::skip::or_skip;
use crate::sweep;
use crate::tarball::{Kind, Member, tar};
use crate::{can_run, compare, disk};

fn path(rng: &mut Rng) -> String {
    let names: Vec<&str> = (0..rng.usize(1..4)).map(|_| *rng.choice(&["a", "b", "c", "a-"]).unwrap()).collect();
    names.join("/")
}

fn target(rng: &mut Rng) -> String {
    let names: Vec<&str> = (0..rng.usize(1..4)).map(|_| *rng.choice(&["a", "b", "c", "..", "."]).unwrap()).collect();
    format!("{}{}", rng.choice(&["", "/"]).unwrap(), names.join("/"))
}

fn member(rng: &mut Rng, number: u32) -> Member {
    let path = path(rng);
    let kind = match rng.u32(0..24) {
        0..5 => Kind::File,
        5..12 => Kind::Folder,
        12..15 => Kind::Symlink(target(rng)),
        // A link to itself is refused before it comes to a root.
        15 => match self::path(rng) {
            target if target == path => Kind::File,
            target => Kind::Hardlink(target),
        },
        16 => Kind::Fifo,
        17 => Kind::Device(1, 3),
        18..22 => Kind::Whiteout,
        _ => Kind::Opaque,
    };
    Member { path, kind, number }
}

fn stack(rng: &mut Rng) -> Vec<Vec<Member>> {
    let mut number = 0;
    let mut layer = |rng: &mut Rng| {
        let members = (0..rng.usize(1..7)).map(|_| {
            number += 1;
            member(rng, number)
        });
        members.collect()
    };
    (0..rng.usize(1..4)).map(|_| layer(rng)).collect()
}

#[test]
fn random_layers_make_the_root_that_umoci_unpacks() {
    or_skip!(can_run(&["umoci"]));
    let mut given_up = 0;
    let stacks = sweep::times(40, 120);
    for seed in 0..stacks {
        let stack = stack(&mut Rng::with_seed(seed));
        let layout = Layout::new();
        for members in &stack {
            layout.add_bytes(&tar(members));
        }
        let indexes = layout.indexes();
        let root = merge(&indexes);
        let unapplied = root.issues().iter().find(|odd| !odd.kind.is_applied());
        match (layout.unpack(), unapplied) {
            (Ok(unpacked), None) => {
                compare(&format!("stack {seed} {stack:#?}"), &root, &disk::unpacked(&unpacked));
            }
            (Err(_), Some(_)) => given_up += 1,
            (Ok(_), Some(odd)) => panic!("stack {seed}: umoci takes {odd}: {stack:#?}"),
            (Err(error), None) => panic!("stack {seed}: umoci does not take it: {error} {stack:#?}"),
        }
    }
    assert!((1..stacks / 2).contains(&given_up), "{given_up} of {stacks} stacks were given up");
}
