#!/usr/bin/env bash
# Writes src/tinker/wire/generated/tinker-public.ts from tinker-public.proto. Needs npm's registry.
set -euo pipefail
cd "$(dirname "$0")"
out=../../src/tinker/wire/generated
npx --yes --package=@bufbuild/buf@1.75.0 --package=@bufbuild/protoc-gen-es@2.17.0 -- buf generate --template '{"version":"v2","plugins":[{"local":"protoc-gen-es","out":"'"$out"'","opt":["target=ts","import_extension=ts"]}]}' tinker-public.proto
mv "$out/tinker-public_pb.ts" "$out/tinker-public.ts"
