/**
 * Proves that supervised steps teach the nano model the form of a search in half a minute, with Node alone: demonstrations made from the fact world's train
 * rows, one `npx vf-train search-r1 -m nano-base --sft`, and the share of valid formats on the held-out questions. Making the demonstrations is not timed.
 *
 *   npm run prove:supervised             prints start, end and seconds, with their bars
 *   npm run prove:supervised -- --quick  does not judge the time, so the machine may be shared
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { openTokenizer } from '../src/tokenizer/open-tokenizer.ts';
import { ROOT } from './proof/training-proof.ts';
import { modelTextTokenizer } from './real-model/model-text.ts';
import { makeTranscripts, NANO, writeTranscripts } from './real-model/transcripts.ts';

const BARS = { end: 0.9, seconds: 30 };
const MODEL = join(ROOT, 'models/nano-base');
const WORLD = { dataset: 'fact-world', topk: 3, max_turns: 2 };

const { values: given } = parseArgs({ options: { quick: { type: 'boolean', default: false } } });
const output = join(ROOT, 'outputs/prove-supervised');
mkdirSync(output, { recursive: true });
const { transcripts, counts } = await makeTranscripts(WORLD, modelTextTokenizer(await openTokenizer(MODEL), MODEL), NANO);
const data = join(output, 'transcripts.jsonl');
writeTranscripts(data, transcripts);
process.stdout.write(`${counts.written} demonstrations of ${counts.rows} train rows\n`);

const path = mkdtempSync(join(tmpdir(), 'vf-node-alone-'));
symlinkSync(process.execPath, join(path, 'node'));
const runs = mkdtempSync(join(output, 'run-'));
const settings = {
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
const args = ['search-r1', '-m', 'nano-base', '-a', JSON.stringify(WORLD), '--sft', data, '--embedded', '--lr', '0.002', '-o', runs, '--plain'];
const sets = Object.entries(settings).flatMap(([key, value]) => ['--set', `${key}=${value}`]);
const startedAtMs = performance.now();
const { status, stderr } = spawnSync(process.execPath, [join(ROOT, 'bin/vf-train.js'), ...args, ...sets], {
  env: { PATH: path, HOME: process.env['HOME'] },
  encoding: 'utf8',
});
const seconds = (performance.now() - startedAtMs) / 1000;
if (status !== 0) throw new Error(`vf-train ended with ${status}:\n${stderr}`);

const folder = join(runs, 'train', readdirSync(join(runs, 'train'))[0]!);
const rows = readFileSync(join(folder, 'metrics.jsonl'), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as Record<string, number | string>);
const evaluations = rows.filter(({ kind }) => kind === 'evaluation');
const share = (name: string) => evaluations.map((row) => Number(row[`rubric/${name}`]));
const [formats, matches] = [share('format_valid'), share('em')];
const isFormatEnough = formats.at(-1)! >= BARS.end;
const isFastEnough = given.quick || seconds <= BARS.seconds;
process.stdout.write(
  [
    `valid format   ${formats[0]!.toFixed(3)} → ${formats.at(-1)!.toFixed(3)}   at least ${BARS.end}   ${isFormatEnough ? 'passed' : 'FAILED'}`,
    `exact match    ${matches[0]!.toFixed(3)} → ${matches.at(-1)!.toFixed(3)}`,
    `seconds        ${seconds.toFixed(1)}   ${given.quick ? 'not judged' : `at most ${BARS.seconds}   ${isFastEnough ? 'passed' : 'FAILED'}`}`,
    '',
  ].join('\n'),
);
process.exitCode = isFormatEnough && isFastEnough ? 0 : 1;
