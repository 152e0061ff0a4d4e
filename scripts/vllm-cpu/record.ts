/**
 * Re-records test/golden/vllm: runs the replay tests against real servers through their recording proxy, and sends the policy server's probes to one of them.
 *
 *   scripts/vllm-cpu/serve.sh test/models/nano-base 8100 &
 *   scripts/vllm-cpu/serve.sh test/models/nano-base 8101 --chat-template test/vllm/chatml.jinja &
 *   VF_VLLM_LORA=1 scripts/vllm-cpu/serve.sh test/models/nano-base 8102 --chat-template test/vllm/chatml.jinja &
 *   "$(scripts/vllm-cpu/install.sh)" scripts/random-vlm/make.py qwen3_vl qwen3_vl
 *   VF_VLLM_MAX_MODEL_LEN=4096 scripts/vllm-cpu/serve.sh qwen3_vl 8103 --enable-scale-out --limit-mm-per-prompt '{"image": 16, "video": 0}' &
 *   node scripts/vllm-cpu/record.ts http://127.0.0.1:8100/v1 http://127.0.0.1:8101/v1 http://127.0.0.1:8102/v1 http://127.0.0.1:8103/v1
 *
 * A - instead of a URL keeps that server's recordings.
 */
import { spawnSync } from 'node:child_process';

const TESTS = [
  'test/clients/vllm-tokens.test.ts',
  'test/clients/vllm-tokenizer.test.ts',
  'test/server/policy/vllm-probes.test.ts',
  'test/clients/vllm-images.test.ts',
];

const urls = process.argv.slice(2);
if (urls.length !== TESTS.length) {
  process.stderr.write(
    'usage: node scripts/vllm-cpu/record.ts BASE_URL BASE_URL_WITH_CHAT_TEMPLATE BASE_URL_WITH_CHAT_TEMPLATE_AND_LORA VISION_BASE_URL   (see the top of this file)\n',
  );
  process.exit(2);
}
for (const [i, url] of urls.entries()) {
  if (url === '-') continue;
  const { status } = spawnSync(process.execPath, ['node_modules/vitest/vitest.mjs', 'run', TESTS[i]!], {
    cwd: new URL('../..', import.meta.url),
    env: { ...process.env, VF_VLLM_RECORD: url },
    stdio: 'inherit',
  });
  if (status !== 0) process.exit(status ?? 1);
}
