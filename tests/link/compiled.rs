//! Small libraries of C with everything that a linker can ask of a loader, each with the twin that fails.

use std::process::Command;

use crate::can_run;
use crate::chroot::{Chroot, Outcome};
use crate::model::{answers, layer};
use crate::skip::or_skip;

/// `lib PATH SOURCE FLAGS...` and `app SOURCE FLAGS...` compile into the root; `map TEXT` writes a version script.
const FUNCTIONS: &str = r#"set -e
lib() { out="$R/$1"; mkdir -p "$(dirname "$out")"; echo "$2" > lib.c; name="$(basename "$1")"; shift 2
  $CC -shared -fPIC -Wl,-soname,"$name" -o "$out" lib.c "$@"; }
app() { echo "$1" > app.c; shift; $CC -o "$R/app" app.c "$@"; }
map() { echo "$1" > map; }
F='int f(void) { return 42; }'
MAIN='int f(void); int main(void) { return f(); }'
A="$R/usr/lib/liba.so"
"#;

struct Case {
    name: &'static str,
    /// Makes `/app` and what it needs.
    script: &'static str,
    variables: &'static [(&'static str, &'static str)],
    /// Empty where it loads; otherwise a part of what `link` says is missing.
    missing: &'static str,
}

const fn case(name: &'static str, script: &'static str, missing: &'static str) -> Case {
    Case { name, script, variables: &[], missing }
}

const OWN: &[(&str, &str)] = &[("LD_LIBRARY_PATH", "/own")];

