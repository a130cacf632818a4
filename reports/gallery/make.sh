#!/usr/bin/env bash
# Makes the figures of this folder, as SVG and PNG: make.sh [FOLDER]. `kvplan` is taken from the path, or KVPLAN names it.
# From what is in the binary and in reports/eval alone; equal versions give equal bytes on any machine.
set -euo pipefail
kvplan=${KVPLAN:-kvplan}
here=$(cd "$(dirname "$0")" && pwd)
to=${1:-$here}
for image in svg png; do
    "$kvplan" -q plot --hardware gh200 -o "$to/how-far.$image"
    for kind in price equal-hbm savings attention tiers step-time layers tornado; do
        "$kvplan" -q plot --kind "$kind" -o "$to/$kind.$image"
    done
    "$kvplan" -q eval --from "$here/../eval/smollm2-equal-hbm.json" --plot "$to/policies.$image" >/dev/null
    "$kvplan" -q eval --from "$here/../eval/qwen-gsm8k.json" --plot "$to/answers.$image" >/dev/null
done
