/**
 * Records test/golden/vllm anew: runs the replay tests against a real server through their recording proxy.
 *
 *   scripts/vllm-cpu/serve.sh test/models/nano-base 8100 &
 *   node scripts/vllm-cpu/record.ts http://127.0.0.1:8100/v1
 */
import { spawnSync } from 'node:child_process';

const [url] = process.argv.slice(2);
if (url === undefined) {
  process.stderr.write('usage: node scripts/vllm-cpu/record.ts BASE_URL   (of scripts/vllm-cpu/serve.sh test/models/nano-base)\n');
  process.exit(2);
}
const { status } = spawnSync(process.execPath, ['node_modules/vitest/vitest.mjs', 'run', 'test/clients/vllm-tokens.test.ts'], {
  cwd: new URL('../..', import.meta.url),
  env: { ...process.env, VF_VLLM_RECORD: url },
  stdio: 'inherit',
});
process.exit(status ?? 1);
