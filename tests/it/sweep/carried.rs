//! What a config carries beside the start: HEALTHCHECK, SHELL, STOPSIGNAL, VOLUME, EXPOSE, labels. None of it may
//! stop an ordinary image, and a health check that cannot run is no health check.

use serde_json::{Value, json};

use super::bases::{debian, with_shell};
use super::case::{Case, attack, ordinary};
use super::program::{observer, tagged};
use crate::support::tar_layer::program;

pub fn cases() -> Vec<Case> {
    let check = |test: Value| json!({"Test": test, "Interval": 30_000_000_000_u64});
    let probe = || [program("probe", tagged("probe"))];
    vec![
        ordinary("health-check").files(probe()).set("Healthcheck", check(json!(["CMD", "/probe"]))),
        ordinary("health-check/shell-or-exit")
            .files(probe())
            .set("Healthcheck", check(json!(["CMD-SHELL", "/probe || exit 1"]))),
        ordinary("health-check/none").set("Healthcheck", check(json!(["NONE"]))),
        ordinary("health-check/with-a-shell")
            .new_base(with_shell())
            .set("Healthcheck", check(json!(["CMD-SHELL", "test -e /app"]))),
        ordinary("health-check/of-the-base")
            .old(debian().set("Healthcheck", check(json!(["CMD-SHELL", "grep -q x /etc/passwd"])))),
        ordinary("stop-signal").set("StopSignal", json!("SIGQUIT")),
        ordinary("exposed-ports").set("ExposedPorts", json!({"8080/tcp": {}})),
        ordinary("volumes").set("Volumes", json!({"/data": {}})),
        ordinary("labels").set("Labels", json!({"org.example.name": "x"})),
        ordinary("shell-member").set("Shell", json!(["/bin/bash", "-o", "pipefail", "-c"])),
        ordinary("on-build").set("OnBuild", json!(["RUN id"])),
        ordinary("shell-form").set("Entrypoint", json!(["/bin/sh", "-c", "/app --v=2"])),
        ordinary("shell-form/exec").set("Entrypoint", json!(["/bin/sh", "-c", "exec /app --v=2 --name='a b'"])),
        ordinary("shell-form/cmd").no_entrypoint().set("Cmd", json!(["/bin/sh", "-c", "/app --v=2"])),
        ordinary("shell-form/cd")
            .only([crate::support::tar_layer::folder("srv/own/"), program("srv/own/app", observer())])
            .set("Entrypoint", json!(["/bin/sh", "-c", "cd /srv/own && exec ./app"])),
        ordinary("shell-form/assignment")
            .set("Entrypoint", json!(["/bin/sh", "-c", "MODE=fast exec /app --from-env=MODE"])),
        attack("shell-form/assignments")
            .set("Entrypoint", json!(["/bin/sh", "-c", "export A=1 B=$A; exec /app --from-env=B"])),
        attack("shell-form/variable")
            .env(["MODE=x"])
            .set("Entrypoint", json!(["/bin/sh", "-c", "exec /app --mode=$MODE"])),
        attack("shell-form/tool")
            .set("Entrypoint", json!(["/bin/sh", "-c", "exec /app --host=$(hostname)"]))
            .set("Entrypoint", json!(["/bin/sh", "-c", "id >/dev/null; exec /app"])),
        attack("shell-form/cd-into-the-base")
            .set("Entrypoint", json!(["/bin/sh", "-c", "cd /usr/share/base && exec /app --config=data"])),
    ]
}
