//! Variables: those that only the old base set, and those whose value names what only the old base had.

use serde_json::json;

use super::bases::{debian, distroless};
use super::case::{Case, attack, ordinary};
use super::program::{doing, observer, tagged, with_zone};
use crate::support::tar_layer::{file, folder, program};

pub fn cases() -> Vec<Case> {
    [inherited(), named(), zones()].concat()
}

fn inherited() -> Vec<Case> {
    let base = || debian().env("APP_MODE=fast").env("JAVA_HOME=/usr/lib/jvm");
    vec![
        attack("variable-of-the-base/in-the-command").old(base()).cmd(["--from-env=APP_MODE"]),
        attack("variable-of-the-base/in-the-code")
            .old(base())
            .only([program("app", doing("act(\"from-env\", \"APP_MODE\")"))]),
        attack("variable-of-the-base/in-the-code-known")
            .old(base())
            .only([program("app", doing("act(\"from-env\", \"APP_MODE\")"))])
            .known(),
        attack("variable-of-the-base/in-a-script")
            .old(base())
            .files([program("run.sh", "#!/bin/sh\necho mode $APP_MODE\nexec /app\n")])
            .entrypoint(["/run.sh"])
            .new_base(super::bases::with_shell()),
        ordinary("variable-of-the-base").old(base()),
        ordinary("variable-of-the-base/own").old(base()).env(["APP_MODE=fast"]).cmd(["--from-env=APP_MODE"]),
        ordinary("variable-of-the-base/in-a-script")
            .files([program("run.sh", "#!/bin/sh\necho mode $APP_MODE\nexec /app\n")])
            .env(["APP_MODE=slow"])
            .entrypoint(["/run.sh"])
            .new_base(super::bases::with_shell()),
        attack("variable-of-both-bases")
            .old(debian().env("APP_MODE=fast"))
            .new_base(distroless().env("APP_MODE=slow"))
            .cmd(["--from-env=APP_MODE"]),
        ordinary("variable-of-both-bases")
            .old(debian().env("APP_MODE=fast"))
            .new_base(distroless().env("APP_MODE=fast"))
            .cmd(["--from-env=APP_MODE"]),
        attack("language")
            .old(debian().env("LANG=C.UTF-8"))
            .only([program("app", doing("act(\"from-env\", \"LANG\")"))]),
        ordinary("language").env(["LANG=C.UTF-8"]).only([program("app", doing("act(\"from-env\", \"LANG\")"))]),
        attack("variable-of-the-new-base")
            .new_base(distroless().env("APP_DEBUG=1"))
            .only([program("app", doing("act(\"maybe-env\", \"APP_DEBUG\")"))]),
        ordinary("variable-of-the-new-base")
            .new_base(distroless().env("UNRELATED=1"))
            .only([program("app", doing("act(\"maybe-env\", \"APP_DEBUG\")"))]),
        attack("home-of-the-base").old(debian().env("HOME=/srv")),
        ordinary("home-of-the-base").old(debian().env("HOME=/srv")).env(["HOME=/root"]),
    ]
}

