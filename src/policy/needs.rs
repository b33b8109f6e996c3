//! The rules about what else the application runs or loads: tools, libraries, other programs.

use crate::elf::{Linkage, ShownBy};
use crate::process::{Absent, Helper, Start, Startup};

use crate::rules::{Finding, Level, Rule};

pub(super) fn judge(startup: &Startup) -> Vec<Finding> {
    let Start::Found(started) = &startup.program else { return Vec::new() };
    let tools = startup.tools.iter().map(|tool| needs_tool(&started.path, tool));
    let libraries = startup.libraries.iter().map(|library| needs_library(&started.path, library));
    tools.chain(libraries).chain(dynamic_helpers(&startup.helpers)).collect()
}

fn needs_tool(program: &str, tool: &Absent) -> Finding {
    let message = format!("{program} runs {}, which only the old base has", tool.name);
    // A linker keeps methods that nobody calls: a package alone is no proof that the tool is run.
    let level = if matches!(tool.shown_by, ShownBy::Package(_)) { Level::Warn } else { Level::Refuse };
    Finding::new(Rule::NeedsTool, level, message)
        .about(&tool.name)
        .evidence(format!("{}; the source has it at {}, the rebased image does not", tool.shown_by.words(&tool.name), tool.path))
        .fix(format!(
            "choose a --base that has it, put a static {0} into the image, or pass --allow needs-tool={0} if it is never run",
            tool.name
        ))
}

fn needs_library(program: &str, library: &Absent) -> Finding {
    let message = format!("{program} loads {} at run time, which only the old base has", library.name);
    Finding::new(Rule::NeedsLibrary, Level::Refuse, message)
        .about(&library.name)
        .evidence(format!(
            "{}; the source has it at {}, the rebased image does not",
            library.shown_by.words(&library.name),
            library.path
        ))
        .fix(format!(
            "choose a --base that has it, or pass --allow needs-library={} if it is never loaded",
            library.name
        ))
}

/// Every one by its path, so that each can be allowed; past a hundred they are only counted.
fn dynamic_helpers(helpers: &[Helper]) -> Vec<Finding> {
    const NAMED: usize = 100;
    let cannot_start: Vec<&Helper> = helpers.iter().filter(|helper| cannot_start(helper)).collect();
    let rest = cannot_start.len().saturating_sub(NAMED);
    let rest = (rest > 0).then(|| {
        Finding::new(Rule::DynamicHelper, Level::Refuse, format!("{rest} more programs of the image cannot start"))
            .fix("look at the first hundred")
    });
    cannot_start.into_iter().take(NAMED).map(dynamic_helper).chain(rest).collect()
}

fn cannot_start(helper: &Helper) -> bool {
    matches!(helper.linkage, Linkage::Dynamic | Linkage::Script) && !helper.lacks.is_empty()
}

fn dynamic_helper(helper: &Helper) -> Finding {
    let what = match helper.linkage {
        Linkage::Script => "is a script that cannot start",
        _ => "is not statically linked and cannot start",
    };
    Finding::new(Rule::DynamicHelper, Level::Refuse, format!("{} {what} in the rebased image", helper.path))
        .about(&helper.path)
        .evidence(format!("needs {}", helper.lacks.join(", ")))
        .fix(format!(
            "leave it out or build it statically, or pass --allow dynamic-helper={} if it is never run",
            helper.path
        ))
}
