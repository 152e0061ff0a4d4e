/** Self-play that is killed: the moments, the processes, and the conditions that must hold for the finished run. */
import { finished, type RunFolder, type TrainFolder, type TrainProcess } from '../../test/vllm/train-process.ts';
import { rolloutNames, rolloutText } from '../../test/trainer/kept-rollouts.ts';

/** The phases of a step in order. `update` is forward, backward and the optimiser's steps. */
export const PHASES = ['propose', 'solve', 'critic', 'update', 'publish', 'checkpoint'] as const;
export type Phase = (typeof PHASES)[number];
/** `worker` computes gradients with PyTorch, `server` is vLLM. */
export type Victim = 'trainer' | 'worker' | 'server';

export interface Kill {
  readonly victim: Victim;
  readonly phase: Phase;
  readonly step: number;
  /** Finished rollouts of this step on file when it was killed. */
  readonly recorded: number;
  /** The run's events from the kill to the end of the step, without its notes on proposals. */
  readonly events: readonly { readonly kind: string; readonly message: string }[];
  /** Seconds until the step was done. */
  readonly seconds: number;
}

export interface KilledRun {
  readonly victim: Victim;
  readonly kills: readonly Kill[];
  readonly steps: readonly number[];
  /** Lines that were on file at a kill and are not in the finished run, and rollouts that were sampled again although they had finished. */
  readonly lost: number;
  readonly repeated: number;
  readonly rollouts: number;
  readonly optimizerSteps: number;
  readonly logProbDifference: number;
  /** Largest over the steps, by role; null if no rollout of the role was trained. */
  readonly kl: Readonly<Record<string, number | null>>;
  readonly adapter: string;
  /** The adapter of a run that trained on the same rollouts without interruption. */
  readonly replayedAdapter: string;
  readonly hasSameNumbers: boolean;
}

/** No process is killed at the base: the first step ends untouched. */
const FIRST_KILL = 2;
export const STEPS = FIRST_KILL + PHASES.length;
const DEADLINE_MS = 10 * 60_000;
const POLL_MS = 2;

/** Starts a run, kills one process in each phase of consecutive steps, and lets it end. `again` continues a run whose trainer is dead. */
export async function killInEachPhase(
  victim: Victim,
  { folder, start, again }: { readonly folder: TrainFolder; readonly start: () => TrainProcess; readonly again: (run: RunFolder) => TrainProcess },
): Promise<{ readonly run: RunFolder; readonly kills: readonly Kill[]; readonly lost: number }> {
  let trainer = start();
  const kills: Kill[] = [];
  const seen = new Set<string>();
  try {
    for (const [i, phase] of PHASES.entries()) {
      const step = FIRST_KILL + i;
      await reached(trainer, () => isIn(folder.run(), phase, step));
      const killedAtMs = performance.now();
      await kill(trainer, victim);
      const run = folder.run()!;
      for (const line of linesOf(run)) seen.add(line);
      const recorded = finishedRollouts(run, step);
      const before = run.events().length;
      if (victim === 'trainer') trainer = again(run);
      await reached(trainer, () => run.events().length > before && run.steps().includes(step) && run.names('checkpoints').some(isOf(step)));
      const events = run
        .events()
        .slice(before)
        .filter(({ kind }) => kind !== 'note')
        .map(({ kind, message }) => ({ kind, message }));
      kills.push({ victim, phase, step, recorded, events, seconds: Math.round((performance.now() - killedAtMs) / 100) / 10 });
      process.stdout.write(
        `${victim} killed in ${phase} of step ${step}: ${recorded} rollouts on file; ${events.map(({ kind }) => kind).join(', ')}\n`,
      );
    }
    await finished(trainer);
  } finally {
    await trainer.kill();
  }
  const run = folder.run()!;
  const kept = new Set(linesOf(run));
  return { run, kills, lost: [...seen].filter((line) => !kept.has(line)).length };
}

