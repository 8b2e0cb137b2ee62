#!/bin/sh
# Few machines that build this have an AMX unit, and its tests pass by doing nothing where there is none. This gathers all tests of the
# engine and its benchmark in a folder that needs nothing but an x86-64 Linux: ./amx-check.sh FOLDER, copy it to a machine with the
# unit, and run FOLDER/run.sh there. (Linked statically, so that the other machine's libraries do not matter; this needs libc.a.)
set -eu
mkdir -p "${1:?"give a folder to put the programs in"}"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
target=x86_64-unknown-linux-gnu
export RUSTFLAGS="-C target-feature=+crt-static -C strip=symbols" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/static"
cargo test --offline --target $target --no-run
# Again, for the names of what it built.
cargo test --offline --target $target --no-run 2>&1 |
  sed -En 's#^ *Executable.* (src|tests)/([a-z_]+)\.rs \((.*)\)$#\2 \3#p' |
  while read -r name program; do cp "$program" "$out/$name-tests"; done
cargo build --offline --release --target $target --example bench
cp "$CARGO_TARGET_DIR/$target/release/examples/bench" "$out/bench"
cat >"$out/run.sh" <<'RUN'
#!/bin/sh
set -eu
cd "$(dirname "$0")"
grep -q amx_int8 /proc/cpuinfo || { echo "This machine has no AMX unit: its tests would do nothing." >&2; exit 1; }
STATESET_SIMD=amx ./bench prefill starter 2 || { echo "The system does not let programs use the AMX unit." >&2; exit 1; }
for program in ./*-tests; do echo "== $program"; "$program" --quiet; done
# A decoding step beside training passes: "kept" is what the engine does, "taken" what it did.
for shape in starter gpt2; do ./bench beside $shape "$(nproc)"; done
RUN
chmod +x "$out/run.sh"
