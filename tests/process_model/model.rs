//! What the model says of a pair, in the same terms.

use std::collections::BTreeMap;
use std::sync::Mutex;

use layer::{LayerIndex, Limits, RootPath, scan};
use oci::{Config, Descriptor, DiffId};
use serde_json::Value;
use start::rootfs::{Credentials, Root, merge};
use underpin::process::{ChainEnd, Container, Executed, Role, Start, StartDirectoryState, start};

use crate::pair::{Observed, Outcome, Pair, Stage};

pub fn outcome(pair: &Pair) -> Outcome {
    let image = pair.image();
    let manifest = image.top.json();
    let blob = |descriptor: &Value| image.blob(descriptor["digest"].as_str().unwrap()).to_vec();
    let config = Config::read(blob(&manifest["config"])).unwrap();
    let layers = manifest["layers"].as_array().unwrap().iter().zip(config.diff_ids());
    let indexes: Vec<LayerIndex> = layers.map(|(layer, diff_id)| index(layer, diff_id, &blob(layer))).collect();
    let (container, root) = (Container::of(&config), merge(&indexes));
    told(pair, &start(&container, &root), &container, &root)
}

/// Made once for each layer.
fn index(layer: &Value, diff_id: &DiffId, blob: &[u8]) -> LayerIndex {
    static MADE: Mutex<BTreeMap<String, LayerIndex>> = Mutex::new(BTreeMap::new());
    let descriptor = Descriptor::read(layer, "layer").unwrap();
    let made = MADE.lock().unwrap().get(&diff_id.to_string()).cloned();
    made.unwrap_or_else(|| {
        let index = scan(blob, &descriptor, Some(diff_id), &Limits::default()).unwrap();
        MADE.lock().unwrap().insert(diff_id.to_string(), index.clone());
        index
    })
}

fn told(pair: &Pair, start: &Start, container: &Container, root: &Root<'_>) -> Outcome {
    if let Err(unknown) = &start.user {
        return Outcome::Fails(Stage::User, format!("{unknown:?}"));
    }
    if let StartDirectoryState::Blocked(why) = &start.working_dir.state {
        return Outcome::Fails(Stage::WorkingDir, why.clone());
    }
    if let Some(entry) = &start.bad_variable {
        return Outcome::Fails(Stage::Exec, format!("the variable {entry:?} has no name or no value"));
    }
    match last(start) {
        // The platform is the image's; policy compares it with the machine that the model names.
        Ok(program) if program.program.as_ref().is_some_and(|it| it.machine.as_deref() != Some("amd64")) => {
            Outcome::Fails(stage(start), format!("{:?}", program.program.as_ref().unwrap().machine))
        }
        Ok(program) => Outcome::Runs(Box::new(observed(pair, start, program, container, root))),
        Err(why) => Outcome::Fails(stage(start), why),
    }
}

/// The program that speaks.
fn last(start: &Start) -> Result<&Executed, String> {
    match &start.end {
        ChainEnd::Runs => start.program().ok_or_else(|| "no program".to_owned()),
        // A script may run anything that it names, so all of that must be there.
        ChainEnd::Shell(script) if script.is_read => {
            let is_there = |word: &&String| start.chain.iter().any(|executed| executed.word == **word);
            match script.used.commands.iter().find(|word| !is_there(word)) {
                Some(lost) => Err(format!("{lost} of the script is not there")),
                None => start.chain.iter().rfind(|one| one.role == Role::Called).ok_or_else(|| format!("{script:?}")),
            }
        }
        end => Err(format!("{end:?}")),
    }
}

/// Where a chain that ends early does: the runtime's own call goes as far as the first that is no script.
fn stage(start: &Start) -> Stage {
    let is_behind = start.chain.iter().any(|executed| matches!(executed.role, Role::Wrapper | Role::Interpreter));
    if is_behind { Stage::Behind } else { Stage::Exec }
}

fn observed(pair: &Pair, start: &Start, program: &Executed, container: &Container, root: &Root<'_>) -> Observed {
    let user = &start.last_user.as_ref().unwrap().credentials;
    let mut groups = user.groups.clone();
    groups.sort_unstable();
    Observed {
        uid: user.uid.to_string(),
        gid: user.gid.to_string(),
        groups: groups.iter().map(u64::to_string).collect(),
        cwd: pair.goes_to.map_or_else(|| directory(container, root), str::to_owned),
        env: environment(pair, start),
        exe: program.path.to_string(),
    }
}

fn environment(pair: &Pair, start: &Start) -> Vec<(String, String)> {
    let is_changed = |name: &str| pair.changes.iter().any(|(changed, _)| *changed == name || *changed == "*");
    let kept = start.environment.iter().filter(|(name, _)| !is_changed(name)).cloned();
    let set = pair.changes.iter().filter_map(|(name, value)| Some(((*name).to_owned(), (*value)?.to_owned())));
    let mut all: Vec<(String, String)> = kept.chain(set).collect();
    all.sort();
    all
}

/// Where the process is: what is there is resolved, and the runtime makes the rest.
fn directory(container: &Container, root: &Root<'_>) -> String {
    let from = RootPath::root();
    if let Ok(found) = root.resolve_as(container.text("WorkingDir"), &from, &Credentials::default()) {
        return found.path.to_string();
    }
    let text = container.working_dir().to_string();
    let names: Vec<&str> = text.split('/').filter(|name| !name.is_empty()).collect();
    for there in (0..=names.len()).rev() {
        let upper = RootPath::new(names[..there].join("/")).unwrap();
        if let Ok(found) = root.resolve(&upper) {
            let made = names[there..].iter().fold(String::new(), |made, name| made + "/" + name);
            return if found.path.is_root() && !made.is_empty() { made } else { format!("{}{made}", found.path) };
        }
    }
    text
}