/** Trains on the recorded rollouts from the first step on, without interruption, and compares. `finish` runs it to its end. */
export async function judgeKilled(
  victim: Victim,
  { run, kills, lost }: Awaited<ReturnType<typeof killInEachPhase>>,
  { folder, finish }: { readonly folder: TrainFolder; readonly finish: (run: RunFolder) => Promise<void> },
): Promise<KilledRun> {
  const replay = folder.replay(run);
  await finish(replay);
  const rows = run.rows('step');
  const most = (name: string) => {
    const values = rows.flatMap((row) => (typeof row[name] === 'number' ? [row[name]] : []));
    return values.length === 0 ? null : Math.max(...values);
  };
  const all = linesOf(run).map((line) => JSON.parse(line.slice(line.indexOf('{'))) as { rollout_id?: string; error?: unknown });
  const done = all.flatMap(({ rollout_id: id, error }, i) => (id === undefined || error !== null ? [] : [`${fileOf(linesOf(run)[i]!)} ${id}`]));
  return {
    victim,
    kills,
    steps: run.steps(),
    lost,
    repeated: done.length - new Set(done).size,
    rollouts: new Set(done).size,
    optimizerSteps: rows.reduce((sum, row) => sum + (row['optimizer_steps'] ?? 0), 0),
    logProbDifference: most('log_prob_difference_max') ?? NaN,
    kl: Object.fromEntries(['propose', 'solve', 'critique'].map((role) => [role, most(`loss/policy/approx_kl/${role}`)])),
    adapter: run.adapterSum(),
    replayedAdapter: replay.adapterSum(),
    hasSameNumbers: JSON.stringify(replay.arithmetic()) === JSON.stringify(run.arithmetic()),
  };
}

/** Tells whether a run is at work on this phase of this step, judging by its files so far. */
function isIn(run: RunFolder | null, phase: Phase, step: number): boolean {
  if (run === null) return false;
  const isDone = run.steps().includes(step);
  if (phase === 'checkpoint') return isDone && run.names('checkpoints').some(isOf(step));
  if (isDone) return false;
  const version = `-v${String(step).padStart(6, '0')}`;
  if (phase === 'publish') return run.names('adapters').some((name) => name.includes(version));
  if (phase === 'update') return run.isSampled(step, 'retry');
  return run.rollouts(step, phase).length > 0 && !run.isSampled(step, phase);
}

function isOf(step: number): (name: string) => boolean {
  return (name) => name.startsWith(`step-${String(step).padStart(6, '0')}`);
}

async function kill(trainer: TrainProcess, victim: Victim): Promise<void> {
  if (victim === 'trainer') return trainer.kill();
  const pid = victim === 'worker' ? trainer.workerPid() : trainer.replicaPids()[0];
  if (typeof pid !== 'number') throw new Error(`Found no process of the ${victim} to kill. The run said: ${trainer.said()}`);
  process.kill(pid, 'SIGKILL');
}

/** Throws if the process ends before the claim holds, or after the deadline. */
async function reached(trainer: TrainProcess, claim: () => boolean): Promise<void> {
  const deadlineMs = performance.now() + DEADLINE_MS;
  while (!claim()) {
    if (trainer.child.exitCode !== null || trainer.child.signalCode !== null) throw new Error(`The run ended too early. It said: ${trainer.said()}`);
    if (performance.now() > deadlineMs) throw new Error(`The run has not gone on for ${DEADLINE_MS / 60_000} minutes. It said: ${trainer.said()}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Every whole line of recorded rollouts, each after the name of its file. */
function linesOf(run: RunFolder): string[] {
  return rolloutNames(run.path)
    .filter((name) => name.endsWith('.jsonl') && !name.includes('_rewards'))
    .flatMap((name) =>
      rolloutText(run.path, name)
        .split('\n')
        .slice(0, -1)
        .map((line) => `${name} ${line}`),
    );
}

function fileOf(line: string): string {
  return line.slice(0, line.indexOf(' '));
}

function finishedRollouts(run: RunFolder, step: number): number {
  return rolloutNames(run.path)
    .filter(isOf(step))
    .flatMap((name) => run.rollouts(step, name.split('.').at(-2)))
    .filter(({ complete, error }) => complete !== true && error === null).length;
}
