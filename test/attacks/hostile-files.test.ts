/** Files of strangers of which every part is of the wrong kind, without end or leads elsewhere: each reader refuses its own in one line that names it. */
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { crc32, gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { ConfigError, VfError } from '../../src/core/errors.ts';
import { errorLine } from '../../src/cli/command-line.ts';
import { readAdapterSettings } from '../../src/engine/adapters/adapter-settings.ts';
import { readMetadata } from '../../src/evaluate/run-records.ts';
import { Folder } from '../../src/files/folder.ts';
import { readRecords } from '../../src/files/records.ts';
import { readTomlSync } from '../../src/files/toml-text.ts';
import { openBm25 } from '../../src/retrieval/bm25/open-bm25.ts';
import { buildIndexFolder } from '../../src/retrieval/bm25/build-index-folder.ts';
import { openTokenizer } from '../../src/tokenizer/open-tokenizer.ts';
import { resolveTrainingConfig } from '../../src/trainer/config/resolve-config.ts';
import { readAblation } from '../../src/trainer/records/ablation-directory.ts';
import { readManifest } from '../../src/trainer/records/checkpoint-manifest.ts';
import { readTrainingRun } from '../../src/trainer/records/training-directory.ts';
import { CONTRACT_PASSAGES } from '../contracts/retriever.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';

const ROOT = join(import.meta.dirname, '../..');
const NANO = join(ROOT, 'models/nano-base');
const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());
let made = 0;

/** A new folder with one file. */
function holding(name: string, contents: string | Uint8Array): string {
  const directory = join(folder.path, String(++made));
  mkdirSync(dirname(join(directory, name)), { recursive: true });
  writeFileSync(join(directory, name), contents);
  return directory;
}

type Attack = readonly [what: string, file: string, contents: string | Uint8Array, read: (directory: string) => unknown, message: RegExp];
const deep = (depth: number) => `${'{"x":'.repeat(depth)}1${'}'.repeat(depth)}`;

const ADAPTER = { peft_type: 'LORA', r: 4, lora_alpha: 8, target_modules: ['q_proj'] };
const adapter = (what: string, fields: object | string, message: RegExp): Attack => [
  `an adapter with ${what}`,
  'adapter_config.json',
  typeof fields === 'string' ? fields : JSON.stringify({ ...ADAPTER, ...fields }),
  (directory) => readAdapterSettings(new Folder(directory), 'adapter_config.json', { maxRank: 64 }),
  message,
];