fn named() -> Vec<Case> {
    let reads = |name: &str| program("app", doing(&format!("act(\"config-env\", \"{name}\")")));
    let base = || debian().with([folder("usr/lib/jvm/"), file("usr/lib/jvm/release", "17")]);
    vec![
        attack("value-names-a-file-of-the-base").only([reads("APP_CONFIG")]).env(["APP_CONFIG=/etc/base.conf"]),
        ordinary("value-names-a-file-of-the-base")
            .only([reads("APP_CONFIG"), file("etc/app.conf", "x")])
            .env(["APP_CONFIG=/etc/app.conf"]),
        ordinary("value-names-a-file-of-the-base/on-both").only([reads("APP_CONFIG")]).env(["APP_CONFIG=/etc/passwd"]),
        attack("certificates-of-the-base").only([reads("SSL_CERT_FILE")]).env(["SSL_CERT_FILE=/etc/ssl/base.pem"]),
        attack("certificates-of-the-base/inherited")
            .old(debian().env("SSL_CERT_FILE=/etc/ssl/base.pem"))
            .only([reads("SSL_CERT_FILE")]),
        ordinary("certificates-of-the-base")
            .only([reads("SSL_CERT_FILE")])
            .env(["SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"]),
        ordinary("certificates-of-the-base/inherited")
            .old(debian().env("SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"))
            .only([reads("SSL_CERT_FILE")]),
        attack("directory-of-the-base").old(base()).only([reads("JAVA_HOME")]).env(["JAVA_HOME=/usr/lib/jvm"]),
        ordinary("directory-of-the-base").only([reads("JAVA_HOME"), folder("opt/jvm/")]).env(["JAVA_HOME=/opt/jvm"]),
        attack("list-of-paths")
            .only([
                program("app", doing("act(\"files\", \"/opt/plugins\"); act(\"from-env\", \"PLUGIN_PATH\")")),
                folder("opt/plugins/"),
            ])
            .old(debian().with([folder("usr/lib/plugins/")]))
            .env(["PLUGIN_PATH=/opt/plugins:/usr/lib/plugins"])
            .cmd(["--config-env=PLUGIN_FILE"])
            .env(["PLUGIN_PATH=/opt/plugins:/usr/lib/plugins", "PLUGIN_FILE=/usr/lib/plugins"]),
        ordinary("list-of-paths")
            .only([reads("PLUGIN_FILE"), folder("opt/plugins/")])
            .env(["PLUGIN_FILE=/opt/plugins"]),
        // A value that merely looks like a path.
        ordinary("value-that-is-no-path").env(["APP_PREFIX=/api/v1", "APP_URL=https://example.test/etc/base.conf"]),
        attack("path-with-tools-of-the-base")
            .files([folder("opt/bin/"), program("opt/bin/tool", tagged("tool"))])
            .env(["PATH=/opt/bin:/usr/bin"])
            .cmd(["--hook=tool", "--hook=id"])
            .warned(["id"]),
        ordinary("path-with-tools-of-the-base")
            .files([folder("opt/bin/"), program("opt/bin/tool", tagged("tool"))])
            .env(["PATH=/opt/bin:/usr/bin"])
            .cmd(["--hook=tool"]),
        attack("program-by-variable")
            .only([program("app", doing("act(\"hook\", getenv(\"APP_HOOK\"))"))])
            .env(["APP_HOOK=/usr/bin/id"]),
        ordinary("program-by-variable")
            .only([program("app", doing("act(\"hook\", getenv(\"APP_HOOK\"))")), program("opt/hook", tagged("hook"))])
            .env(["APP_HOOK=/opt/hook"]),
    ]
}

fn zones() -> Vec<Case> {
    let tells = || [program("app", with_zone())];
    let tokyo = || {
        let mut base = distroless();
        let zone = debian().layers[0].iter().find(|entry| entry.path().ends_with("Tokyo")).unwrap().clone();
        base.layers.push(vec![folder("usr/share/zoneinfo/Asia/"), zone]);
        base
    };
    vec![
        attack("time-zone").only(tells()).env(["TZ=Asia/Tokyo"]).cmd(["--zone=here"]),
        attack("time-zone/of-the-base").old(debian().env("TZ=Asia/Tokyo")).only(tells()).cmd(["--zone=here"]),
        attack("time-zone/by-path").only(tells()).env(["TZ=:/usr/share/zoneinfo/Asia/Tokyo"]).cmd(["--zone=here"]),
        attack("time-zone/localtime")
            .old(debian().with([crate::support::tar_layer::symlink("etc/localtime", "/usr/share/zoneinfo/Asia/Tokyo")]))
            .only(tells())
            .cmd(["--zone=here"])
            .warned(["/etc/localtime"]),
        ordinary("time-zone").only(tells()).env(["TZ=Asia/Tokyo"]).cmd(["--zone=here"]).new_base(tokyo()),
        ordinary("time-zone/utc").only(tells()).env(["TZ=UTC"]).cmd(["--zone=here"]),
        ordinary("time-zone/own").only(tells()).env(["TZ=JST-9"]).cmd(["--zone=here"]),
        ordinary("no-variables").old(debian().set("Env", json!([]))).only([program("app", observer())]),
    ]
}
