/**
 * One policy learns from programs that it invents: `npx vf-train self-play-code --preset laptop` as a new user would run it, with Node alone, once per seed; and
 * the learning that is left without single parts of it. self-play-proofs.ts has the bars.
 */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compareRuns } from '../../src/reports/plot/training-plots.ts';
import type { Proof, ProofOptions } from './proof-options.ts';
import { tableLines, type Verdict, writePage } from './results-page.ts';
import { runRecipe } from './run-command.ts';
import { stepsOf, worst } from './run-figures.ts';
import {
  ACCURACY,
  BARS,
  ends,
  executionShare,
  isControl,
  judgeFrozen,
  judgeSelfPlay,
  SELF_PLAY_KINDS,
  type SelfPlayKind,
  type SelfPlayRun,
} from './self-play-proofs.ts';
import { type ProvenRun, setFlags, trainAlone } from './train-once.ts';

const LONG_STEPS = 150;
const SHORT_STEPS = 18;
const QUICK_STEPS = 6;
/** So small that no weight changes in float32: the proposals are those of the base. */
const NO_LEARNING = 'optimizer.learning_rate=1e-30';

export const SELF_PLAY: Proof = {
  about: 'one policy learns from programs that it invents, with Node alone; whole: some 25 minutes',
  flags: ['quick', 'only', 'seeds', 'output', 'runs', 'set', 'strict-time'],
  parts: SELF_PLAY_KINDS,
  prove: proveSelfPlay,
};

async function proveSelfPlay(options: ProofOptions): Promise<readonly Verdict[]> {
  const { quick, only, seeds } = options;
  const kinds: readonly string[] = only ?? (quick ? ['laptop'] : SELF_PLAY_KINDS);
  const runs: SelfPlayRun[] = [];
  const play = async (kind: SelfPlayKind, label: string, settings: readonly string[], seed = seeds[0]!): Promise<void> => {
    runs.push({ ...(await train(label, seed, settings, options, isControl(kind))), kind });
  };
  const long = [`steps=${LONG_STEPS}`, 'evaluation.every=30'];
  if (kinds.includes('laptop')) for (const seed of seeds) await play('laptop', `seed ${seed}`, quick ? [`steps=${QUICK_STEPS}`] : [], seed);
  if (kinds.includes('short')) await play('short', `${SHORT_STEPS} steps`, [`steps=${SHORT_STEPS}`]);
  if (kinds.includes('negated')) await play('negated', 'negated', ['algorithm.negate_advantages=true', 'steps=20']);
  if (kinds.includes('long')) await play('long', `${LONG_STEPS} steps`, long);
  if (kinds.includes('frozen')) {
    const sampled = [`steps=${LONG_STEPS}`, NO_LEARNING, 'evaluation.every=0', 'rollouts.rollouts_per_example=2'];
    const base = await train('proposals of the base', seeds[0]!, sampled, options);
    await play('frozen', `frozen, ${LONG_STEPS} steps`, [...long, proposalsOf(join(base.directory, 'source/programs.jsonl'))]);
  }
  if (kinds.includes('grammar')) await play('grammar', 'grammar', ['evaluation.every=20', proposalsOf(drawnPrograms())]);
  return writeSelfPlayPage(runs, options);
}

function train(
  label: string,
  seed: number,
  settings: readonly string[],
  { settings: given, runs: output }: ProofOptions,
  control = false,
): Promise<ProvenRun> {
  const args = ['self-play-code', '--preset', 'laptop', '--seed', String(seed), '-o', output, ...setFlags([...settings, ...given])];
  return trainAlone({ label, isControl: control, args });
}

const PROPOSER = ['valid', 'statements', 'distinct', 'repeated', 'learnability', 'own_accuracy'] as const;

function evaluations({
  rows,
}: SelfPlayRun): { readonly step: number; readonly accuracy: number; readonly kinds: Readonly<Record<string, number>> }[] {
  return rows.flatMap(({ kind, step, values }) => {
    if (kind !== 'evaluation') return [];
    const kinds = Object.entries(values).filter(
      (entry): entry is [string, number] => /^reward\/.*code_/.test(entry[0]) && typeof entry[1] === 'number',
    );
    return [{ step, accuracy: values[ACCURACY] ?? NaN, kinds: Object.fromEntries(kinds) }];
  });
}