const CASES: &[Case] = &[
    case("a library", r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A""#, ""),
    case("no library", r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"; rm "$A""#, "liba.so is not in"),
    case("no function", r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"; lib usr/lib/liba.so "int g;""#, "defines f"),
    case("no loader", r#"app 'int main(void) { return 42; }'; rm "$R/lib64/ld-linux-x86-64.so.2""#, "its interpreter"),
    case(
        "a static program",
        r#"app 'int main(void) { return 42; }' -static-pie; rm -r "$R/usr/lib64" "$R/usr/lib""#,
        "",
    ),
    // Versions.
    case(
        "the same version",
        r#"map 'V1 { global: f; local: *; };'; lib usr/lib/liba.so "$F" -Wl,--version-script=map; app "$MAIN" "$A""#,
        "",
    ),
    case(
        "another version",
        r#"map 'V1 { global: f; };'; lib usr/lib/liba.so "$F" -Wl,--version-script=map; app "$MAIN" "$A"
        map 'V2 { global: f; };'; lib usr/lib/liba.so "$F" -Wl,--version-script=map"#,
        "does not have version V1",
    ),
    case(
        "an old version beside the new one",
        r#"map 'V1 { global: f; };'; lib usr/lib/liba.so "$F" -Wl,--version-script=map; app "$MAIN" "$A"
        map 'V1 { global: x; }; V2 { global: y; } V1;'
        lib usr/lib/liba.so 'int f1(void) { return 42; } int f2(void) { return 1; }
          __asm__(".symver f1,f@V1"); __asm__(".symver f2,f@@V2");' -Wl,--version-script=map"#,
        "",
    ),
    case(
        "the version without the function",
        r#"map 'V1 { global: f; g; };'; lib usr/lib/liba.so "$F" -Wl,--version-script=map; app "$MAIN" "$A"
        lib usr/lib/liba.so 'int g;' -Wl,--version-script=map"#,
        "defines f@V1",
    ),
    case(
        "the function in another version",
        r#"map 'V1 { global: f; g; };'; lib usr/lib/liba.so "$F" -Wl,--version-script=map; app "$MAIN" "$A"
        map 'V1 { global: g; }; V2 { global: f; };'; lib usr/lib/liba.so "$F int g;" -Wl,--version-script=map"#,
        "defines f@V1",
    ),
    case(
        "versions that are gone altogether",
        r#"map 'V1 { global: f; };'; lib usr/lib/liba.so "$F" -Wl,--version-script=map; app "$MAIN" "$A"
        lib usr/lib/liba.so "$F""#,
        "defines f@V1",
    ),
    case(
        "a version that another library has without any",
        r#"map 'V1 { global: f; g; };'; lib usr/lib/liba.so "$F int g;" -Wl,--version-script=map
        lib usr/lib/libb.so "$F"; app "$MAIN" "$A" -Wl,--no-as-needed "$R/usr/lib/libb.so"
        lib usr/lib/liba.so "int g;" -Wl,--version-script=map"#,
        "",
    ),
    case(
        "versions where there were none",
        r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"
        map 'V1 { global: f; };'; lib usr/lib/liba.so "$F" -Wl,--version-script=map"#,
        "",
    ),
    case(
        "hidden versions where there were none",
        r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"
        map 'V1 { global: x; }; V2 { global: y; }; V3 { global: z; };'
        lib usr/lib/liba.so 'int f2(void) { return 42; } __asm__(".symver f2,f@V2");
          int f3(void) { return 42; } __asm__(".symver f3,f@V3");' -Wl,--version-script=map"#,
        "defines f",
    ),
    // Kinds of symbols.
    case("data", r#"lib usr/lib/liba.so 'int x = 42;'; app 'extern int x; int main(void) { return x; }' "$A""#, ""),
    case(
        "data that is copied",
        r#"lib usr/lib/liba.so 'int x = 42;'; app 'extern int x; int main(void) { return x; }' -no-pie "$A""#,
        "",
    ),
    case(
        "data that was copied",
        r#"lib usr/lib/liba.so 'int x = 42;'; app 'extern int x; int main(void) { return x; }' -no-pie "$A"
        lib usr/lib/liba.so 'int y;'"#,
        "defines x",
    ),
    case(
        "thread-local data",
        r#"lib usr/lib/liba.so '__thread int x = 42;'
        app 'extern __thread int x; int main(void) { return x; }' "$A""#,
        "",
    ),
    case(
        "no thread-local data",
        r#"lib usr/lib/liba.so '__thread int x = 42;'
        app 'extern __thread int x; int main(void) { return x; }' "$A"; lib usr/lib/liba.so 'int y;'"#,
        "defines thread-local x",
    ),
    case(
        "a function that is chosen at start",
        r#"lib usr/lib/liba.so 'static int g(void) { return 42; } static void *choose(void) { return g; }
          int f(void) __attribute__((ifunc("choose")));'; app "$MAIN" "$A""#,
        "",
    ),
    case(
        "a weak use",
        r#"lib usr/lib/liba.so "$F"
        app '__attribute__((weak)) int f(void); int main(void) { return f ? f() : 42; }' -Wl,--no-as-needed "$A"
        lib usr/lib/liba.so 'int y;'"#,
        "",
    ),
    case("a weak definition", r#"lib usr/lib/liba.so "__attribute__((weak)) $F"; app "$MAIN" "$A""#, ""),
    case(
        "a protected definition",
        r#"lib usr/lib/liba.so "__attribute__((visibility(\"protected\"))) $F"; app "$MAIN" "$A""#,
        "",
    ),
    case(
        "a hidden definition",
        r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"
        lib usr/lib/liba.so "__attribute__((visibility(\"hidden\"))) $F int h(void) { return f(); }""#,
        "defines f",
    ),
    case(
        "the address of a function",
        r#"lib usr/lib/liba.so "$F"
        app 'int f(void); int (*p)(void) = f; int main(void) { return p(); }' -no-pie "$A""#,
        "",
    ),
    case(
        "a function of the program",
        r#"lib usr/lib/liba.so 'int g(void); int f(void) { return g(); }'
        app "$MAIN int g(void) { return 42; }" "$A""#,
        "",
    ),
    case(
        "a function that the program does not export",
        r#"lib usr/lib/liba.so "$F"; app "$MAIN int g(void) { return 42; }" "$A"
        lib usr/lib/liba.so 'int g(void); int f(void) { return g(); }'"#,
        "defines g",
    ),
    // Tables.
    case("the old hash table", r#"lib usr/lib/liba.so "$F" -Wl,--hash-style=sysv; app "$MAIN" "$A""#, ""),
    case(
        "the old hash table without the function",
        r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A" -Wl,--hash-style=sysv
        lib usr/lib/liba.so 'int y;' -Wl,--hash-style=sysv"#,
        "defines f",
    ),
    case(
        "packed relocations",
        r#"lib usr/lib/liba.so "$F int *p[9] = { (int *) p };" -Wl,-z,pack-relative-relocs; app "$MAIN" "$A""#,
        "",
    ),
    case("everything bound at once", r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A" -Wl,-z,now -Wl,-z,relro"#, ""),
    // Directories.
    case("a library elsewhere", r#"lib own/liba.so "$F"; app "$MAIN" "$R/own/liba.so""#, "liba.so is not in"),
    Case {
        name: "a variable",
        script: r#"lib own/liba.so "$F"; app "$MAIN" "$R/own/liba.so""#,
        variables: OWN,
        missing: "",
    },
    case("RUNPATH", r#"lib own/liba.so "$F"; app "$MAIN" "$R/own/liba.so" -Wl,-rpath,/none:/own"#, ""),
    case(
        "RUNPATH with the program's directory",
        r#"lib own/liba.so "$F"; app "$MAIN" "$R/own/liba.so" -Wl,-rpath,'$ORIGIN/own'; mkdir -p "$R/usr/bin"
        mv "$R/app" "$R/real"; ln -s real "$R/app""#,
        "",
    ),
    case(
        "RPATH is for libraries of libraries",
        r#"lib own/libb.so "$F"; lib own/liba.so 'int f(void); int g(void) { return f(); }' "$R/own/libb.so"
        app 'int g(void); int main(void) { return g(); }' "$R/own/liba.so" -Wl,--disable-new-dtags,-rpath,/own \
          -Wl,--allow-shlib-undefined"#,
        "",
    ),
    case(
        "RUNPATH is not",
        r#"lib own/libb.so "$F"; lib own/liba.so 'int f(void); int g(void) { return f(); }' "$R/own/libb.so"
        app 'int g(void); int main(void) { return g(); }' "$R/own/liba.so" -Wl,-rpath,/own \
          -Wl,--allow-shlib-undefined"#,
        "libb.so is not in",
    ),
    case(
        "the directory of a library",
        r#"lib own/deep/libb.so "$F"
        lib own/liba.so 'int f(void); int g(void) { return f(); }' "$R/own/deep/libb.so" -Wl,-rpath,'$ORIGIN/deep'
        app 'int g(void); int main(void) { return g(); }' "$R/own/liba.so" -Wl,-rpath,/own \
          -Wl,--allow-shlib-undefined"#,
        "",
    ),
    case(
        "the directory of the link to a library",
        r#"lib other/deep/libb.so "$F"
        lib other/liba.so 'int f(void); int g(void) { return f(); }' "$R/other/deep/libb.so" -Wl,-rpath,'$ORIGIN/deep'
        mkdir "$R/own"; ln -s ../other/liba.so "$R/own/liba.so"
        app 'int g(void); int main(void) { return g(); }' "$R/other/liba.so" -Wl,-rpath,/own \
          -Wl,--allow-shlib-undefined"#,
        "libb.so is not in",
    ),
    case(
        "what the loader calls its directory",
        r#"lib own/lib/x86_64-linux-gnu/liba.so "$F"
        app "$MAIN" "$R/own/lib/x86_64-linux-gnu/liba.so" -Wl,-rpath,'/own/$LIB'"#,
        "",
    ),
    case("no default directories", r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A" -Wl,-z,nodefaultlib"#, "is not in"),
    case(
        "a path in place of a name",
        r#"echo "$F" > lib.c; mkdir "$R/own"; $CC -shared -fPIC -Wl,-soname,/own/liba.so -o "$R/own/liba.so" lib.c
        app "$MAIN" "$R/own/liba.so""#,
        "",
    ),
    case(
        "a hwcaps directory that lacks the function",
        r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"; lib usr/lib/glibc-hwcaps/x86-64-v2/liba.so "int g;""#,
        "defines f",
    ),
    case(
        "a hwcaps directory that has it",
        r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"; lib usr/lib/glibc-hwcaps/x86-64-v2/liba.so "$F""#,
        "",
    ),
    case(
        "a library that is a program",
        r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"; cp "$R/app" "$A""#,
        "is a program",
    ),
    // What is in front of everything else.
    Case {
        name: "a library in front",
        script: r#"lib usr/lib/liba.so "$F"; lib own/libp.so "$F"; app "$MAIN" "$A"; lib usr/lib/liba.so 'int g;'"#,
        variables: &[("LD_PRELOAD", "/own/libp.so")],
        missing: "",
    },
    Case {
        name: "a library in front that is not there",
        script: r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A""#,
        variables: &[("LD_PRELOAD", "/own/libp.so libq.so")],
        missing: "",
    },
    Case {
        name: "text in front",
        script: r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"; mkdir "$R/own"; echo text > "$R/own/libp.so""#,
        variables: &[("LD_PRELOAD", "/own/libp.so")],
        missing: "",
    },
    Case {
        name: "a library in front that needs another",
        script: r#"lib usr/lib/liba.so "$F"; lib usr/lib/libb.so 'int g;'; app "$MAIN" "$A"
        lib own/libp.so 'extern int g; int *h(void) { return &g; }' "$R/usr/lib/libb.so"; rm "$R/usr/lib/libb.so""#,
        variables: &[("LD_PRELOAD", "/own/libp.so")],
        missing: "libb.so is not in",
    },
    case(
        "a list of libraries in front",
        r#"lib usr/lib/liba.so "$F"; lib own/libp.so "$F"; app "$MAIN" "$A"; lib usr/lib/liba.so 'int g;'
        printf '# first\n/own/libp.so /none.so\n' > "$R/etc/ld.so.preload""#,
        "",
    ),
    Case {
        name: "an auditor that is not there",
        script: r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A""#,
        variables: &[("LD_AUDIT", "/own/libp.so")],
        missing: "",
    },
    // What a linker reads in place of a library.
    case(
        "a script of the linker",
        r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"; mv "$A" "$R/usr/lib/libb.so"
        echo 'GROUP ( /usr/lib/libb.so )' > "$A""#,
        "liba.so in the image is not a library",
    ),
    Case {
        name: "a directory with its name",
        script: r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"; mkdir -p "$R/own/liba.so""#,
        variables: OWN,
        missing: "is not a library",
    },
    Case {
        name: "a link to nowhere with its name",
        script: r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"; mkdir "$R/own"; ln -s none "$R/own/liba.so""#,
        variables: OWN,
        missing: "",
    },
    // More kinds of symbols.
    case(
        "a symbol that is there once",
        r#"lib usr/lib/liba.so '__asm__(".globl x; .type x,@gnu_unique_object; .size x,4; .data; x: .long 42; .text");'
        app 'extern int x; int main(void) { return x; }' "$A""#,
        "",
    ),
    case(
        "thread-local data that is plain data now",
        r#"lib usr/lib/liba.so '__thread int x = 42;'
        app 'extern __thread int x; int main(void) { return x; }' "$A"; lib usr/lib/liba.so 'int x = 42;'"#,
        "defines thread-local x",
    ),
    case(
        "plain data that is thread-local now",
        r#"lib usr/lib/liba.so 'int x = 42;'
        app 'extern int x; int main(void) { return x; }' "$A"; lib usr/lib/liba.so '__thread int x = 42;'"#,
        "defines x",
    ),
    case(
        "data that may not be copied any more",
        r#"lib usr/lib/liba.so 'int x = 42;'; app 'extern int x; int main(void) { return x; }' -no-pie "$A"
        lib usr/lib/liba.so '__attribute__((visibility("protected"))) int x = 42;' -mno-direct-extern-access"#,
        "copies",
    ),
    case(
        "a library under another name of its own",
        r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"; lib usr/lib/libother.so "$F"; mv "$R/usr/lib/libother.so" "$A""#,
        "",
    ),
    case(
        "a version of a library under another name",
        r#"map 'V1 { global: f; };'; lib usr/lib/liba.so "$F" -Wl,--version-script=map; app "$MAIN" "$A"
        lib usr/lib/libother.so "$F" -Wl,--version-script=map; mv "$R/usr/lib/libother.so" "$A""#,
        "",
    ),
    case(
        "a library that two paths lead to",
        r#"lib own/libb.so "$F"; lib usr/lib/libc1.so 'int f(void); int g(void) { return f(); }' "$R/own/libb.so"
        ln -s ../../own/libb.so "$R/usr/lib/libb.so"
        app 'int f(void); int g(void); int main(void) { return (f() + g()) / 2; }' "$R/usr/lib/libc1.so" "$R/own/libb.so" \
          -Wl,-rpath,/own"#,
        "",
    ),
    case(
        "libraries that need each other",
        r#"lib usr/lib/liba.so "$F"; lib usr/lib/libb.so 'int f(void); int g(void) { return f(); }' "$A"
        lib usr/lib/liba.so "int g(void); int f(void) { return 42; } int h(void) { return g(); }" "$R/usr/lib/libb.so"
        app "$MAIN" "$A" -Wl,--allow-shlib-undefined"#,
        "",
    ),
    case(
        "a library of another system",
        r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"; printf '\011' | dd of="$A" bs=1 seek=7 conv=notrunc status=none"#,
        "liba.so",
    ),
    case(
        "a library of a later form",
        r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"; printf '\011' | dd of="$A" bs=1 seek=8 conv=notrunc status=none"#,
        "liba.so",
    ),
    case(
        "a library whose header has another version",
        r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"; printf '\011' | dd of="$A" bs=1 seek=20 conv=notrunc status=none"#,
        "liba.so",
    ),
    case(
        "a library with other rows in its header",
        r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"; printf '\100' | dd of="$A" bs=1 seek=54 conv=notrunc status=none"#,
        "liba.so",
    ),
    case(
        "a library without its sections",
        r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"
        head -c 64 /dev/zero | tr '\0' '\377' | dd of="$A" bs=1 seek=$(($(stat -c %s "$A") - 64)) conv=notrunc status=none"#,
        "",
    ),
    case(
        "pages as large as some machines have them",
        r#"lib usr/lib/liba.so "$F" -Wl,-z,max-page-size=0x200000; app "$MAIN" "$A""#,
        "",
    ),
    case(
        "a library that wants to be found by its directory, through a link to the directory",
        r#"lib other/deep/libb.so "$F"
        lib other/liba.so 'int f(void); int g(void) { return f(); }' "$R/other/deep/libb.so" -Wl,-rpath,'${ORIGIN}/deep'
        ln -s other "$R/own"
        app 'int g(void); int main(void) { return g(); }' "$R/other/liba.so" -Wl,-rpath,/own \
          -Wl,--allow-shlib-undefined"#,
        "",
    ),
    Case {
        name: "directories with a semicolon between them",
        script: r#"lib own/liba.so "$F"; app "$MAIN" "$R/own/liba.so""#,
        variables: &[("LD_LIBRARY_PATH", "/none;/own")],
        missing: "",
    },
    Case {
        name: "the working directory by an empty word",
        script: r#"lib liba.so "$F"; app "$MAIN" "$R/liba.so""#,
        variables: &[("LD_LIBRARY_PATH", "/none::")],
        missing: "",
    },
    Case {
        name: "the program's directory in a variable",
        script: r#"lib own/liba.so "$F"; app "$MAIN" "$R/own/liba.so""#,
        variables: &[("LD_LIBRARY_PATH", "$ORIGIN/own")],
        missing: "",
    },
];

const MUSL: &[Case] = &[
    case("a program", r"app 'int main(void) { return 42; }'", ""),
    case("no loader", r#"app 'int main(void) { return 42; }'; rm "$R/lib/ld-musl-x86_64.so.1""#, "its interpreter"),
    case("a library", r#"lib usr/local/lib/liba.so "$F"; app "$MAIN" "$R/usr/local/lib/liba.so""#, ""),
    case("no library", r#"lib own/liba.so "$F"; app "$MAIN" "$R/own/liba.so""#, "liba.so is not in"),
    case("no function", r#"lib usr/lib/liba.so "$F"; app "$MAIN" "$A"; lib usr/lib/liba.so "int g;""#, "defines f"),
    case(
        "a function that is never called",
        r#"lib usr/lib/liba.so "$F"; app 'int f(void); int main(int c, char **v) { return c > 1 ? f() : 42; }' "$A"
        lib usr/lib/liba.so 'int g;'"#,
        "defines f",
    ),
    case(
        "RUNPATH is for libraries of libraries",
        r#"lib own/libb.so "$F"; lib own/liba.so 'int f(void); int g(void) { return f(); }' "$R/own/libb.so"
        app 'int g(void); int main(void) { return g(); }' "$R/own/liba.so" -Wl,-rpath,'$ORIGIN/own' \
          -Wl,--allow-shlib-undefined"#,
        "",
    ),
    case(
        "a list of directories",
        r#"lib own/liba.so "$F"; app "$MAIN" "$R/own/liba.so"; printf '/none\n/own\n' > "$R/etc/ld-musl-x86_64.path""#,
        "",
    ),
    case(
        "versions do not count",
        r#"map 'V1 { global: f; };'; lib usr/lib/liba.so "$F" -Wl,--version-script=map; app "$MAIN" "$A"
        map 'V2 { global: f; };'; lib usr/lib/liba.so "$F" -Wl,--version-script=map"#,
        "",
    ),
    case(
        "a weak use",
        r#"lib usr/lib/liba.so 'int g;'
        app '__attribute__((weak)) int f(void); int main(void) { return f ? f() : 42; }' -Wl,--no-as-needed "$A""#,
        "",
    ),
    Case {
        name: "a variable",
        script: r#"lib own/liba.so "$F"; app "$MAIN" "$R/own/liba.so""#,
        variables: OWN,
        missing: "",
    },
];

fn compare(cases: &[Case], compiler: &str, bring: &[&str]) {
    let mut wrong = Vec::new();
    for case in cases {
        let root = Chroot::empty();
        for path in bring {
            root.copy(path);
        }
        let build = tempfile::tempdir().unwrap();
        let made = Command::new("sh")
            .args(["-c", &format!("{FUNCTIONS}{}", case.script)])
            .current_dir(build.path())
            .env("R", root.path())
            .env("CC", compiler)
            .status()
            .unwrap();
        if !made.success() {
            wrong.push(format!("{}: it cannot be made", case.name));
            continue;
        }
        let variables: Vec<(&str, &str)> = case.variables.iter().copied().chain([("LD_BIND_NOW", "1")]).collect();
        let linked = answers(&layer(root.path()), &["/app".to_owned()], &variables).remove(0);
        let missing = linked.missing.map(|missing| missing.to_string());
        let outcome = root.start("/app", &variables);
        let is_right = missing.is_none() == case.missing.is_empty()
            && missing.is_none() == (outcome == Outcome::Loaded)
            && missing.as_deref().unwrap_or_default().contains(case.missing);
        if !is_right {
            wrong.push(format!("{}: {missing:?} {outcome:?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn whatever_a_linker_asks_of_glibc_is_answered_as_it_does() {
    or_skip!(can_run(&["gcc"]));
    let bring = ["/lib64/ld-linux-x86-64.so.2", "/usr/lib/x86_64-linux-gnu/libc.so.6"];
    compare(CASES, "gcc", &bring);
}

#[test]
fn whatever_a_linker_asks_of_musl_is_answered_as_it_does() {
    or_skip!(can_run(&["musl-gcc"]));
    compare(MUSL, "musl-gcc", &["/lib/ld-musl-x86_64.so.1"]);
}
