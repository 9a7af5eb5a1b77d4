// SPDX-License-Identifier: BSD-3-Clause
//! Finds libfur.so: in LIBFUR_LIB_DIR, or as pkg-config says, or where the linker looks.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=LIBFUR_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    println!("cargo:rustc-link-lib=dylib=fur");
    if let Ok(dir) = env::var("LIBFUR_LIB_DIR") {
        println!("cargo:rustc-link-search=native={}", dir);
        return;
    }
    let asked = Command::new("pkg-config").args(["--libs-only-L", "libfur"]).output();
    if let Ok(answer) = asked {
        for word in String::from_utf8_lossy(&answer.stdout).split_whitespace() {
            if let Some(dir) = word.strip_prefix("-L") {
                println!("cargo:rustc-link-search=native={}", dir);
            }
        }
    }
}
