#!/usr/bin/env bash
# Fails when committed generated files differ from what the generators make now.
# It generates in a copy, so that looking changes nothing here.
set -euo pipefail
cd "$(dirname "$0")/../.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

sums() { (cd "$copy/tree" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }

mkdir "$copy/tree"
git ls-files -co --exclude-standard -z | while IFS= read -r -d '' file; do
  if [[ -e "$file" ]]; then printf '%s\0' "$file"; fi # deleted, not committed yet
done | tar --null --files-from=- --create | tar --extract --directory="$copy/tree"
sums >"$copy/before"
# Without the old ones, a generated file whose source is gone shows too.
find "$copy/tree/proto" -name '*.pb.go' -delete
make --no-print-directory -C "$copy/tree" generate
sums >"$copy/after"
if ! diff "$copy/before" "$copy/after" >"$copy/changed"; then
  echo "stale, run \`make generate\` and commit:"
  awk '/^[<>]/ { print "  " $3 }' "$copy/changed" | sort -u
  exit 1
fi
