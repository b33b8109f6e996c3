//! The merge against a model of it, on stacks of layers in which everything meets everything.

mod model;

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::testing::{entry, layer, path};
use super::{NotFoundReason, Root, merge};
use layer::{Entry, EntryKind, LayerIndex};
use model::{Item, PathNames, modelled, names, text};

/// Few names, so that everything meets everything.
fn written() -> impl Strategy<Value = String> {
    vec(prop_oneof![Just("a"), Just("b"), Just("c"), Just("a-")], 1..4).prop_map(|names| names.join("/"))
}

fn target() -> impl Strategy<Value = String> {
    let names = vec(prop_oneof![3 => Just("a"), 2 => Just("b"), 1 => Just("c"), 2 => Just(".."), 1 => Just(".")], 1..4);
    (prop_oneof![Just(""), Just("/")], names).prop_map(|(slash, names)| format!("{slash}{}", names.join("/")))
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let kind = prop_oneof![
        4 => Just(EntryKind::File { size: 1 }),
        4 => Just(EntryKind::Directory),
        4 => target().prop_map(|target| EntryKind::Symlink(target.into_bytes())),
        3 => written().prop_map(|target| EntryKind::Hardlink(path(target))),
        1 => Just(EntryKind::Fifo),
        3 => Just(EntryKind::Whiteout),
        2 => Just(EntryKind::Opaque),
    ];
    (written(), kind).prop_map(|(at, kind)| entry(at, kind))
}

fn stack() -> impl Strategy<Value = Vec<Vec<Entry>>> {
    vec(vec(any_entry(), 0..8), 1..5)
}

/// The root in the model's terms.
fn items(root: &Root<'_>) -> BTreeMap<PathNames, Item> {
    let item = |node: &super::FileNode<'_>| Item {
        from: node.source().map(|source| (source.layer(), source.position())),
        kind: node.kind().clone(),
    };
    root.entries().map(|(path, node)| (names(&text(&path)), item(node))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_merge_equals_its_model(stack in stack()) {
        let layers: Vec<LayerIndex> = stack.into_iter().map(layer).collect();
        let (root, model) = (merge(&layers), modelled(&layers));
        prop_assert_eq!(items(&root), model.items);
        let unapplied = root.issues().iter().filter(|odd| !odd.kind.is_applied());
        prop_assert_eq!(unapplied.count(), model.unapplied);
        prop_assert!(root.entries().map(|(path, _)| path).is_sorted());
    }

    #[test]
    fn a_path_leads_where_the_model_says(stack in stack(), asked in written()) {
        let layers: Vec<LayerIndex> = stack.into_iter().map(layer).collect();
        let (root, model) = (merge(&layers), modelled(&layers));
        let mut links = 0;
        match (root.resolve(&path(&asked)), model.resolve(&names(&asked), &mut links)) {
            (Ok(resolved), Some(at)) => {
                prop_assert_eq!(names(&text(&resolved.path)), at);
                prop_assert_eq!(resolved.links.len(), links);
            }
            (Err(lost), None) => prop_assert_eq!(lost.candidates[0].reason == NotFoundReason::Loop, links > 40),
            (ours, models) => prop_assert!(false, "{ours:?} is not {models:?}"),
        }
    }
}