function recordOf(run: SelfPlayRun): object {
  const { label, kind, seconds, cpuSeconds, peakMemoryBytes, rows } = run;
  const steps = rows.filter((row) => row.kind === 'step');
  return {
    label,
    kind,
    seconds: Number(seconds.toFixed(1)),
    cpu_seconds: cpuSeconds,
    peak_memory_bytes: peakMemoryBytes,
    steps: stepsOf(run),
    held_out: evaluations(run),
    proposer: Object.fromEntries(PROPOSER.map((name) => [name, steps.map(({ values }) => values[`source/${name}`] ?? null)])),
    sampled_tokens: sampledTokens(run),
    execution_share: executionShare(run),
    log_prob_difference_max: worst(rows, 'log_prob_difference_max'),
  };
}

function sampledTokens({ rows }: SelfPlayRun): number {
  return rows.reduce((sum, { kind, values }) => sum + (kind === 'step' ? (values['sampled_tokens'] ?? 0) : 0), 0);
}

function writeSelfPlayPage(runs: readonly SelfPlayRun[], options: ProofOptions): readonly Verdict[] {
  const [long, frozen] = (['long', 'frozen'] as const).map((kind) => runs.find((run) => run.kind === kind));
  const compared = long === undefined || frozen === undefined ? [] : judgeFrozen(long, frozen);
  const shown = runs.map(({ label, rows, kind }) => ({ label, rows, control: isControl(kind) }));
  return writePage(options, {
    name: 'self-play',
    title: 'One policy invents programs and solves them, on a laptop',
    intro: [
      'Every run is `npx vf-train self-play-code --preset laptop` with Node alone, no Python, no GPU, no server. Held-out accuracy is that of 600 programs that no run was trained on, two draws each at temperature 1.',
      'Seconds are those of the whole command without the startup of npx.',
    ],
    plot: {
      svg: compareRuns(shown, { heading: 'Self-play over programs, Node alone', goals: [{ value: BARS.aim, label: 'aim' }] }),
      alt: 'Held-out accuracy by step',
    },
    body: [
      '## Held-out accuracy by step',
      '',
      ...accuracyTable(runs),
      '',
      '## What the proposer does',
      '',
      'Means of the first three steps → of the last ten. Of given programs, all are valid.',
      '',
      ...tableLines(['run', ...PROPOSER], runs.map(proposerCells)),
      '',
      '- *negated*: advantages with the other sign.',
      '- *frozen*: the proposals of the base in place of those of the policy, sampled before. The solver learns as in the long run.',
      '- *grammar*: programs drawn from the grammar of mini-python (two to five statements, for code_f two or three) in place of proposals; the table has the tokens that were sampled.',
    ],
    figures: { runs: runs.map(recordOf) },
    verdicts: [...runs.flatMap((run) => judgeSelfPlay(run, options)), ...compared],
  });
}

function accuracyTable(runs: readonly SelfPlayRun[]): string[] {
  const at = [...new Set(runs.flatMap((run) => evaluations(run).map(({ step }) => step)))].toSorted((a, b) => a - b);
  const cells = (run: SelfPlayRun) => {
    const byStep = new Map(evaluations(run).map(({ step, accuracy }) => [step, accuracy.toFixed(3)]));
    const tokens = `${Math.round(sampledTokens(run) / 1000)}k`;
    const megabytes = Math.round((run.peakMemoryBytes ?? NaN) / 1e6);
    return [run.label, ...at.map((step) => byStep.get(step) ?? ''), tokens, run.seconds.toFixed(0), run.cpuSeconds?.toFixed(0) ?? '', megabytes];
  };
  return tableLines(['run', ...at.map(String), 'tokens sampled', 'seconds', 'CPU seconds', 'MB'], runs.map(cells));
}

function proposerCells({ label, rows }: SelfPlayRun): string[] {
  const moved = PROPOSER.map((name) => ends(rows, `source/${name}`).map((value) => (Number.isNaN(value) ? '–' : value.toFixed(2))));
  return [label, ...moved.map((pair) => pair.join(' → '))];
}

function proposalsOf(file: string): string {
  return `environment.args.proposals=${JSON.stringify(file)}`;
}

/** Programs of one to five statements, for as many steps as a run has. */
function drawnPrograms(): string {
  const folder = mkdtempSync(join(tmpdir(), 'vf-programs-'));
  runRecipe('recipes.coder.tasks', ['--out', folder, '--seed', '7', '--held-out', '960']);
  return join(folder, 'heldout.jsonl');
}
