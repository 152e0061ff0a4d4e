/**
 * Supervised steps teach the nano model the form of a search in half a minute, with Node alone: demonstrations made from the fact world's train rows, one
 * `npx vf-train search-r1 -m nano-base --sft`, and the share of valid formats on the held-out questions. Making the demonstrations is not timed.
 */
import { mkdirSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { openTokenizer } from '../../src/tokenizer/open-tokenizer.ts';
import { modelTextTokenizer } from '../real-model/model-text.ts';
import { makeTranscripts, NANO, writeTranscripts } from '../real-model/transcripts.ts';
import type { Proof, ProofOptions } from './proof-options.ts';
import type { Verdict } from './results-page.ts';
import { beforeAndAfter } from './run-figures.ts';
import { ROOT, setFlags, trainAlone } from './train-once.ts';

const BARS = { end: 0.9, seconds: 30 };
const MODEL = join(ROOT, 'models/nano-base');
const WORLD = { dataset: 'fact-world', topk: 3, max_turns: 2 };
const SETTINGS = {
  'sft.batch_size': 16,
  'sft.steps': 20,
  'sft.warmup_steps': 2,
  'lora.rank': 8,
  'lora.alpha': 16,
  'rollouts.max_tokens': 64,
  'rollouts.max_concurrent': 64,
  'policy.embedded.cache_tokens': 8192,
  'backend.max_tokens': 2048,
  'evaluation.every': 1000,
};

export const SUPERVISED: Proof = {
  about: 'supervised steps teach the form of a search in half a minute; prints its figures and writes no page',
  flags: ['quick', 'runs'],
  prove: proveSupervised,
};

async function proveSupervised({ quick, runs: output }: ProofOptions): Promise<readonly Verdict[]> {
  mkdirSync(output, { recursive: true });
  const { transcripts, counts } = await makeTranscripts(WORLD, modelTextTokenizer(await openTokenizer(MODEL), MODEL), { wording: NANO });
  const data = join(output, 'transcripts.jsonl');
  writeTranscripts(data, transcripts);
  const flags = [
    '-m',
    'nano-base',
    '-a',
    JSON.stringify(WORLD),
    '--sft',
    data,
    '--embedded',
    '--lr',
    '0.002',
    '-o',
    mkdtempSync(join(output, 'run-')),
  ];
  const settings = Object.entries(SETTINGS).map(([key, value]) => `${key}=${value}`);
  const label = `${counts.written} demonstrations of ${counts.rows} train rows`;
  const run = await trainAlone({ label, args: ['search-r1', ...flags, ...setFlags(settings)] });
  const moved = (metric: string) => {
    const [before, after] = beforeAndAfter(run, metric);
    return { after, text: `${before.toFixed(3)} → ${after.toFixed(3)}` };
  };
  const format = moved('rubric/format_valid');
  return [
    { ok: format.after >= BARS.end, text: `valid format ${format.text}; at least ${BARS.end}; exact match ${moved('rubric/em').text}` },
    {
      ok: quick || run.seconds <= BARS.seconds,
      text: `${run.seconds.toFixed(1)} s from command to result; ${quick ? 'not judged' : `at most ${BARS.seconds} s`}`,
    },
  ];
}
