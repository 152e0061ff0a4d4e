/**
 * The nano model learns in half a minute with Node alone. Runs `npx vf-train search-r1 --preset laptop` as a new user would, once per seed and once with negated
 * advantages, with only Node on the PATH. Judges held-out reward, time from command to result, memory, and that trainer and sampler give every token the same log-prob.
 */
import { learningPage } from './learning-page.ts';
import type { Proof, ProofOptions } from './proof-options.ts';
import { type Verdict, writePage } from './results-page.ts';
import { judgeEqual, judgeReward, stepsOf } from './run-figures.ts';
import { type ProvenRun, setFlags, trainAlone, worldSettings } from './train-once.ts';

const BARS = { start: 0.3, end: 0.9, seconds: 30, steps: 30, memoryMb: 400 };

export const LAPTOP: Proof = {
  about: 'the nano model learns to search in half a minute, with Node alone',
  flags: ['quick', 'seeds', 'output', 'runs', 'world', 'set'],
  prove: proveLaptop,
};

async function proveLaptop(options: ProofOptions): Promise<readonly Verdict[]> {
  const { quick, seeds, settings, world, runs: output } = options;
  const prove = (label: string, seed: number, further: readonly string[]): Promise<ProvenRun> => {
    const sets = setFlags([...further, ...worldSettings(world), ...settings]);
    const args = ['search-r1', '--preset', 'laptop', '--seed', String(seed), '-o', output, ...sets];
    return trainAlone({ label, isControl: further.length > 0, args });
  };
  const runs: ProvenRun[] = [];
  for (const seed of seeds) runs.push(await prove(`seed ${seed}`, seed, []));
  runs.push(await prove('negated advantages', seeds[0]!, ['algorithm.negate_advantages=true']));
  const page = learningPage(runs, BARS, {
    name: 'laptop',
    title: 'It learns on a laptop, in half a minute',
    heading: 'Nano model, fact world, GRPO with LoRA in Node alone',
    intro: [
      'Every run is `npx vf-train search-r1 --preset laptop` with Node alone, no Python, no GPU, no server. Held-out reward (exact match, sampled at temperature 1) of the nano model on the fact world, by training',
      'step. Seconds are those of the whole command without the startup of npx. The control is the same run with negated advantages.',
    ],
  });
  return writePage(options, { ...page, verdicts: runs.flatMap((run) => judge(run, quick)) });
}

function judge(run: ProvenRun, quick: boolean): Verdict[] {
  const { label, isControl, seconds, peakMemoryBytes } = run;
  const reward = judgeReward(run, BARS);
  if (isControl) return [reward];
  const steps = stepsOf(run);
  const megabytes = peakMemoryBytes === null ? null : peakMemoryBytes / 1e6;
  return [
    reward,
    {
      ok: (quick || seconds <= BARS.seconds) && steps <= BARS.steps,
      text: `${label}: ${seconds.toFixed(1)} s from command to result, ${steps} steps; at most ${BARS.seconds} s and ${BARS.steps} steps`,
    },
    judgeEqual(run),
    ...(megabytes === null
      ? []
      : [{ ok: megabytes <= BARS.memoryMb, text: `${label}: ${Math.round(megabytes)} MB at most at once; at most ${BARS.memoryMb}` }]),
  ];
}