const tokenizerJson = JSON.parse(readFileSync(join(NANO, 'tokenizer.json'), 'utf8')) as { readonly model: object };
function openChanged(directory: string): Promise<unknown> {
  for (const file of ['config.json', 'tokenizer_config.json', 'tokenizer.json']) cpSync(join(NANO, file), join(directory, file), { force: false });
  return openTokenizer(directory);
}
const tokenizer = (what: string, fields: object | string, message: RegExp): Attack => [
  `a tokenizer with ${what}`,
  'tokenizer.json',
  typeof fields === 'string' ? fields : JSON.stringify({ ...tokenizerJson, ...fields }),
  openChanged,
  message,
];
const split = (pattern: unknown) => ({
  pre_tokenizer: {
    type: 'Sequence',
    pretokenizers: [
      { type: 'Split', pattern, behavior: 'Isolated', invert: false },
      { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
    ],
  },
});

const template = (what: string, source: string, message: RegExp): Attack => [
  `a chat template ${what}`,
  'chat_template.jinja',
  source,
  async (directory) => {
    for (const file of ['config.json', 'tokenizer_config.json', 'tokenizer.json']) cpSync(join(NANO, file), join(directory, file));
    const opened = await openTokenizer(directory);
    opened.renderChat([{ role: 'user', content: 'x' }], { addGenerationPrompt: true, continueFinalMessage: false, variables: {} });
  },
  message,
];

const settings = (what: string, text: string | Uint8Array, message: RegExp): Attack => [
  `a config.toml with ${what}`,
  'config.toml',
  text,
  (directory) => {
    const path = join(directory, 'config.toml');
    return resolveTrainingConfig([{ source: path, table: readTomlSync(path) }]);
  },
  message,
];

const RUN = { schema_version: 2, run_id: 'r', started_at: '', finished_at: null, config_digest: '', attempts: [] };
const run = (what: string, fields: object | string, message: RegExp): Attack => [
  `a run.json with ${what}`,
  'run.json',
  typeof fields === 'string' ? fields : JSON.stringify({ ...RUN, ...fields }),
  readTrainingRun,
  message,
];
const metadata = (what: string, text: string | Uint8Array, message: RegExp): Attack => [
  `a metadata.json with ${what}`,
  'metadata.json',
  text,
  readMetadata,
  message,
];

const ABLATION = { schema_version: 1, name: 'a', started_at: '', finished_at: null, runs: [] as object[] };
const ablated = (fields: object) => ({ runs: [{ name: 'a', label: '', settings: {}, folder: null, state: 'planned', reason: null, ...fields }] });
const ablation = (what: string, fields: object | string, message: RegExp): Attack => [
  `an ablation.json with ${what}`,
  'ablation.json',
  typeof fields === 'string' ? fields : JSON.stringify({ ...ABLATION, ...fields }),
  readAblation,
  message,
];

const CHECKPOINT = { schema_version: 2, step: 1, version: 1, model: 'm', counters: {}, files: [] as object[] };
const NOTHING = createHash('sha256').update('').digest('hex');
const checkpoint = (what: string, fields: object | string, message: RegExp): Attack => {
  const content = { ...CHECKPOINT, ...(fields as object) };
  const text =
    typeof fields === 'string' ? fields : JSON.stringify({ ...content, sha256: createHash('sha256').update(JSON.stringify(content)).digest('hex') });
  return [`a checkpoint.json with ${what}`, 'checkpoint.json', text, readManifest, message];
};

const rows = (what: string, file: string, contents: string | Uint8Array, message: RegExp): Attack => [
  `rows in ${what}`,
  file,
  contents,
  async (directory) => {
    for await (const row of readRecords(join(directory, file), { maxLineBytes: 2 ** 20 })) void row;
  },
  message,
];
const parquet = readFileSync(join(ROOT, 'test/data/parquet/values.parquet'));
/** With the last four bytes before the mark, the length of the footer, or any other bytes replaced. */
const parquetWith = (at: number, bytes: readonly number[]) => {
  const changed = Buffer.from(parquet);
  changed.set(bytes, at < 0 ? changed.length + at : at);
  return changed;
};

let whole = '';
async function openForged(directory: string): Promise<void> {
  if (whole === '') {
    whole = join(folder.path, 'whole');
    const corpus = folder.write('corpus.jsonl', CONTRACT_PASSAGES.map((passage) => `${JSON.stringify(passage)}\n`).join(''));
    await buildIndexFolder({ corpus, target: whole });
  }
  const { crc32: _, ...sealed } = JSON.parse(readFileSync(join(whole, 'manifest.json'), 'utf8')) as Record<string, unknown>;
  const forged = { ...sealed, ...(JSON.parse(readFileSync(join(directory, 'changes.json'), 'utf8')) as object) };
  const index = join(directory, 'index');
  cpSync(whole, index, { recursive: true });
  writeFileSync(join(index, 'manifest.json'), JSON.stringify({ ...forged, crc32: crc32(JSON.stringify(forged)) }));
  const retriever = await openBm25(index);
  await retriever.close();
}
const index = (what: string, changes: object, message: RegExp): Attack => [
  `an index with ${what}`,
  'changes.json',
  JSON.stringify(changes),
  openForged,
  message,
];

const ATTACKS: readonly Attack[] = [
  adapter('a rank of 1e15', { r: 1e15 }, /^r in .* must be at most 64/),
  adapter('a rank of 1e999', '{"peft_type":"LORA","r":1e999,"lora_alpha":1,"target_modules":["q_proj"]}', /^r in .* must be a whole number from 1/),
  adapter('half a rank', { r: 1.5 }, /^r in .* must be a whole number/),
  adapter('a rank in a list', { r: [4] }, /^r in .* must be a whole number/),
  adapter('a negative alpha', { lora_alpha: -8 }, /^lora_alpha in .* must be a number above 0, got -8/),
  adapter('an alpha that is a table', { lora_alpha: { value: 8 } }, /^lora_alpha in .* must be a number above 0/),
  adapter('a number as its modules', { target_modules: 5 }, /^target_modules in .* must be a list of layer names/),
  adapter('modules in modules', { target_modules: [['q_proj']] }, /^target_modules in .* must be a list of layer names/),
  adapter('no modules', { target_modules: [] }, /^target_modules in .* must be a list of layer names/),
  adapter('layers that are text', { layers_to_transform: ['all'] }, /^layers_to_transform in .* must be whole numbers/),
  adapter('another kind of tuning', { peft_type: { __proto__: null, LORA: true } }, /^peft_type in .* must be "LORA"/),
  adapter('ranks by pattern', { rank_pattern: { '(a+)+$': 8 } }, /rank_pattern/),
  adapter('a list at the top', '[]', /adapter_config\.json/),
  adapter('objects without end', deep(300_000), /adapter_config\.json/),

  tokenizer('a pattern that is not text', split({ Regex: 7 }), /tokenizer\.json|tokenizer in /),
  tokenizer('a pattern that is not closed', split({ Regex: '((((' }), /The tokenizer in .* cannot be read/),
  tokenizer('a pattern that looks back without end', split({ Regex: `${'(?<='.repeat(2000)}a` }), /The tokenizer in .* cannot be read/),
  tokenizer('repetitions beyond all numbers', split({ Regex: 'a{999999999999,1}' }), /The tokenizer in .* cannot be read/),
  tokenizer('an id of four billion', { model: { ...tokenizerJson.model, vocab: { a: 4e9 } } }, /token a of .*tokenizer\.json has id 4000000000/),
  tokenizer(
    'an added id beyond all memory',
    { added_tokens: [{ id: 2 ** 52, content: 'x', special: true }] },
    /token x of .*tokenizer\.json has id 4503599627370496/,
  ),
  tokenizer('negative ids', { model: { ...tokenizerJson.model, vocab: { a: -1 } } }, /model in .*tokenizer\.json must have a table vocab/),
  tokenizer('merges of tokens that it lacks', { model: { ...tokenizerJson.model, merges: [[1, 2]] } }, /tokenizer/),
  tokenizer('another kind of model', { model: { type: 'WordPiece' } }, /model\.type in .*tokenizer\.json must be "BPE"/),
  tokenizer('objects without end', deep(300_000), /tokenizer\.json/),

  template('that calls itself without end', '{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}', /chat template/),
  template(
    'that doubles a text',
    "{% set n = namespace(t='x') %}{% for i in range(60) %}{% set n.t = n.t + n.t %}{% endfor %}",
    /more than [\d,]+ (?:characters|steps)/,
  ),
  template('with a range of billions', '{% for i in range(10**9) %}{% endfor %}', /chat template/),
  template('that reaches for the constructor', "{{ messages.constructor.constructor('return process')() }}", /chat template/),
  template('that includes a file', "{% include '/etc/passwd' %}", /chat template/),
  template('nested 5,000 deep', `${'{% if true %}'.repeat(5000)}${'{% endif %}'.repeat(5000)}`, /chat template/),
  template('of brackets without end', `{{ ${'('.repeat(50_000)}1${')'.repeat(50_000)} }}`, /chat template/),

  settings('tables without end', `[${'a.'.repeat(100_000)}a]\n`, /config\.toml|Unknown key|unknown/),
  settings('lists without end', `steps = ${'['.repeat(100_000)}${']'.repeat(100_000)}\n`, /config\.toml is not valid TOML/),
  settings('a number of 10 MB', `steps = "${'9'.repeat(10_000_000)}"\n`, /^steps/),
  settings('a key of 10 MB', `${'k'.repeat(10_000_000)} = 1\n`, /[Uu]nknown/),
  settings('a model of 10 MB', `[model]\npath = "${'m'.repeat(10_000_000)}"\n[environment]\nid = "x"\nsteps = 1\n`, /config\.toml|environment/),
  settings('a key of the prototype', '[__proto__]\nsteps = 1\n', /__proto__/),
  settings('bytes that are not text', Buffer.from([0x61, 0x3d, 0xff, 0xfe]), /config\.toml/),
  settings('steps of NaN', 'steps = nan\n', /^steps/),
  settings('steps beyond all numbers', 'steps = 99999999999999999999\n', /config\.toml|^steps/),

  run('a name that is a list', { name: [] }, /run\.json is not the record of a training run: name/),
  run('a list of attempts that is a table', { attempts: {} }, /run\.json is not the record of a training run: attempts/),
  run('inputs that are numbers', { inputs: { a: 1 } }, /run\.json is not the record/),
  run('another version', { schema_version: 99 }, /run\.json is not the record .*schema_version 99/),
  run('half of it', '{"schema_version": 2, "run_id', /run\.json is not the record .*not JSON/),
  run('objects without end', deep(300_000), /run\.json is not the record/),
  metadata('a list', '[]', /metadata\.json is not the metadata of a run/),
  metadata('nothing in it', '', /metadata\.json is not the metadata of a run: an empty line/),
  metadata('objects without end', deep(300_000), /metadata\.json is not the metadata/),
  metadata('null bytes', Buffer.alloc(4096), /metadata\.json is not the metadata .*not JSON/),
  ablation('a run that climbs', ablated({ folder: '../../../etc' }), /ablation\.json is not the record of an ablation: .*folder/),
  ablation('a run at an absolute path', ablated({ folder: '/etc' }), /ablation\.json is not the record of an ablation: .*folder/),
  ablation('a state of its own', ablated({ state: 'won' }), /ablation\.json is not the record of an ablation: .*state/),
  ablation('runs that are numbers', { runs: [1, 2] }, /ablation\.json is not the record of an ablation/),
  ablation('a name that is a table', { name: {} }, /ablation\.json is not the record of an ablation: name/),
  ablation('half of it', '{"schema_version": 1,', /ablation\.json is not the record .*not JSON/),
  checkpoint('a file that climbs', { files: [{ path: '../../secret', bytes: 0, sha256: NOTHING }] }, /checkpoint\.json is invalid: files.*path/),
  checkpoint('a file at an absolute path', { files: [{ path: '/dev/null', bytes: 0, sha256: NOTHING }] }, /checkpoint\.json is invalid: files.*path/),
  checkpoint('a negative step', { step: -1 }, /checkpoint\.json is invalid: step/),
  checkpoint('files that are a table', { files: {} }, /checkpoint\.json is invalid: files/),
  checkpoint('null', 'null', /checkpoint\.json is invalid/),

  index('a shard that climbs', { files: { '../../../etc/passwd': { bytes: 1, crc32: 1 } } }, /index/),
  index('no shards', { shards: [] }, /index/),
  index('a negative number of passages', { rows: -1 }, /missing or wrong fields/),
  index('shards that hold more than it has', { shards: [{ rows: 2 ** 50, terms: 2 ** 50, postings: 2 ** 50, frequencies: 2 ** 50 }] }, /index/),

  rows('a gz of one line of 300 MB', 'bomb.jsonl.gz', gzipSync(Buffer.alloc(300_000_000, 'x')), /^Line 1 of .*bomb\.jsonl\.gz is longer than/),
  rows('half a gz', 'half.jsonl.gz', gzipSync(`{"a":1}\n`.repeat(10_000)).subarray(0, 60), /half\.jsonl\.gz/),
  rows('a gz of no bytes', 'none.jsonl.gz', '', /none\.jsonl\.gz/),
  rows('a CSV with a quotation without end', 'open.csv', `a,b\n"${'x'.repeat(3_000_000)}`, /open\.csv/),
  rows('a Parquet file with a footer of 4 GB', 'footer.parquet', parquetWith(-8, [255, 255, 255, 255]), /footer\.parquet cannot be read as Parquet/),
  rows('a Parquet file with a footer of no bytes', 'footless.parquet', parquetWith(-8, [0, 0, 0, 0]), /footless\.parquet/),
  rows('half a Parquet file', 'half.parquet', parquet.subarray(0, parquet.length / 2), /half\.parquet cannot be read as Parquet/),
  rows('a Parquet file with damaged pages', 'pages.parquet', parquetWith(4, Array<number>(60).fill(255)), /pages\.parquet cannot be read as Parquet/),
];

describe('a hostile file', () => {
  it.each(ATTACKS)('is refused in one line that names it: %s', async (_, file, contents, read, message) => {
    const directory = holding(file, contents);
    const found = await Promise.resolve()
      .then(() => read(directory))
      .catch((error: unknown) => error);
    // Readers of checkpoints report.
    const problem = found instanceof VfError ? found.message : (found as { readonly problem?: string } | null)?.problem;
    expect(problem ?? found).toMatch(message);
    expect(errorLine(new ConfigError(problem!)).length).toBeLessThan(6000);
    expect(problem).not.toMatch(/\n|Cannot read properties|\.\w+ is not a function|is not iterable|Maximum call stack|Invalid array length/);
  });
});
